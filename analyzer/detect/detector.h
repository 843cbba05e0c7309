// The detector: records in, races out.
//
// Feed it every record of one log, in order; it applies synchronization to order::Causality. In the first pass it gives
// the accesses to Filter, which finds the words that a race may touch. In the second it gives those of such words to
// Shadow and collects the conflicts that nothing orders by pairs of sides. A further feeding of the same records
// through Counter finds which execution of its site each reported access was. find.h does all that.
//
// Thread-safety: none.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/consistency.h"
#include "analyzer/detect/filter.h"
#include "analyzer/detect/shadow.h"
#include "analyzer/detect/sides.h"
#include "analyzer/order/causality.h"
#include "analyzer/order/operation_clocks.h"
#include "deadheat/race.h"
#include "tracer/recorder/reader.h"

namespace deadheat::detect {

// A thread of a warp; a damaged trace's numbers are cut to what a key holds.
inline order::ThreadKey key_of(order::OperationIndex operation, const trace::Warp& warp, unsigned lane) {
  return order::ThreadKey(operation, warp.block, (warp.warp & 31) * 32 + lane);
}

// One side of one occurrence of a race.
struct Touch {
  order::ThreadKey thread;
  order::Stamp stamp = 0;
  PlaceId place = 0;
  friend auto operator<=>(const Touch&, const Touch&) = default;
};

struct FoundRace {
  RaceLevel level = RaceLevel::global;
  RaceClass race_class = RaceClass::data;
  Certainty certainty = Certainty::certain;
  Touch first, second;
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint64_t occurrences = 0;
  bool same_value = true; // as far as write-write pairs go
  bool any_write_pair = false;
  std::uint32_t allocation = 0;
  std::string why;
  std::vector<std::pair<Touch, Touch>> instances;
};

class Detector final : public trace::RecordVisitor {
 public:
  enum class Pass : std::uint8_t { filter, pairs };
  // The first pass fills `suspects`, the second reads them.
  Detector(Suspects& suspects, Pass pass);
  bool access(const trace::AccessView& access) override;
  bool record(trace::Record& record) override;

  // After the last record.
  std::vector<FoundRace> races() const; // ranked
  const Sides& sides() const { return sides_; }
  const order::OperationClocks& operations() const { return operations_; }
  struct LaunchInfo {
    std::uint32_t number = 0, operation = 0, stream = 0;
    trace::Launch launch;
  };
  order::OperationIndex operation_of(std::uint32_t launch) const; // by launch number; 0: unknown
  const LaunchInfo* launch_of(order::OperationIndex operation) const;
  const trace::Allocate* allocation(std::uint32_t id) const;
  const Summary& summary() const { return summary_; }
  // Places of float atomics that unordered threads made to the same bytes, with how often.
  const std::map<PlaceId, std::uint64_t>& order_dependent() const { return order_dependent_; }
  void add_order_dependent(const std::map<PlaceId, std::uint64_t>& more);
  std::vector<trace::MemoryError> memory_errors;
  std::vector<trace::SyncError> sync_errors;
  std::vector<std::string> incidents;
  bool refused = false; // the device did not run a launch that another would have run
  bool clean_end = false;
  const Consistency& consistency() const { return consistency_; }
  std::uint64_t assumed_edges() const { return causality_.assumed_edges(); }
  // Records that name a launch or site that does not exist, or more memory than there can be.
  std::uint64_t unknown() const { return unknown_; }
  // Accesses after memory ran out.
  std::uint64_t unchecked() const { return unchecked_; }

 private:
  static constexpr std::size_t most_instances = 16;
  struct PairKey {
    SideId a = 0, b = 0;
    RaceLevel level = RaceLevel::global;
    RaceClass race_class = RaceClass::data;
    Certainty certainty = Certainty::certain;
    friend auto operator<=>(const PairKey&, const PairKey&) = default;
  };
  struct WaitLoop {
    std::unordered_map<std::uint64_t, std::uint64_t> address;
    bool varied = false;
  };

  void conflict(Conflict conflict, const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap);
  std::string why(const MemoryAccess& first, const MemoryAccess& second) const;
  void strong_accesses(const trace::AccessView& view, const Site& site, MemoryAccess& access, std::uint64_t memory);
  void asynchronous_copy(const trace::AsyncCopy& copy);
  void touch(std::uint64_t memory, MemoryAccess& access, const Site& site, std::uint64_t address);
  void forget_shared(order::OperationIndex operation, const order::ThreadKey* block);
  bool steers_wait_loop(const MemoryAccess& access) const;
  void begin_operation(std::uint32_t id);
  void end_operation(std::uint32_t id);
  void allocated(const trace::Allocate& allocation);
  void freed(const trace::Free& free);
  void range(order::OperationIndex index, const std::string& api, AccessKind kind, const trace::MemoryRange& range,
             bool possible = false);
  std::uint32_t allocation_at(std::uint64_t address) const;

  Sides sides_;
  order::OperationClocks operations_;
  order::Causality causality_;
  const Pass pass_;
  Consistency consistency_;
  Filter filter_;
  Shadow shadow_;
  order::Stamp now_ = 0;
  std::uint64_t unknown_ = 0, unchecked_ = 0, range_pages_ = 0;
  Summary summary_;
  std::unordered_map<std::uint32_t, trace::Operation> submitted_; // by id, until they end
  std::unordered_map<std::uint32_t, order::OperationIndex> launches_; // by launch number
  std::unordered_map<order::OperationIndex, LaunchInfo> launch_infos_;
  std::map<std::uint32_t, trace::Allocate> allocations_;
  std::map<std::uint64_t, std::uint32_t> live_; // address → allocation
  std::map<PairKey, FoundRace> races_;
  std::map<PlaceId, std::uint64_t> order_dependent_;
  std::unordered_map<PlaceId, WaitLoop> wait_loops_;
};

} // namespace deadheat::detect
