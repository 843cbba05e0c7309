// Barriers of blocks, warps and clusters, and named ones (PTX ISA 9.7.13.1 to 9.7.13.3): who meets knows what each
// knew.
#include <bit>

#include "analyzer/order/causality.h"

namespace deadheat::order {

namespace {

template <typename F>
void each_lane(OperationIndex operation, std::uint32_t block, std::uint32_t warp, std::uint32_t mask, F&& f) {
  for (; mask; mask &= mask - 1) f(ThreadKey(operation, block, warp * 32 + std::uint32_t(std::countr_zero(mask))));
}

} // namespace

void Causality::block_barrier(OperationIndex operation, std::uint32_t index, Stamp now) {
  Block& of = block(ThreadKey(operation, index, 0));
  ++of.barriers;
  if (of.exited) return barrier_of_the_rest(operation, index, of, now);
  ClockPointer last;
  for (std::uint32_t number : of.threads_with_state) {
    Thread& state = threads_[ThreadKey(operation, index, number).bits];
    if (state.own && state.own != last) of.common = Clock::join(of.common, state.own);
    last = std::move(state.own);
    state.own = nullptr;
  }
  for (const auto& order : of.fence_orders)
    if (order) fences_meet(operation, index, *order);
  of.barrier = now;
  of.common_then = of.common;
}

// One entry a warp instead of one for the block, of lanes where some of a warp have exited; what those knew that have
// is not what the others learn.
void Causality::barrier_of_the_rest(OperationIndex operation, std::uint32_t index, Block& of, Stamp now) {
  const std::uint64_t bits = ThreadKey(operation, index, 0).block_bits();
  std::vector<ClockEntry> entries{{bits, whole_block, of.barrier}};
  const Launch* launched = launch(operation);
  const std::uint64_t threads = launched ? launched->block.count() : 1024;
  for (std::uint32_t warp = 0; warp < 32 && warp * 32 < threads; ++warp) {
    const std::uint32_t gone = of.exited_lanes[warp];
    const std::uint32_t exist = threads - warp * 32 < 32 ? (1u << (threads - warp * 32)) - 1 : ~0u;
    if (!(exist & ~gone)) continue;
    of.syncs[warp] = now;
    if (!gone) {
      entries.push_back({bits, warp_group(warp), now});
      continue;
    }
    entries.push_back({bits, warp_group(warp), of.warps[warp]});
    each_lane(operation, index, warp, exist & ~gone,
              [&](ThreadKey key) { entries.push_back({bits, thread_group(key.thread()), now}); });
  }
  ClockPointer last;
  for (std::uint32_t number : of.threads_with_state) {
    if (of.exited_lanes[number / 32] >> (number & 31) & 1) continue;
    Thread& state = threads_[ThreadKey(operation, index, number).bits];
    if (state.own && state.own != last) of.common = Clock::join(of.common, state.own);
    last = std::move(state.own);
    state.own = nullptr;
  }
  of.common = Clock::with(of.common, std::move(entries));
}

void Causality::barrier_arrive(OperationIndex operation, std::uint32_t index, std::uint32_t warp, std::uint32_t mask,
                               std::uint32_t barrier, std::uint32_t phase, bool sync, Stamp now) {
  Block& of = block(ThreadKey(operation, index, 0));
  of.syncs[warp & 31] = now;
  Phase& at = of.phases[{barrier, phase}];
  std::vector<ClockEntry> entries;
  std::uint64_t bits = ThreadKey(operation, index, 0).block_bits();
  entries.push_back({bits, whole_block, of.barrier});
  entries.push_back({bits, warp_group(warp), mask == ~0u ? now : of.warps[warp & 31]});
  each_lane(operation, index, warp, mask, [&](ThreadKey key) {
    if (mask != ~0u) entries.push_back({bits, thread_group(key.thread()), now});
    if (const Thread* state = find_thread(key)) at.clock = Clock::join(at.clock, state->own);
    if (sync) at.waiting.push_back(key);
  });
  at.clock = Clock::with(Clock::join(at.clock, of.common), std::move(entries));
}

void Causality::barrier_complete(OperationIndex operation, std::uint32_t index, std::uint32_t barrier,
                                 std::uint32_t phase, bool unseen) {
  Block& of = block(ThreadKey(operation, index, 0));
  auto found = of.phases.find({barrier, phase});
  if (found == of.phases.end()) return;
  Phase at = std::move(found->second);
  of.phases.erase(found);
  if (unseen) of.common = Clock::join(of.common, at.clock);
  ClockPointer last, joined;  // threads of one history share the result
  for (ThreadKey key : at.waiting) {
    Thread& state = thread(key);
    if (!joined || state.own != last) {
      last = state.own;
      joined = Clock::join(state.own, at.clock);
    }
    state.own = joined;
  }
}

void Causality::warp_barrier(OperationIndex operation, std::uint32_t index, std::uint32_t warp, std::uint32_t mask,
                             Stamp now) {
  Block& of = block(ThreadKey(operation, index, 0));
  of.syncs[warp & 31] = now;
  ClockPointer all;
  bool any = false;
  std::vector<ClockEntry> entries;
  std::uint64_t bits = ThreadKey(operation, index, 0).block_bits();
  each_lane(operation, index, warp, mask, [&](ThreadKey key) {
    if (const Thread* state = find_thread(key); state && state->own) {
      all = Clock::join(all, state->own);
      any = true;
    }
    if (mask != ~0u) entries.push_back({bits, thread_group(key.thread()), now});
  });
  if (mask == ~0u) {
    of.warps[warp & 31] = now;
    if (!any) return;
  } else {
    all = Clock::with(all, std::move(entries));
  }
  each_lane(operation, index, warp, mask, [&](ThreadKey key) { acquire(key, all); });
}

void Causality::cluster_barrier(OperationIndex operation, std::uint32_t index, std::uint32_t warp, std::uint32_t mask,
                                std::uint32_t phase, bool wait, bool relaxed, Stamp now) {
  Launch& of = launches_[operation];
  const std::uint32_t cluster = cluster_of(ThreadKey(operation, index, 0));
  Phase& at = of.cluster_phases[{cluster, phase}];
  each_lane(operation, index, warp, mask, [&](ThreadKey key) {
    if (wait) {
      acquire(key, at.clock);
    } else if (!relaxed) {
      at.clock = Clock::join(at.clock, snapshot(key, now));
      synced(key, now);
    } else if (const Thread* state = find_thread(key)) {
      // A fence before it ends a release pattern (9.7.13.3).
      for (Scope scope : {Scope::cluster, Scope::gpu, Scope::sys})
        at.clock = Clock::join(at.clock, state->released[std::size_t(scope)]);
    }
  });
  // Whoever waits for a phase has arrived at it: two phases back nobody is left.
  if (phase >= 2) of.cluster_phases.erase({cluster, phase - 2});
}

} // namespace deadheat::order
