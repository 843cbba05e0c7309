// A worker of the detector: a log's records in, races in its parts of memory out.
//
// Every worker is fed all batches of a log and applies all synchronization to an order::Causality of its own; it looks
// at accesses to the parts of memory that it was given. In the first pass it gives them to Filter, which finds the
// words that a race may touch. In the second it gives those of such words to Shadow and collects the conflicts that
// nothing orders by pairs of sides. Where there are flagged reads a third pass gives them to Refills. find.h does all
// that, with as many workers as there are cores.
//
// When its memory runs short it gives parts up, together with what it found out about them; somebody has to look at
// them in another go.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyzer/detect/batch.h"
#include "analyzer/detect/consistency.h"
#include "analyzer/detect/filter.h"
#include "analyzer/detect/findings.h"
#include "analyzer/detect/heard_places.h"
#include "analyzer/detect/refills.h"
#include "analyzer/detect/shadow.h"
#include "analyzer/detect/sides.h"
#include "analyzer/detect/wait_loops.h"
#include "analyzer/order/causality.h"
#include "analyzer/order/operation_clocks.h"
#include "deadheat/race.h"
#include "tracer/recorder/reader.h"

namespace deadheat::detect {

// A thread of a warp; a damaged trace's numbers are cut to what a key holds.
inline order::ThreadKey key_of(order::OperationIndex operation, const trace::Warp& warp, unsigned lane) {
  return order::ThreadKey(operation, warp.block, (warp.warp & 31) * 32 + lane);
}

class Detector {
 public:
  using Flagged = std::function<ptx::FlaggedReads(const trace::Module&)>;
  enum class Pass : std::uint8_t { filter, pairs, refills }; // the last one by one worker
  struct Setup {
    Pass pass = Pass::filter;
    unsigned worker = 0;                  // whose lists of a batch to play
    unsigned workers = 1;
    Share share;                          // of memory, to look at
    bool may_halve = false;               // a part that has no room alone is given up, too: halved()
    std::uint64_t memory_limit = ~0ull;   // bytes, of what is remembered of memory
    bool everything_to_all = false;       // Routing::everything_to_all
    const WaitLoops* wait_loops = nullptr; // of the second pass: what the first found
    bool several_devices = false;          // from the start: there are launches of several
    bool one_by_one = false;               // of the third pass: OperationClocks::one_by_one() of all of the log
    const HeardPlaces* heard = nullptr;    // of the third pass: what the first found, in all of memory
    Flagged flagged;
    Shadow::Taken taken;
    WordBounds bounds;
    std::uint32_t most_operations = order::largest_operation; // that are looked at
  };
  // The first pass fills `suspects`, the second reads them.
  Detector(Suspects& suspects, const Setup& setup);
  Detector(const Detector&) = delete;
  Detector& operator=(const Detector&) = delete;

  void play(const Batch& batch);

  // ---- After the last batch.
  const Partitions& active() const { return share_.parts; } // without those given up
  // A part that had no room alone, and the slices that are to be looked at in its place.
  struct Halved {
    unsigned part = 0;
    std::array<Slice, 2> slices;
  };
  const std::optional<Halved>& halved() const { return halved_; }
  const PartFindings& findings(unsigned partition) const { return findings_[partition]; }
  // Accesses came that a worker has to know of who did not get them, if not everything went to all: weak records of
  // strong accesses, from which something follows for all, and what touches a page that it does not begin in.
  bool strays() const { return strays_ || (filter_.crossed() && !everything_to_all_); }
  // Several devices were at work, where it had taken a scope of one device for one of all.
  bool unexpected_device() const {
    return (covers_device_ || causality_.took_device_for_all()) && operations_.several_devices();
  }
  // Blocks use the shared memory of others of their cluster.
  bool peers() const { return peers_; }
  // Of the first pass: there are vectors that carry data beside a flag.
  bool flagged_reads() const;
  const HeardPlaces& heard() const { return heard_; } // by the worker's memory, for such vectors' sake
  const Refills& refills() const { return refills_; }
  // Of the third pass: how often what threads know of each other took more memory than there may be. All before counts
  // as ordered before all behind.
  std::uint64_t stretches() const { return stretches_; }
  const WaitLoops& wait_loops() const { return wait_loops_; }
  const std::set<std::pair<SideId, SideId>>& uncertain() const { return shadow_.uncertain(); }

  // Another worker's, or one of another go: what is asked about its findings' operations is known here, too.
  void know_of_findings(const Detector& other) { operations_.keep_those_of(other.operations_); }

  // ---- After the last batch, the same in all workers.
  const Sides& sides() const { return sides_; }
  const order::OperationClocks& operations() const { return operations_; }
  struct LaunchInfo {
    std::uint32_t number = 0, operation = 0, stream = 0;
    const std::string& called_at;
    const trace::Launch& launch; // without its arguments and footprint
    order::OperationIndex alike = 0; // the first launch of this kernel from a stream with the same maker
    bool begun = false, silent = false; // silent: it had begun when the device was noted to have gone silent
    bool torn = false; // records are missing from when it might have run
  };
  order::OperationIndex operation_of(std::uint32_t launch) const; // by launch number; 0: unknown
  order::IdTable<order::OperationIndex> take_launches() { return std::move(launches_); } // by launch number
  const LaunchInfo* launch_of(order::OperationIndex operation) const;
  // Recorded launches that went silent, and did not end: who came to their barriers is known, nothing is missing.
  std::vector<const LaunchInfo*> silent() const;
  const trace::Allocate* allocation(std::uint32_t id) const;
  const Summary& summary() const { return summary_; }
  std::vector<trace::MemoryError> memory_errors;
  std::vector<trace::SyncError> sync_errors;
  std::vector<std::string> incidents;
  bool refused = false; // the device did not do what another would have done: a launch, a call
  bool lossy = false; // accesses are missing, as the recording says itself
  bool clean_end = false;
  const Consistency& consistency() const { return consistency_; }
  std::uint64_t assumed_edges() const { return causality_.assumed_edges(); }
  std::size_t copies_remembered() const { return causality_.groups(); } // asynchronous ones
  // How often records were missing, or contradicted those before, with others behind them.
  std::uint64_t gaps() const { return gaps_; }
  static constexpr std::uint64_t most_gaps = 1024; // beyond, nothing that follows is compared with anything
  // Of the unknown records, those that may have ordered others: all before such a one counts as ordered, too.
  std::uint64_t hiding() const { return hiding_; }
  std::uint64_t operations_left_out() const { return operations_left_out_; } // behind Setup::most_operations
  // Records that name a launch or site that does not exist, or more memory than there can be; weak accesses are counted
  // with the parts.
  std::uint64_t unknown() const { return unknown_; }

 private:
  void record(trace::Record& record);
  void missing(); // records, here
  bool torn(order::OperationIndex operation) const {
    const LaunchInfo* info = gaps_ ? launch_of(operation) : nullptr;
    return info && info->torn;
  }
  // What accesses of a site do to memory; looked up once for many of them.
  struct AccessSite {
    std::uint32_t module = ~0u, number = ~0u;
    PlaceId place = 0; // 0: unknown
    const Site* site = nullptr;
    std::uint32_t lane_bytes = 0;
    bool strong = false, write = false, non_coherent = false;
  };
  const AccessSite& access_site(std::uint32_t module, std::uint32_t site) const {
    AccessSite& known = access_sites_[(site ^ module << 3) % access_sites_.size()];
    if (known.module != module || known.number != site) [[unlikely]]
      look_up(module, site, known);
    return known;
  }
  void look_up(std::uint32_t module, std::uint32_t site, AccessSite& to) const;
  void weak(const Batch& batch, const WeakAccess& access);
  void weak_lanes(const Batch& batch, const WeakAccess& access, const AccessSite& known,
                  order::OperationIndex operation, std::uint64_t memory);
  // A strong access of a warp: what its lanes have in common, and what the last one that was asked for does.
  struct StrongOfWarp {
    MemoryAccess access;
    order::StrongAccess strong;
  };
  static StrongOfWarp strong_of(const Site& site, PlaceId place);
  // Where the lane's is, now; nothing: that is not known, which is counted.
  std::optional<order::Location> strong_lane(const StrongAccesses& all, order::OperationIndex operation,
                                             const StrongView::Lane& lane, StrongOfWarp& of);
  void strong(const StrongView& view);
  std::uint64_t bytes() const { return filter_.bytes() + shadow_.bytes() + refills_.bytes(); }
  void shed();
  std::optional<std::array<Slice, 2>> halves() const;
  void leave_for_later();
  PartFindings& part(std::uint64_t memory, std::uint64_t address) {
    return findings_[partition_of(memory, address / page_bytes)];
  }

  void conflict(Conflict conflict, const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap);
  bool are_to_be_ordered(const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap) const;
  void race(RaceClass race_class, const MemoryAccess& first, const MemoryAccess& second, const Overlap& overlap);
  // Of the third pass.
  void comes_to(const trace::Warp& warp, std::uint32_t mask, std::uint32_t module, std::uint32_t site,
                std::uint64_t memory = 0, std::uint64_t address = Refills::nowhere);
  void note_heard(const StrongView& view, std::uint32_t of_worker, order::OperationIndex operation,
                  std::uint32_t bytes);
  void hand_over(const StrongView& view, order::OperationIndex operation, PlaceId place);
  void follow(trace::Record& record);
  std::string why(const MemoryAccess& first, const MemoryAccess& second) const;
  bool lacks_proxy_fence(const MemoryAccess& first, const MemoryAccess& second) const;
  bool issue_unordered(const MemoryAccess& first, const MemoryAccess& second) const;
  bool is_bulk_copy(const MemoryAccess& access) const; // of a value, too (st.async)
  Code code(const Touch& touch) const;
  const MemoryAccess* plain_read(const MemoryAccess& first, const MemoryAccess& second) const;
  bool looks_for(const MemoryAccess& read, const MemoryAccess& write) const;
  order::Stamp last_known(const MemoryAccess& first, order::ThreadKey second) const;
  bool steers_wait_loop(const MemoryAccess& access) const;
  void asynchronous_copy(const trace::AsyncCopy& copy);
  void filter_copy(const trace::AsyncCopy& copy, std::uint64_t memory, order::ThreadKey lane0,
                   const std::array<order::AsyncGroup, 32>& groups);
  static bool multiplies(const Site& site) { return site.opcode.starts_with("wgmma"); } // or waits for that
  void bulk_copy(const trace::BulkCopy& copy);
  void mbarrier(const trace::Mbarrier& record);
  void touch_object(const trace::Mbarrier& record, PlaceId place, order::ThreadKey lane0, std::uint32_t lanes,
                    const order::Location& object);
  void fence(const trace::Fence& fence);
  const Site* site_of(std::uint32_t module, std::uint32_t site) const;
  bool is_anothers(std::uint8_t owner) const { return owner != Batch::anybody && owner != worker_; }
  // The memory that the block `rank` - 1 of the cluster of `block` shares, or `block` itself for 0; 0: there is none.
  std::uint64_t shared_memory(order::OperationIndex operation, std::uint32_t block, std::uint64_t rank);
  // Counts an access that comes when no room is left. False: there was nothing to look at here.
  bool leave_out(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes);
  void touch(std::uint64_t memory, MemoryAccess& access, const Site& site, std::uint64_t address);
  void forget_shared(order::OperationIndex operation, const order::ThreadKey* block);
  void begin_operation(std::uint32_t id);
  void end_operation(std::uint32_t id);
  void host_function_wrote(std::uint32_t id, const std::vector<trace::Span>& changed);
  void allocated(const trace::Allocate& allocation);
  void freed(const trace::Free& free);
  void heap_block(const trace::HeapBlock& block);
  void heap_free(const trace::HeapFree& free);
  void new_owner(std::uint64_t address, std::uint64_t bytes); // accesses up to now were to other memory
  PlaceId place(order::OperationIndex index, const std::string& api, AccessKind kind) {
    return sides_.operation(api, kind, operations_.stream(index));
  }
  void range(order::OperationIndex index, PlaceId place, const trace::MemoryRange& range, bool possible = false);
  const trace::Launch& kind_of(const trace::Launch& launch);
  const std::string& demangled(const std::string& kernel);
  std::uint32_t allocation_at(std::uint64_t address) const;

  const Pass pass_;
  const unsigned worker_;
  const std::uint64_t memory_limit_;
  const std::uint32_t most_operations_;
  const bool everything_to_all_;
  const WaitLoops* const known_wait_loops_;
  const bool may_halve_;
  Share share_;
  bool all_active_; // of all parts that are the worker's
  std::optional<Halved> halved_;
  bool full_ = false, strays_ = false, peers_ = false, covers_device_ = false;
  bool slots_ = false; // there is code with flagged reads
  bool begun_ = false; // of the third pass: there was such a read
  HeardPlaces heard_;
  const HeardPlaces* const known_heard_;
  std::uint64_t stretches_ = 0;
  bool lanes_untold_ = false; // that lanes of a warp exchange values is in no record
  std::vector<PartFindings> findings_{partitions};
  Sides sides_;
  mutable std::array<AccessSite, 64> access_sites_;
  order::OperationClocks operations_;
  order::Causality causality_;
  Consistency consistency_;
  Filter filter_;
  Shadow shadow_;
  const Flagged flagged_reads_of_; // of a module; empty: none are known
  std::map<std::uint32_t, ptx::FlaggedReads> flagged_; // by module
  Refills refills_;
  WaitLoops wait_loops_;
  order::Stamp now_ = 0;
  std::array<std::uint8_t, 2> owners_{}; // Batch::Common's, of the record at hand
  std::uint64_t unknown_ = 0, gaps_ = 0, hiding_ = 0, operations_left_out_ = 0;
  Summary summary_;
  std::unordered_map<std::uint32_t, trace::Operation> submitted_; // by id, until they end
  std::set<std::uint32_t> host_functions_; // that run
  std::unordered_map<std::uint32_t, std::vector<trace::Span>> effects_; // of operations that have not begun
  order::IdTable<order::OperationIndex> launches_; // by launch number
  mutable std::pair<std::uint32_t, order::OperationIndex> recent_launch_{0, 0};
  std::unordered_map<order::OperationIndex, LaunchInfo> launch_infos_;
  struct LaunchOrder {
    bool operator()(const trace::Launch& a, const trace::Launch& b) const;
  };
  std::set<trace::Launch, LaunchOrder> kinds_; // of launches
  std::unordered_set<std::string> call_sites_; // of launches
  std::unordered_map<std::string, std::string> demangled_;
  std::map<std::pair<std::string, std::string>, order::OperationIndex> first_launches_; // by kernel and stream's maker
  // Barriers (operation, block, barrier) of torn launches that completed since records were missing last.
  std::set<std::tuple<order::OperationIndex, std::uint32_t, std::uint32_t>> seen_since_;
  std::map<std::uint32_t, trace::Allocate> allocations_;
  std::map<std::uint64_t, std::uint32_t> live_; // address → allocation
  std::map<std::uint64_t, std::uint64_t> heap_blocks_; // of kernels' heaps: address → bytes, as malloc gave them last
};

} // namespace deadheat::detect
