// The detector: records in, races out.
//
// Feed it every record of one log, in order; it applies synchronization to order::Causality and accesses to Shadow and
// collects the conflicts that nothing orders by pairs of sides. A second feeding of the same records through Counter
// finds which execution of its site each reported access was.
//
// Thread-safety: none.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/shadow.h"
#include "analyzer/detect/sides.h"
#include "analyzer/order/causality.h"
#include "analyzer/order/operation_clocks.h"
#include "deadheat/race.h"
#include "tracer/recorder/reader.h"

namespace deadheat::detect {

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
  bool same_value = true;        // as far as write-write pairs go
  bool any_write_pair = false;
  std::uint32_t allocation = 0;
  std::string why;
  std::vector<std::pair<Touch, Touch>> instances;
};

class Detector final : public trace::RecordVisitor {
 public:
  Detector();
  bool access(const trace::AccessView& access) override;
  bool record(trace::Record& record) override;

  // After the last record.
  std::vector<FoundRace> races() const; // ranked
  const Sides& sides() const { return sides_; }
  const order::OperationClocks& operations() const { return operations_; }
  struct LaunchInfo { std::uint32_t number = 0, operation = 0, stream = 0; trace::Launch launch; };
  const LaunchInfo* launch_of(order::OperationIndex operation) const;
  const trace::Allocate* allocation(std::uint32_t id) const;
  const Summary& summary() const { return summary_; }
  // Places of float atomics that unordered threads made to the same bytes, with how often.
  const std::map<PlaceId, std::uint64_t>& order_dependent() const { return order_dependent_; }
  std::vector<trace::MemoryError> memory_errors;
  std::vector<trace::SyncError> sync_errors;
  std::vector<std::string> incidents;
  bool clean_end = false;

 private:
  static constexpr std::size_t most_instances = 16;
  struct PairKey {
    SideId a = 0, b = 0;
    RaceLevel level = RaceLevel::global;
    RaceClass race_class = RaceClass::data;
    Certainty certainty = Certainty::certain;
    friend auto operator<=>(const PairKey&, const PairKey&) = default;
  };
  struct WaitLoop { std::unordered_map<std::uint64_t, std::uint64_t> address; bool varied = false; };

  void conflict(Conflict conflict, const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap);
  std::string why(const MemoryAccess& first, const MemoryAccess& second) const;
  bool steers_wait_loop(const MemoryAccess& access) const;
  void begin_operation(std::uint32_t id);
  void end_operation(std::uint32_t id);
  void allocated(const trace::Allocate& allocation);
  void freed(const trace::Free& free);
  void range(order::OperationIndex index, const std::string& api, AccessKind kind, const trace::MemoryRange& range,
             bool possible = false);
  order::OperationIndex operation_of(std::uint32_t launch) const; // 0: unknown
  std::uint32_t allocation_at(std::uint64_t address) const;

  Sides sides_;
  order::OperationClocks operations_;
  order::Causality causality_;
  Shadow shadow_;
  order::Stamp now_ = 0;
  Summary summary_;
  std::unordered_map<std::uint32_t, trace::Operation> submitted_; // by id, until they end
  std::unordered_map<std::uint32_t, order::OperationIndex> launches_; // by launch number
  std::unordered_map<order::OperationIndex, LaunchInfo> launch_infos_;
  std::map<std::uint32_t, trace::Allocate> allocations_;
  std::map<std::uint64_t, std::uint32_t> live_; // address → allocation
  std::map<PairKey, FoundRace> races_;
  std::map<PlaceId, std::uint64_t> order_dependent_;
  std::unordered_map<PlaceId, WaitLoop> wait_loops_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, order::Stamp> warp_values_; // (block bits, warp) → last shfl, vote
};

// Counts executions: nth of each wanted (thread, place, stamp).
class Counter final : public trace::RecordVisitor {
 public:
  // `wanted`: what to look up; `launches`: launch number → operation index, as the Detector numbered them.
  Counter(const Detector& detector, const std::set<Touch>& wanted);
  bool access(const trace::AccessView& access) override;
  bool record(trace::Record& record) override;
  std::uint64_t nth(const Touch& touch) const;

 private:
  void count(const trace::Warp& warp, std::uint32_t module, std::uint32_t site, std::uint32_t mask);
  const Detector& detector_;
  order::Stamp now_ = 0;
  std::set<std::pair<std::uint32_t, std::uint32_t>> sites_;   // (module, site) that are wanted
  std::unordered_map<std::uint32_t, std::uint32_t> launches_; // launch number → operation index
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> counts_; // (thread, module<<32|site)
  std::map<std::pair<std::uint64_t, order::Stamp>, std::uint64_t> nth_;     // (thread, stamp)
  std::set<std::pair<std::uint64_t, order::Stamp>> wanted_;
};

} // namespace deadheat::detect
