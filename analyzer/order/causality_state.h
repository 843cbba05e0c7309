// What order::Causality remembers of threads, blocks, launches, locations and mbarriers.
//
// Thread-safety: none; plain values.
#pragma once

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/order/async_groups.h"
#include "analyzer/order/chain.h"
#include "analyzer/order/clock.h"
#include "analyzer/order/deferred.h"
#include "analyzer/order/observations.h"
#include "analyzer/order/own_clocks.h"
#include "deadheat/memory_model.h"

namespace deadheat::order {

// A location of strong accesses: an address in global memory, or in the shared memory of a block.
struct Location {
  std::uint64_t block = 0; // 0: global memory; else ThreadKey::block_bits + 1 of the block whose memory it is
  std::uint64_t address = 0;
  std::uint32_t bytes = 0; // 0: whatever begins there; else exactly the location of that size (8.2)
  friend bool operator==(const Location&, const Location&) = default;
};

namespace remembered {

struct BulkGroups { // of what a bulk copy reads, and of what it writes
  AsyncGroup read = 0, write = 0;
};

struct LocationHash {
  std::size_t operator()(const Location& l) const {
    return std::hash<std::uint64_t>()(l.address * 0x9e3779b97f4a7c15u ^ l.block * 0xc2b2ae3d27d4eb4fu);
  }
};

// What patterns of each scope have released: index Scope.
using ByScope = std::array<ReleasedPointer, 5>;

struct Write { // a strong write, as far as reads may still observe it
  ThreadKey writer;
  Scope scope = Scope::none;
  std::uint32_t bytes = 0, form = 0;
  bool atomic = false;
  std::uint64_t value = 0, order_first = 0, order_last = 0;
  Stamp stamp = 0;
  ChainPointer chain;
  std::size_t contributions = 0, fenced = 0; // of the chain up to and with this write
  ClockPointer told; // with Rules::only_marked, in place of these
};

struct Looked { // a strong read whose value somebody looks at, and what it observed
  ThreadKey thread;
  std::uint32_t bytes = 0;
  bool writes = false;
  Stamp stamp = 0;
  ChainPointer chain;
  std::size_t count = 0;
  ThreadKey writer; // of what it read
  Scope scope = Scope::none; // of that write
  bool part = false; // it is an atomic operation on more than was read
};

struct LocationState {
  std::vector<Write> writes; // the last ones, oldest first
  Observations observations;
  std::vector<Looked> looked; // where there may be reads that nobody looks at
  bool looked_by_many = false; // beyond what is remembered
};

struct Pending { // a strong read whose acquire pattern a later fence completes
  Location location;
  ChainPointer chain;
  std::size_t count = 0;
  Scope scope = Scope::sys; // of a test of an mbarrier: whose arrivals it may observe
};

struct Seen { // what a read observed: the first `count` contributions
  ChainPointer chain;
  std::size_t count = 0;
};

struct Copies { // bulk ones and matrix multiplications, of a thread
  AsyncGroup open_matrix = 0;
  std::uint32_t matrix_groups = 0; // committed
  BulkGroups open_bulk;
  std::deque<BulkGroups> committed_bulk; // not yet waited for; the first bulk_reads_done but for their reads
  std::size_t bulk_reads_done = 0;
};

struct LaneCopies { // of cp.async, of lanes of a warp that have issued, committed and awaited the same
  std::uint32_t lanes = 0;
  AsyncGroup open = 0;
  std::vector<AsyncGroup> committed; // not yet waited for
};

struct Thread {
  ByScope released; // at the last release fence of each scope, unless a wider one came later
  std::vector<Pending> pending;
  std::array<ClockPointer, 5> pending_clocks; // of older pending reads: what a fence of that Scope acquires
  std::unique_ptr<Copies> copies; // null: it issued none
  // By Reach: what its reads since its last fence.sc tell of (fence_order.cpp).
  std::array<ClockPointer, reaches> told;
  // Strong writes after a release operation on the same location are part of its pattern (8.8).
  std::unordered_map<Location, ByScope, LocationHash> released_at;
};

struct Phase {
  struct Waiting {
    std::uint32_t warp = 0, lanes = 0;
  };
  Gathered arrived;
  std::vector<Waiting> waiting;
};

struct Arrived { // the last time that lanes arrived at an mbarrier: when, and what they and their block knew
  std::uint32_t lanes = 0;
  Stamp stamp = 0;
  ClockPointer own, common;
};

struct FenceOrder { // of those of a block's fence.sc that have a Reach: fence_order.cpp
  struct Fence { // lanes that knew the same
    std::uint32_t warp = 0, mask = 0;
    Stamp stamp = 0;
    ClockPointer own; // own_of() each
    ReleasedPointer before; // of one of them, where nobody has asked what they knew
    ClockPointer base; // else that
  };
  struct Read {
    ThreadKey thread;
    Stamp stamp = 0; // 0: a full barrier came after it
    ChainPointer chain;
    std::size_t place = 0; // of the last of Chain::fenced
    ClockPointer brings; // that
    ThreadKey taken_by; // whose fence acquired that first, and when; 0: nobody's
    Stamp taken_at = 0;
    std::vector<std::uint32_t> taken; // by lanes of each warp
  };
  ClockPointer before; // what came before the fences before the last full barrier
  std::vector<Fence> fences; // since then
  struct Answer { // of before_fences(), the last one: about a thread that knew this
    ThreadKey writer;
    ClockPointer own, common;
    Stamp warp = 0;
    friend bool operator==(const Answer&, const Answer&) = default;
  };
  std::optional<Answer> asked; // none: fences came since then
  ClockPointer answer, added;
  ChainPointer added_to; // to which `added` was added last
  std::vector<Read> reads;

  bool empty() const { return !before && fences.empty(); } // no write is behind a fence
  void clear() {
    before = answer = added = nullptr;
    fences.clear();
    reads.clear();
    asked.reset();
    added_to = nullptr;
  }
};

struct Block {
  Stamp barrier = 0; // of the last full barrier
  Stamp newest_barrier = 0; // the same, of which those left for later are too
  Stamp barrier_of_rest = 0; // the same, where some have exited
  std::uint32_t barriers = 0;
  ClockPointer common; // what all its threads know
  ClockPointer common_then; // at the last full barrier
  struct Known { // by a thread: the block's threads often know the same
    ClockPointer common, own, both;
  } last_known;
  std::vector<Stamp> warps; // of the last full warp barrier
  std::vector<Stamp> syncs; // of the last synchronization of any lane of the warp, left for later or not
  OwnClocks own;
  std::vector<std::vector<Arrived>> arrived; // by warp, as far as one has something
  std::uint32_t exited = 0;
  std::vector<std::uint32_t> exited_lanes; // by warp; empty while all are there
  bool over = false;
  std::vector<std::uint32_t> threads_with_state;
  std::vector<Location> locations; // in its shared memory
  std::array<std::unique_ptr<FenceOrder>, reaches> fence_orders; // by Reach; null: nothing to know
  bool has_fence_orders() const {
    return std::any_of(fence_orders.begin(), fence_orders.end(), [](const auto& of) { return of && !of->empty(); });
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, Phase> phases; // named barriers: (barrier, phase)
  struct PendingBulk {
    std::uint32_t thread = 0;
    Location object;
    BulkGroups groups;
  };
  // Copies of its threads that are to complete on an mbarrier, as issued; null: there never were any.
  std::unique_ptr<std::deque<PendingBulk>> bulk_pending;
  std::unique_ptr<Deferred> deferred; // null: nothing is left for later
};

struct Launch {
  Dim3 grid, block, cluster;
  std::unordered_map<std::uint32_t, Block> blocks;
  std::unordered_map<std::uint32_t, std::uint64_t> exited; // threads, by cluster
  std::map<std::pair<std::uint32_t, std::uint32_t>, Phase> cluster_phases; // (cluster, phase)
};

struct MbarrierState {
  struct Remote { // from other blocks
    Gathered released;
    ClockPointer of, reads; // the latter: what of the former was read, when somebody asked last
  };
  struct Phase {
    struct Seen { // by lanes of a warp, with that scope: as many contributions, which is all that there is to see
      std::uint64_t lane0 = 0;
      std::uint32_t lanes = 0;
      Scope scope = Scope::none;
      std::size_t contributions = 0;
    };
    ChainPointer chain;
    Remote remote, remote_wide; // by arrivals of .cta scope; by wider ones
    boost::container::small_vector<Seen, 8> seen;
    bool seen_by(const Seen& who) const;
    void add_seen(const Seen& who);
  };
  std::map<std::uint32_t, Phase> phases;
  std::uint32_t lives = 0; // how often it was made anew
};

} // namespace remembered

} // namespace deadheat::order
