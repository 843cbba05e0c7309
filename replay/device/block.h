// A running block: its threads' contexts, and where each lane of each warp stands, as masks.
//
// Invariants: of a warp, `live` is the disjoint union of ready, visible, at_warp, at_barrier, arriving, parked,
// yielded, held, waiting_copy, at_cluster and at_dependency, `exiting` lanes aside; Block::ready_warps has a bit for
// every warp with ready or visible lanes. Block::live counts the threads that have not exited.
//
// Thread-safety: none; a machine runs on one host thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "deadheat/memory_model.h"
#include "deadheat/site.h"
#include "replay/device/mbarrier.h"
#include "replay/device/undefined.h"
#include "replay/engine/abi.h"
#include "replay/engine/compiler.h"
#include "replay/engine/footprint.h"
#include "replay/engine/regions.h"
#include "replay/engine/spin.h"
#include "tracer/ptx/tensor_map.h"

namespace deadheat::device {

inline constexpr std::uint32_t warp_lanes = 32, max_warps = 32, max_barriers = 16;

// A SyncError: bar and barrier.aligned (PTX ISA 9.7.13.1).
inline constexpr const char* not_aligned =
    "lanes of one warp are at different barriers where all must execute the same one";

struct WarpState {
  std::uint32_t live = 0;
  std::uint32_t ready = 0;        // can be resumed
  std::uint32_t visible = 0;      // stopped before a strong operation, to perform it with the others of its site
  std::uint32_t at_warp = 0;      // at a rendezvous
  std::uint32_t at_barrier = 0;   // arrived at a block barrier, to leave with its completion
  std::uint32_t arriving = 0;     // reached a block barrier; counted when the warp's log is written
  std::uint32_t exiting = 0;      // exited; counted when the warp's log is written
  std::uint32_t parked = 0;       // spins on a value that has not changed
  std::uint32_t yielded = 0;      // used up its turns in a loop
  std::uint32_t held = 0;         // waits for another access by order of the schedule
  std::uint32_t waiting_copy = 0; // at cp.async.wait
  std::uint32_t at_cluster = 0;   // at barrier.cluster: reached it, or waits
  std::uint32_t at_dependency = 0; // at griddepcontrol: reached it, or waits
  std::uint32_t cluster_arrived = 0, cluster_complete = 0; // arrived at the cluster's phase; and that is complete
  std::uint32_t before_visible = 0; // of ready lanes: stopped before a visible operation, which they perform next
  std::uint32_t exited_unsaid = 0; // exits not yet in the trace
};

// A thread count is one of whole warps: a warp counts as 32 once all its live lanes have arrived, however many these
// are (PTX ISA 9.7.13.1: counts are multiples of the warp size; an arrival is a warp's, of its threads that have not
// exited).
struct Barrier {
  std::uint32_t arrived = 0, expected = 0; // threads; expected 0: all live ones, else a count
  std::uint32_t counted = 0;               // of a count: what has been reached of it
  std::uint32_t phase = 0;
  std::uint32_t popc = 0, all = 1, any = 0; // of the predicates of barrier.red
  std::uint32_t site = 0;                  // of the first arrival
  bool mixed = false;                      // several sites, a count that is not the block's, or bar.arrive
  std::array<std::uint32_t, max_warps> waiting{}; // to leave with its completion
  std::array<std::uint32_t, max_warps> partial{}; // of a count: lanes that have arrived of warps that do not count yet

  // Does it count a warp of which `live` have not exited?
  bool whole_warp(std::uint32_t warp, std::uint32_t live) const { return partial[warp] && !(live & ~partial[warp]); }
};

inline constexpr std::uint32_t reduction_flushes = std::uint32_t(1) << 31; // of f32: denormals

// What a copy by a tensor map takes: stretches of global memory, and where they lie in the box.
struct Box {
  std::vector<ptx::TensorPiece> pieces;
  bool loads = false; // into shared memory
  ptx::Swizzle swizzle = ptx::Swizzle::none;
  std::uint64_t shared = 0; // offset of the box in shared memory
  std::uint64_t filler = 0; // an element outside of the tensor
  std::uint32_t element_bytes = 1;
  std::uint32_t parts = 0; // stretches that lie together on both sides
  bool rounds = false; // to TFLOAT32
};

// A copy that has been issued and not performed: of cp.async, of cp.async.bulk (to one block), or the arrival of
// cp.async.mbarrier.arrive, which comes after the cp.async before it. Of products: what wgmma reads (products.h).
struct AsyncCopy {
  enum class Kind : std::uint8_t { copy, bulk, arrival, product };
  std::uint64_t destination = 0, source = 0; // of cp.async offset in shared memory, global address; else generic ones
  std::uint32_t bytes = 0, source_bytes = 0, site = 0;
  std::uint32_t group = 0; // of cp.async; of others their own number (AsyncQueue::own_groups and up)
  std::int32_t hold = -1, until = -1; // the hold that delays it, and the one that waits for it
  Kind kind = Kind::copy;
  std::uint32_t bulk_group = 0; // of bulk copies that complete with their group
  std::uint32_t reduction = 0; // engine::bulk_reduction, perhaps with reduction_flushes
  std::uint32_t number = 0; // of the thread's copies
  std::uint32_t instruction = 0; // of the thread's that issue copies: to several blocks it issues several
  std::uint64_t mbarrier = 0; // generic address; 0: none
  std::vector<std::uint8_t> data = {}; // the source's bytes, once they have been read
  // By a tensor map: destination or source is where the box begins in shared memory, the other side is not used.
  std::shared_ptr<const Box> box = {};
  bool goes_on = false; // a part of a box that completes with the part before it
  std::uint32_t history_read = 0, history_write = 0; // of watched runs: groups of Causality; of cp.async one
};
struct AsyncQueue { // of one thread
  static constexpr std::uint32_t own_groups = 0x80000000u;
  std::vector<AsyncCopy> copies; // in issue order
  std::uint32_t groups = 0, bulk_groups = 0, warpgroup_groups = 0; // committed so far
  std::uint32_t issued = 0, instructions = 0; // copies, and instructions that issue such, so far
  std::uint32_t next_own = own_groups;
  std::uint32_t products = 0, product_site = 0; // of wgmma, for its warp; and the last one's
};

// An mbarrier object, as mbarrier.h packs it: `bits` is what the memory held when it was last operated on.
struct MbarrierState {
  std::uint32_t phase = 0; // from 0, where the object has but its low bits
  std::uint64_t bits = 0;
  std::vector<std::uint32_t> next; // by the block's threads: the phase behind the last whose end it has seen
};

struct Block;
// Blocks that run together and reach each other's shared memory (PTX ISA 5.1.7, 9.7.13.3).
struct Cluster {
  std::vector<Block*> blocks; // by rank
  std::vector<std::unique_ptr<Block>> departed; // whose threads have exited
  std::uint32_t phase = 0, missing = 0, arrived = 0; // of barrier.cluster; missing: live threads yet to arrive
};

struct WatchedThread { // of a watched run (watch.h)
  std::uint64_t performed = 0; // visible operations
  struct Old {
    std::uint64_t address = 0;
    std::uint8_t count = 0; // of old values that it was given there on end
  };
  std::array<Old, 4> old; // at the places where it was given some last
  bool stopped_before = false; // a visible operation, which it performs next
};

struct Launch;
struct PendingProducts;

struct Block {
  engine::BlockContext context;
  Launch* launch = nullptr;
  std::uint32_t index = 0, threads_count = 0, warps_count = 0;
  std::uint32_t live = 0;
  std::uint32_t ready_warps = 0, used_barriers = 0;
  bool named = false; // a hold names one of its threads
  std::uint32_t made_way = 0; // how often it let other blocks go on behind a ticket that it took
  std::uint32_t turns = 0; // of strong operations since the last barrier; fewer with each weak access
  std::uint32_t used_up = 0; // how often a warp used up its turns while others of the block waited for a value
  engine::ThreadContext* threads = nullptr;
  std::array<WarpState, max_warps> warps;
  std::array<Barrier, max_barriers> barriers;
  std::map<std::uint32_t, MbarrierState> mbarriers; // in its shared memory, by offset
  Cluster* cluster = nullptr; // of clustered launches
  std::vector<std::uint8_t*> cluster_shared; // BlockContext::cluster_shared
  bool triggered = false; // a thread has executed griddepcontrol.launch_dependents
  std::vector<AsyncQueue> async; // a thread each; empty until the first copy
  std::map<std::uint32_t, std::shared_ptr<PendingProducts>> products; // by warp; of runs in which one was delayed
  UndefinedWords undefined; // of shared memory, by offset
  UndefinedWords undefined_local; // of the threads' stacks, by host address
  std::vector<std::uint32_t> position; // under random schedules: of each thread in the list of runnable ones
  std::vector<WatchedThread> watched;
  // The memory behind threads, stacks and shared memory.
  std::uint8_t* memory = nullptr;
  std::uint64_t memory_bytes = 0;
};

// Has every thread of the block that has not exited arrived at the barrier, to leave with its completion, from one
// site?
inline bool whole_block_met(const Block& block, const Barrier& barrier) {
  bool whole = !barrier.mixed;
  for (std::uint32_t w = 0; whole && w < block.warps_count; ++w) whole = barrier.waiting[w] == block.warps[w].live;
  return whole;
}

// A place in shared memory by its generic address, as `from` sees it: its own, or another block's of its cluster.
struct SharedPlace {
  Block* block = nullptr; // null: not in the shared memory of a running block of the cluster
  std::uint32_t offset = 0;
  std::uint8_t* bytes() const { return block->context.shared + offset; }
};
SharedPlace shared_place(Block& from, std::uint64_t address, std::uint64_t bytes); // clusters.cpp
// The block of the cluster that has exited, and whose shared memory the address was; null: there is none.
const Block* exited_owner(const Block& from, std::uint64_t address);

// What the machine needs to know about a module's sites, a byte each.
struct SiteTable {
  enum Flag : std::uint8_t {
    stops = 1,
    arrive_only = 2,
    red_popc = 4,
    red_and = 8,
    red_or = 16,
    fence = 32,
    ticket = 64
  };
  explicit SiteTable(const std::vector<Site>& module_sites);
  std::uint8_t flags_of(std::uint32_t site) const { return site < flags.size() ? flags[site] : 0; }
  const std::vector<Site>* sites;
  std::vector<std::uint8_t> flags;
  std::vector<std::uint8_t> stop; // nonzero: strong access or fence, the natural order stops there
  bool frees = false; // some are calls of free
  bool opaque = false; // some touch memory in ways that are not modelled
  bool asynchronous = false; // some are copies in bulk, their arrivals, or wait for another launch
  bool counted = false; // some look at mbarriers, or count there, in ways that do not commute
};

struct LaunchRequest {
  std::uint32_t launch = 0, operation = 0, module = 0;
  std::string kernel;
  std::shared_ptr<const SiteTable> sites;
  engine::KernelCode* code = nullptr;
  const engine::RegionCode* regions = nullptr; // then its blocks run region by region, and code is null
  // What its blocks touch, compiled when asked for (spread.h); null where they may not be spread over cores.
  std::function<const engine::FootprintCode*()> footprint = {};
  engine::Mode mode;
  Dim3 grid, block, cluster;
  std::uint32_t dynamic_shared = 0, total_shared = 0;
  std::vector<std::uint8_t> params;
  bool cooperative = false;
  std::uint64_t grid_workspace = 0; // device address, of cooperative launches
  bool reaches_cluster = false; // KernelInfo::reaches_cluster
  bool primary_complete = false; // and that is complete already
  std::uint32_t primary = 0; // operation that griddepcontrol.wait waits for; 0: none
  std::uint32_t call_stack = 0; // bytes beyond the kernel's frame, for calls
};

// Device memory that was found legal, for the ranges that region code asks for.
struct LegalRanges {
  std::uint64_t changes = ~std::uint64_t(0); // Environment::changes when it was
  std::vector<std::pair<std::uint64_t, std::uint64_t>> known; // a range each: [low, end)
};

// What parked threads wait to see changed: of a scalar or a vector, what they read there last (engine/spin.h).
struct Awaited {
  const std::uint8_t* at = nullptr; // null: it cannot be read
  std::uint64_t value = 0;
  std::uint32_t bytes = 0, element_bytes = 0;
  bool by_access = false;
  bool by_phase = false; // by an mbarrier's test: arrivals alone change nothing
  std::uint64_t now() const { return engine::spin_value(at, bytes, element_bytes); }
  bool changed() const { return by_phase ? (now() ^ value) & MbarrierBits::phase_mask : now() != value; }
};

struct Launch {
  LaunchRequest request;
  engine::LaunchContext context;
  std::uint64_t blocks = 0, next_block = 0, finished = 0;
  std::uint32_t threads = 0, stack_bytes = 0, max_resident = 0;
  std::uint64_t stack_stride = 0; // from a thread's stack to the next one's
  std::uint64_t private_bytes = 0, slot_bytes = 0; // of a block's memory: before shared memory; in all
  std::vector<std::unique_ptr<Block>> resident; // by index, but for blocks admitted early
  std::vector<std::unique_ptr<Block>> spare;
  std::uint32_t cluster_blocks = 1;
  bool clustered = false; // blocks have a Cluster, be it of one
  std::map<std::uint64_t, Cluster> clusters; // running ones, by the index of their first block
  std::uint64_t triggered = 0; // blocks that let dependent launches begin
  bool primary_complete = false;
  std::vector<std::uint64_t> early; // indices admitted out of turn, above next_block
  std::size_t cursor = 0;
  std::vector<Awaited> awaited; // some of what parked threads wait for, to notice early
  bool changed = false; // some of that has, and who waited for it has looked
  bool made_way = false; // a block has, since the cursor was at the first
  std::vector<std::uint8_t> marked; // site_stop with the sites of holds
  bool named = false; // a hold names one of its threads
  std::uint32_t history = 0; // its number in the store histories
  LegalRanges legal; // of code that runs region by region
};

} // namespace deadheat::device
