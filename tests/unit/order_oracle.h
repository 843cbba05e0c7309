// An oracle for races: the axioms of the PTX memory consistency model (PTX ISA 9.0, section 8), said once more and
// naively, over a little execution. Quadratic and worse; shares no code with analyzer/.
//
// An execution is a list of events in the order in which they happened (every read sees the last write), each by one
// thread of one launch. Launches are those of a few streams, some of which need not wait for the one before them
// (programmatic dependent launch). Strong writes write values that occur once, so that a value tells which write a read
// saw.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "deadheat/memory_model.h"

namespace deadheat::test {

inline constexpr std::uint32_t blocks_per_launch = 2;
inline constexpr std::size_t most_events = 1024; // of an execution

struct Event {
  enum class Kind : std::uint8_t {
    access,
    fence,
    arrive, // at barrier `barrier`, phase `phase` of the block
    leave, // the same, after its completion
    block_barrier, // one event a thread; those of one barrier have one `group`
    warp_barrier, // the same
    copy_issue, // cp.async; its accesses are events of their own (`copy`)
    copy, // an access made by the copy that event `group` issued
    copy_commit,
    copy_arrive, // cp.async.mbarrier.arrive, performed at once: at object `barrier`, in phase `phase`
    copy_wait, // for all but the last `phase` groups of the thread
    cluster_arrive, // phase `phase`
    cluster_wait,
    mbarrier_arrive, // at object `barrier` of the block, in phase `phase`
    mbarrier_test, // has seen that phase complete
    bulk_issue, // cp.async.bulk; its accesses are events of their own (`bulk`), by a proxy of their own
    bulk, // an access made by the copy that event `group` issued
    bulk_complete, // of the copy that event `group` issued, on object `barrier`, in phase `phase`
    bulk_commit,
    bulk_wait, // for all but the last `phase` bulk groups of the thread; `relaxed`: their reads only
    // fence.proxy.async, of shared memory if `shared`, else of global memory; of both if `relaxed`. With a scope, one
    // of one direction: fence.proxy.async::generic if `of_shared`, else fence.proxy.tensormap::generic.
    proxy_fence,
    dependency_wait, // griddepcontrol.wait: the launch before, Launched::primary, is over
    launch_begin, // of no thread, as the next one; the launch is that of `block`
    launch_end,
    exit // orders nothing, and needs no rule: later barriers have no event of the thread
  };
  Kind kind = Kind::access;
  std::uint32_t block = 0, thread = 0; // blocks 0 and 1 are of the first launch, 2 and 3 of the second, and so on
  // of accesses and copies
  AccessKind access = AccessKind::read;
  bool shared = false; // in the block's shared memory
  std::uint64_t address = 0;
  std::uint32_t bytes = 4;
  Ordering ordering = Ordering::weak; // of fences too
  Scope scope = Scope::none;
  bool reduction = false; // red
  bool stored = true; // false: an atomic that did not store (a failed cas)
  std::uint64_t value_read = 0, value_written = 0; // of strong accesses; filled in by run()
  bool of_shared = false; // of fences: of what is done to shared memory only (.sync_restrict)
  bool continued = false; // the next element of a vector (8.2.2): after the event before, by the same instruction
  std::uint32_t owner = ~0u; // of accesses to shared memory: the block whose memory it is; ~0: its own
  std::uint32_t line = 0;
  // of barriers and groups
  std::uint32_t barrier = 0, phase = 0, group = 0;
  bool relaxed = false; // barrier.cluster.arrive.relaxed; of warp_barrier: a vote (shfl), which orders no memory
  bool unused = false; // of mbarrier_test and strong reads: nobody looks at the outcome
  bool polls = false; // of reads: in a loop that waits
  bool repeats = false; // of writes: what is there already
  bool together = false; // with the event before, whose instruction another lane of the warp executes
  std::uint32_t instruction = none; // of accesses: the event that executed the same one before; none: this is the first
  bool generic = false; // of bulk_issue and bulk: st.async, a write alone, through the generic proxy

  static constexpr std::uint32_t none = ~0u;
  std::uint32_t launch() const { return block / blocks_per_launch; }
  std::uint32_t memory_of() const { return owner == ~0u ? block : owner; }
  bool memory() const { return kind == Kind::access || kind == Kind::copy || kind == Kind::bulk; }
  bool reads() const { return memory() && access != AccessKind::write; }
  bool writes() const { return memory() && access != AccessKind::read && stored; }
  bool one_way() const { return kind == Kind::proxy_fence && scope != Scope::none; }
  bool strong() const { return is_strong(ordering) && (kind == Kind::access || kind == Kind::fence || one_way()); }
};

// How a launch was submitted, when it begins. All that it comes after is over then.
struct Launched {
  std::uint32_t stream = 2, device = 0; // every stream is of one device
  std::uint32_t waits_for = 0; // stream, for all that it has been given so far (cudaStreamWaitEvent); 0: none
  std::vector<std::uint32_t> after; // launches that are complete before it begins
  std::uint32_t primary = none; // the launch before it in its stream that it need not wait for
  static constexpr std::uint32_t none = ~0u;
};

struct Execution {
  std::vector<Event> events;
  // Empty: one launch that runs all the time, or two if events are of a second one, which need not wait for the first
  // and finds that over when one of its threads waits.
  std::vector<Launched> launches;
  std::uint32_t blocks_per_cluster = 1, threads_per_block = 64;
  bool named_lanes = false; // barriers of warps are of the lanes that have events of them, and of no others
};

// Executes the events one after another: fills in which values strong accesses read and write.
void run(Execution& execution);

// Pairs of events (indices, first < second) that are a data race (8.7.1).
using EventPairs = std::set<std::pair<std::size_t, std::size_t>>;
// `needed_only`: of Fence-SC order (8.9.3), and of what reads that nobody looks at have observed in any case, only
// as much is used as a detector need know (order_oracle.cpp): more races.
EventPairs data_races(const Execution& execution, bool needed_only = false);

// Of accesses that overlap: what the axioms say of two of them.
struct Overlaps {
  EventPairs races; // 8.7.1
  EventPairs strong; // the same, but that they are morally strong (8.7)
  EventPairs ordered; // the first comes before the second (8.9.5)
};
Overlaps overlaps(const Execution& execution, bool needed_only = false);

// Base causality order (8.9.5): does event a come before event b? As far as accesses to global memory behind reads are
// concerned.
std::vector<std::vector<bool>> base_causality(const Execution& execution);

} // namespace deadheat::test
