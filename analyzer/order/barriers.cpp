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
  const ThreadKey key(operation, index, 0);
  Block& of = known_or_new_block(key);
  ++of.barriers;
  if (of.exited) return barrier_of_the_rest(operation, index, block(key), now);
  of.newest_barrier = now;
  if (!defer(key, of, {.stamp = now, .what = Deferred::What::block_barrier}))
    apply_block_barrier(operation, index, of, now);
}

void Causality::apply_block_barrier(OperationIndex operation, std::uint32_t index, Block& of, Stamp now) {
  of.own.clear(ThreadKey(operation, index, 0).block_bits(),
               [&](const ClockPointer& own) { of.common = joined(of.common, own); });
  fences_meet(operation, index, of);
  of.barrier = now;
  of.common_then = of.common;
}

// One entry a warp instead of one for the block, of lanes where some of a warp have exited; what those knew that have
// is not what the others learn.
void Causality::barrier_of_the_rest(OperationIndex operation, std::uint32_t index, Block& of, Stamp now) {
  of.barrier_of_rest = now;
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
  for (std::uint32_t warp = 0; warp < of.own.warps(); ++warp) {
    of.own.each(ThreadKey(operation, index, warp * 32), ~of.exited_lanes[warp],
                [&](std::uint32_t, const ClockPointer& own) { of.common = joined(of.common, own); });
    of.own.set(warp, ~of.exited_lanes[warp], nullptr);
  }
  if (!rules_.only_marked) of.common = Clock::with(of.common, entries);
}

void Causality::barrier_arrive(OperationIndex operation, std::uint32_t index, std::uint32_t warp, std::uint32_t mask,
                               std::uint32_t barrier, std::uint32_t phase, bool sync, Stamp now) {
  const ThreadKey lane0(operation, index, (warp & 31) * 32);
  Block& of = known_or_new_block(lane0);
  synced(lane0, now);
  if (!defer(lane0, of,
             {.stamp = now,
              .object = barrier,
              .lanes = mask,
              .phase = phase,
              .what = Deferred::What::barrier_arrive,
              .warp = std::uint8_t(warp & 31),
              .yes = sync}))
    apply_barrier_arrive(lane0, of, mask, barrier, phase, sync, now);
}

void Causality::apply_barrier_arrive(ThreadKey lane0, Block& of, std::uint32_t mask, std::uint32_t barrier,
                                     std::uint32_t phase, bool sync, Stamp now) {
  Phase& at = of.phases[{barrier, phase}];
  arrive(at.arrived, of, lane0, mask, now);
  if (sync) at.waiting.push_back({lane0.warp(), mask});
}

// What these lanes of a warp know, and did themselves.
void Causality::arrive(Gathered& arrived, const Block& of, ThreadKey lane0, std::uint32_t mask, Stamp now) {
  const std::uint64_t bits = lane0.block_bits();
  const std::uint32_t warp = lane0.warp();
  const bool all = !rules_.only_marked; // else what is marked is among what they know
  if (all && of.barrier) arrived.add({bits, whole_block, of.barrier});
  if (const Stamp last = mask == ~0u ? now : of.warps[warp]; all && last) arrived.add({bits, warp_group(warp), last});
  if (all && mask != ~0u)
    each_lane(lane0.operation(), lane0.block(), warp, mask,
              [&](ThreadKey key) { arrived.add({bits, thread_group(key.thread()), now}); });
  of.own.each(lane0, mask, [&](std::uint32_t, const ClockPointer& own) { arrived.add(joined(of.common, own)); });
}

void Causality::barrier_complete(OperationIndex operation, std::uint32_t index, std::uint32_t barrier,
                                 std::uint32_t phase, bool unseen) {
  const ThreadKey key(operation, index, 0);
  Block& of = known_or_new_block(key);
  if (!defer(key, of, {.object = barrier, .phase = phase, .what = Deferred::What::barrier_complete, .yes = unseen}))
    apply_barrier_complete(key, of, barrier, phase, unseen);
}

void Causality::apply_barrier_complete(ThreadKey lane0, Block& of, std::uint32_t barrier, std::uint32_t phase,
                                       bool unseen) {
  auto found = of.phases.find({barrier, phase});
  if (found == of.phases.end()) return;
  Phase at = std::move(found->second);
  of.phases.erase(found);
  if (unseen) of.common = Clock::join(of.common, at.arrived.clock());
  for (const Phase::Waiting& of_warp : at.waiting)
    acquire(ThreadKey(lane0.operation(), lane0.block(), of_warp.warp * 32), of_warp.lanes, at.arrived.clock());
}

void Causality::warp_barrier(OperationIndex operation, std::uint32_t index, std::uint32_t warp, std::uint32_t mask,
                             Stamp now) {
  const ThreadKey lane0(operation, index, (warp & 31) * 32);
  Block& of = known_or_new_block(lane0);
  synced(lane0, now);
  if (!defer(lane0, of,
             {.stamp = now, .lanes = mask, .what = Deferred::What::warp_barrier, .warp = std::uint8_t(lane0.warp())}))
    apply_warp_barrier(lane0, of, mask, now);
}

void Causality::apply_warp_barrier(ThreadKey lane0, Block& of, std::uint32_t mask, Stamp now) {
  const std::uint32_t warp = lane0.warp();
  ClockPointer all;
  bool any = false;
  std::vector<ClockEntry> entries;
  const std::uint64_t bits = lane0.block_bits();
  of.own.each(lane0, mask, [&](std::uint32_t, const ClockPointer& own) {
    all = Clock::join(all, own);
    any |= own != nullptr;
  });
  if (mask != ~0u && !rules_.only_marked)
    each_lane(lane0.operation(), lane0.block(), warp, mask,
              [&](ThreadKey key) { entries.push_back({bits, thread_group(key.thread()), now}); });
  if (mask == ~0u) {
    of.warps[warp] = now;
    if (!any) return;
  } else {
    all = Clock::with(all, entries);
  }
  of.own.set(warp, mask, all); // which has what each knew
}

void Causality::cluster_barrier(OperationIndex operation, std::uint32_t index, std::uint32_t warp, std::uint32_t mask,
                                std::uint32_t phase, bool wait, bool relaxed, Stamp now) {
  Launch& of = launches_[operation];
  const std::uint32_t cluster = cluster_of(ThreadKey(operation, index, 0));
  Phase& at = of.cluster_phases[{cluster, phase}];
  if (!wait && !relaxed) {
    const ThreadKey lane0(operation, index, (warp & 31) * 32);
    Block& own = block(lane0);
    own.syncs[warp & 31] = now;
    arrive(at.arrived, own, lane0, mask, now);
  } else if (wait) {
    acquire(ThreadKey(operation, index, (warp & 31) * 32), mask, at.arrived.clock());
  } else {
    each_lane(operation, index, warp, mask, [&](ThreadKey key) {
      const Thread* state = find_thread(key);
      if (!state) return;
      // A fence before it ends a release pattern (9.7.13.3).
      for (Scope scope : {Scope::cluster, Scope::gpu, Scope::sys})
        if (const ReleasedPointer& fenced = state->released[std::size_t(scope)]) at.arrived.add(*fenced);
    });
  }
  // Whoever waits for a phase has arrived at it: two phases back nobody is left.
  if (phase >= 2) of.cluster_phases.erase({cluster, phase - 2});
}

} // namespace deadheat::order
