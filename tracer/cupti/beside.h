// Launches that ran beside each other and may have told each other something by strong accesses: kernels in two streams
// that hand each other messages by flags in memory, as an all-reduce does. What they did is put in order together
// (device_log::LaunchLog::put_in_order), so that who waited comes behind who was waited for.
//
// A launch that may is held back once its submission is written, until something is to be written that may have to come
// after it. Another that is submitted meanwhile, in another stream of the same context, joins it. Then all begin, what
// they did is written, and all end: in the log of a GPU two launches that run at the same time are so ordered.
// What is not held back: launches in the legacy default stream, which come before and after what other streams do; more
// than `most` at once. A launch of which too much has come is written by itself, and so are those that it was held back
// with.
//
// Thread-safety: none; the journal's writer calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/recorder/writer.h"

namespace deadheat::cupti {

class RecordedLaunch;

class Beside {
 public:
  void stream_made(const trace::StreamCreate& stream);
  // May it be held back, with those that are? accesses: null: they are not recorded.
  bool takes(std::uint32_t stream, const RecordedLaunch* accesses) const;
  void add(std::uint32_t operation, std::uint32_t stream, std::shared_ptr<RecordedLaunch> accesses);
  // Something else is to be written. False: it has to wait.
  bool write(trace::TraceWriter& writer, bool last_chance);
  // Nothing is, now: what came is looked at, and written where nothing else comes for long.
  void look(trace::TraceWriter& writer);

 private:
  static constexpr std::size_t most = 8;
  static constexpr std::chrono::seconds patience{1};
  struct Launch {
    std::uint32_t operation = 0, stream = 0;
    std::shared_ptr<RecordedLaunch> accesses;
    bool begun = false, over = false; // what it did is written
  };
  enum class Came { all, more, apart };
  Came came(trace::TraceWriter& writer, bool last_chance);
  bool write_one_by_one(trace::TraceWriter& writer, bool last_chance);
  void write_together(trace::TraceWriter& writer);
  bool end(trace::TraceWriter& writer, bool last_chance);

  std::vector<Launch> open_;
  std::unordered_set<std::uint32_t> legacy_{1}; // streams
  bool apart_ = false; // they are written one by one
  std::optional<std::chrono::steady_clock::time_point> complete_; // since when nothing more of them is to come
};

} // namespace deadheat::cupti
