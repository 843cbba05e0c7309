// A recorded run, ready to be executed again: the commands of one log, and the run of them under a schedule.
//
// Thread-safety: none; one embedded device at a time.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/race.h"
#include "deadheat/schedule.h"
#include "deadheat/trace.h"
#include "replay/device/device.h"
#include "replay/engine/shadow.h"
#include "replay/search/outputs.h"
#include "replay/search/window.h"

namespace deadheat::search {

// What a run that carries doubles gives besides (engine/shadow.h).
struct ShadowedRun {
  struct Element { // of an output, that has a shadow
    std::uint32_t operation = 0;
    std::uint64_t address = 0; // device address
    engine::Shadow shadow;
  };
  std::vector<Element> elements;
  std::map<std::uint64_t, engine::Accumulation> sums; // by place
  std::map<std::uint64_t, RaceSide> places; // of `where` and `sum` of the above
  std::uint64_t restarts = 0;
};

struct Run {
  Outputs outputs;
  device::ChoiceSummary choices;
  std::vector<Switch> switches;
  std::vector<OldRead> old_reads;     // reads that returned older values than the newest
  bool holds_kept = true;             // every hold took effect: the accesses came in the order asked for
  std::string hold_trouble;           // why not, one line
  std::size_t commands = 0;           // commands applied before the end or the first difference
};

// Visible operations after which a run counts as hanging, when the natural one has `visible`.
inline std::uint64_t hang_budget(std::uint64_t visible) { return std::max<std::uint64_t>(visible * 50, 1'000'000); }

class Session {
 public:
  // Loads the commands of the log in `trace` that has operations (the first, if several do).
  static Expected<Session> open(const std::string& trace);

  // Executes the commands under `schedule`. With `reference`, stops as soon as an output differs from it. With a
  // `budget`, a run of more visible operations counts as hanging.
  // `performed`, where given, gets the visible operations. `chooser`, where given, drives the run. With `shadowed`,
  // every floating-point value carries a double.
  Expected<Run> run(const Schedule& schedule, const Outputs* reference = nullptr, std::uint64_t budget = 0,
                    std::vector<device::Performed>* performed = nullptr, device::Chooser* chooser = nullptr,
                    ShadowedRun* shadowed = nullptr) const;
  // The same session with other bytes in memory that nobody wrote.
  Session with_garbage(std::uint64_t number) const {
    Session other = *this;
    other.garbage_ = number;
    return other;
  }
  // The first of its commands, as a session of their own. Host functions that still run then end behind them.
  Session first(std::size_t commands) const;
  // The launch that an operation is; null: it is none.
  const trace::Launch* launch(std::uint32_t operation) const;
  // An operation that it comes after: the one before it in its stream; of a graph's node one that it depends on. 0:
  // none.
  std::uint32_t before(std::uint32_t operation) const;
  // The site of a module of the trace; null: there is none.
  const Site* site(std::uint32_t module, std::uint32_t site) const;

  // Executes the commands under `schedule` and records every access into a trace of its own. A run that faults or hangs
  // leaves what it recorded; so does one in which a condition of a graph is another than in the recorded run, since
  // from there on something else would have run. That is what false says.
  Expected<bool> record(const Schedule& schedule, const std::string& directory, std::uint64_t budget = 0) const;

  const Outputs& recorded() const { return recorded_; } // what the host received when the trace was made
  bool broke_off() const { return broke_off_; } // a fault or a hang ended the recorded run
  bool knows_recorded() const { return !moved_; } // a GPU's trace does not say it
  // What the bytes mean that the host received; reads the trace's accesses on first use.
  Expected<const ValueTypes*> value_types() const;

  // Copies inside device memory whose destination no copy reads; none where that is not known.
  std::vector<std::pair<std::uint32_t, trace::MemoryRange>> unread_copies() const;

  // Writes the commands as a trace of their own.
  Expected<void> save(const std::string& directory) const;
  std::size_t size() const { return commands_.size(); }

 private:
  device::DeviceOptions device_options(const Schedule& schedule, std::uint64_t budget) const;
  std::string text_of(const trace::MemoryError& fault) const; // one line
  Expected<std::vector<std::uint8_t>> blob(const trace::BlobHash& hash) const;

  std::string trace_;
  std::uint64_t garbage_ = 0;
  trace::Process process_;
  std::optional<trace::Device> device_; // of a recording of the embedded device
  Expected<void> take(std::vector<trace::Record> records); // of a GPU's run
  const std::map<std::uint32_t, trace::MemoryRange>& rows() const; // that copies of several rows read, by operation

  Commands commands_;
  Outputs recorded_;
  bool broke_off_ = false;
  std::optional<Relocation> moved_; // of a window out of a GPU's run
  std::map<std::uint32_t, trace::Allocate> places_; // likewise, by allocation
  std::uint64_t memory_bytes_ = 0; // device memory that the commands need, where it is known
  mutable std::map<trace::BlobHash, std::shared_ptr<const std::vector<std::uint8_t>>> blobs_;
  mutable std::shared_ptr<ValueTypes> types_;
  mutable std::optional<std::map<std::uint32_t, trace::MemoryRange>> rows_;
  std::shared_ptr<device::ModuleCache> modules_ = device::make_module_cache(); // code compiled once for all runs
};

} // namespace deadheat::search
