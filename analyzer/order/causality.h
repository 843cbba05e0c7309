// Causality inside and across launches: the PTX memory model's synchronization rules (PTX ISA 9.0, section 8.9.4 and
// 8.9.5), applied to synchronization events in an order in which they can have happened.
//
// Rules: program order; bar/barrier {sync, red, arrive} → {sync, red} of the same phase; bar.warp.sync among its mask;
// a release pattern on M synchronizes with an acquire pattern on M when a write of the former precedes a read of the
// latter in observation order (through a chain of read-modify-writes, each link morally strong) and the pattern's
// first and last operation are morally strong; cluster barriers; cp.async groups; mbarrier phases; the order of
// operations (OperationClocks).
//
// Fence-SC order (8.9.3) orders any two morally strong fence.sc operations in the order that the run happened to take.
// That accident is not used: two fences order nothing here unless a value passes between their threads. What such an
// edge would add is an order that another run need not have.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "analyzer/order/clock.h"
#include "analyzer/order/operation_clocks.h"
#include "deadheat/memory_model.h"

namespace deadheat::order {

// A location of strong accesses: an address in global memory, or in the shared memory of a block.
struct Location {
  std::uint64_t block = 0; // 0: global memory; else ThreadKey::block_bits + 1 of the block whose memory it is
  std::uint64_t address = 0;
  friend bool operator==(const Location&, const Location&) = default;
};

struct StrongAccess {
  ThreadKey thread;
  Location location;
  Ordering ordering = Ordering::relaxed;
  Scope scope = Scope::gpu;
  std::uint32_t bytes = 0;
  bool reads = false, writes = false;
  bool reduction = false;  // red: its read forms no acquire pattern
  std::uint64_t value_read = 0, value_written = 0;
};

// Asynchronous copies (cp.async): one group's writes become part of the issuing thread's order when it waits.
using AsyncGroup = std::uint32_t; // 0: none

class Causality {
 public:
  explicit Causality(const OperationClocks& operations) : operations_(operations) {}

  void launch_begin(OperationIndex operation, const Dim3& grid, const Dim3& block, const Dim3& cluster);
  void launch_end(OperationIndex operation);

  // Synchronization, each with the record's stamp (increasing).
  void block_barrier(OperationIndex operation, std::uint32_t block, Stamp now);
  void barrier_arrive(OperationIndex operation, std::uint32_t block, std::uint32_t warp, std::uint32_t mask,
                      std::uint32_t barrier, std::uint32_t phase, bool sync, Stamp now);
  void barrier_complete(OperationIndex operation, std::uint32_t block, std::uint32_t barrier, std::uint32_t phase);
  void warp_barrier(OperationIndex operation, std::uint32_t block, std::uint32_t warp, std::uint32_t mask, Stamp now);
  void fence(ThreadKey thread, Ordering ordering, Scope scope, Stamp now);
  void strong_access(const StrongAccess& access, Stamp now);
  void cluster_barrier(OperationIndex operation, std::uint32_t block, std::uint32_t warp, std::uint32_t mask,
                       std::uint32_t phase, bool wait, bool relaxed, Stamp now);

  AsyncGroup async_issue(ThreadKey thread);                 // group that a copy issued now belongs to
  void async_commit(ThreadKey thread);
  void async_wait(ThreadKey thread, std::uint32_t pending, bool all, Stamp now);

  // mbarrier objects: arrivals release into the phase, a successful test of a phase acquires what was released.
  void mbarrier_init(const Location& object);
  void mbarrier_arrive(ThreadKey thread, const Location& object, std::uint32_t phase, Ordering ordering, Scope scope,
                       Stamp now);
  void mbarrier_async_arrive(ThreadKey thread, const Location& object, std::uint32_t phase, Stamp now);
  void mbarrier_test(ThreadKey thread, const Location& object, std::uint32_t phase, Ordering ordering, Scope scope);

  // Does the access (thread, stamp, group) happen before what `second` does now? Program order included; for accesses
  // of asynchronous copies, their group must have been waited for.
  bool ordered(ThreadKey first, Stamp stamp, AsyncGroup group, ThreadKey second) const;
  // Is the strong write (stamp) to `location` observed by a strong read that happens before what `second` does at
  // stamp `now` (causality order's second clause, 8.9.5)?
  bool observed(const Location& location, Stamp write, ThreadKey second, Stamp now) const;
  // Each in the other's scope (8.7)?
  bool mutual(ThreadKey a, Scope a_scope, ThreadKey b, Scope b_scope) const;

  // For explanations: how many full barriers the block has passed.
  std::uint32_t barriers_passed(ThreadKey thread) const;

 private:
  struct Contribution { // a release pattern that a read of the location can observe
    ThreadKey thread;
    Scope scope = Scope::none; // of the pattern's first operation
    ClockPointer clock;
  };
  struct Chain { // a write and the read-modify-writes after it
    std::vector<Contribution> contributions;
    std::size_t merged = 0;    // contributions [0, merged) of gpu and sys scope are in `merged_clock`
    ClockPointer merged_clock;
  };
  struct LocationState {
    bool written = false;
    ThreadKey writer;
    Scope scope = Scope::none;
    std::uint32_t bytes = 0;
    std::uint64_t value = 0;
    std::shared_ptr<Chain> chain;
    std::vector<std::pair<ThreadKey, Stamp>> observers; // strong reads morally strong with the write before them
  };
  struct Pending { // a strong read whose acquire pattern a later fence completes
    std::shared_ptr<Chain> chain;
    std::size_t count = 0;
  };
  struct Thread {
    ClockPointer own;          // beyond what its block and warp know
    ClockPointer released;     // at the last release fence
    Scope released_scope = Scope::none;
    std::vector<Pending> pending;
    AsyncGroup open_group = 0;
    std::vector<AsyncGroup> committed; // not yet waited for
    // Strong writes after a release operation on the same location are part of its pattern.
    std::unordered_map<std::uint64_t, ClockPointer> released_at;
  };
  struct Phase {
    ClockPointer clock;
    std::vector<ThreadKey> waiting;
  };
  struct Block {
    Stamp barrier = 0;         // of the last full barrier
    std::uint32_t barriers = 0;
    ClockPointer common;       // what all its threads know
    std::vector<Stamp> warps;  // of the last full warp barrier
    std::vector<std::uint32_t> threads_with_state;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Phase> phases; // named barriers: (barrier, phase)
  };
  struct Launch {
    Dim3 grid, block, cluster;
    std::uint32_t blocks_per_cluster = 1;
    std::unordered_map<std::uint32_t, Block> blocks;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Phase> cluster_phases; // (cluster, phase)
  };
  struct LocationHash {
    std::size_t operator()(const Location& l) const {
      return std::hash<std::uint64_t>()(l.address * 0x9e3779b97f4a7c15u ^ l.block * 0xc2b2ae3d27d4eb4fu);
    }
  };
  struct AsyncState { ThreadKey thread; Stamp complete = 0; };
  struct MbarrierState { std::map<std::uint32_t, std::vector<Contribution>> phases; };

  Launch* launch(OperationIndex operation);
  const Launch* launch(OperationIndex operation) const;
  Block& block(ThreadKey thread);
  const Block* find_block(ThreadKey thread) const;
  Thread& thread(ThreadKey key);
  const Thread* find_thread(ThreadKey key) const;
  ClockPointer snapshot(ThreadKey thread, Stamp now);   // what it did up to now, and what it has seen
  void acquire(ThreadKey thread, const ClockPointer& clock);
  void acquire_chain(ThreadKey thread, Chain& chain, std::size_t count, Scope scope);
  std::uint32_t cluster_of(ThreadKey thread) const;

  const OperationClocks& operations_;
  std::unordered_map<OperationIndex, Launch> launches_;
  std::unordered_map<std::uint64_t, Thread> threads_;
  std::unordered_map<Location, LocationState, LocationHash> locations_;
  std::unordered_map<Location, MbarrierState, LocationHash> mbarriers_;
  std::vector<AsyncState> async_groups_{1};
};

} // namespace deadheat::order
