// Fence-SC order (PTX ISA 8.9.3), as far as it is no accident.
//
// "fence.sc X synchronizes with fence.sc Y if X precedes Y in Fence-SC order" (8.9.4). Which of the two comes first is
// determined at run time, but where a read tells, it is the same in every run in which the read sees the same: F1, then
// a write W, which a read R observes, and then F2. Were F2 first, R would precede W in base causality order; W would
// precede R in observation order, and so itself in causality order and then in coherence order (8.10.1), which cannot
// be. Where F1 and W, and R and F2, are of one thread, release and acquire patterns say the same. Where a barrier lies
// between them only this does:
//
//     data[t] = v; __threadfence(); __syncthreads(); if (t == 0) atomicAdd(&ready, 1);
//     if (t == 0) while (atomicAdd(&ready, 0) < n) {}  __syncthreads(); __threadfence(); v = data[u];
//
// Used where F1 and W are of one block, and R and F2 of one; R is a read whose value is returned (not that of red).
// Fences order each other where they are morally strong: of each Reach those of its scope and of wider ones, so that a
// fence of gpu scope is one of its block, of its cluster and of its device. What is so within blocks and clusters alone
// is followed where there are narrower fences (narrow_fences()).
//
// A write takes with it (Chain::fenced) what came before those fences of its block that precede it. A fence acquires
// that of the chains that reads of its thread and, as far as they are remembered, of its block observed before it.
#include <algorithm>
#include <bit>
#include <utility>

#include "analyzer/order/causality.h"

namespace deadheat::order {

namespace {

// Bounds, beyond which an order is missed, and no race: the oldest are forgotten.
constexpr std::size_t most_fences = 128, most_reads = 32; // of a block
constexpr Reach all_reaches[] = {Reach::block, Reach::cluster, Reach::device, Reach::system};

} // namespace

Causality::FenceOrder& Causality::fence_order(Block& block, Reach reach) {
  auto& order = block.fence_orders[std::size_t(reach)];
  if (!order) order = std::make_unique<FenceOrder>();
  return *order;
}

// Is a fence of that scope among those of that reach?
bool Causality::has_reach(ThreadKey key, Scope scope, Reach reach) const {
  switch (reach) {
    case Reach::block: return narrow_fences_ && scope >= Scope::cta;
    case Reach::cluster: return narrow_fences_ && scope >= Scope::cluster && in_cluster(key);
    case Reach::device: return scope >= Scope::gpu;
    case Reach::system: return scope == Scope::sys && operations_.several_devices();
  }
  return false;
}

FenceGroup Causality::fence_group(ThreadKey key, Reach reach) const {
  switch (reach) {
    case Reach::block: return {reach, key.block_bits()};
    case Reach::cluster: return {reach, cluster_bits(key)};
    case Reach::device: return {reach, operations_.device(key.operation())};
    case Reach::system: break;
  }
  return {reach, 0};
}

// ---- the fence that comes first

void Causality::fence_precedes(ThreadKey key, Scope scope, const ReleasedPointer& before, Stamp now) {
  for (const Reach reach : all_reaches)
    if (has_reach(key, scope, reach)) fence_precedes(key, reach, before, now);
}

void Causality::fence_precedes(ThreadKey key, Reach reach, const ReleasedPointer& before, Stamp now) {
  Block& of = block(key);
  FenceOrder& order = fence_order(of, reach);
  auto& fences = order.fences;
  order.asked.reset();
  const ClockPointer own = own_of(&of, key);
  const std::uint32_t lane = 1u << (key.thread() & 31);
  for (auto at = fences.rbegin(); at != fences.rend() && at->stamp == now && at->warp == key.warp(); ++at) {
    if (at->own != own) continue;
    at->mask |= lane;
    return;
  }
  if (fences.size() >= most_fences) fences.erase(fences.begin(), fences.begin() + most_fences / 2);
  fences.push_back({key.warp(), lane, now, own, before, nullptr});
}

// What each of its lanes knew.
const ClockPointer& Causality::base_of(FenceOrder::Fence& fence) {
  if (const Released* before = fence.before.get()) {
    const std::uint64_t block = before->thread.block_bits();
    fence.base = Clock::with(before->known,
                             {{block, whole_block, before->block}, {block, warp_group(fence.warp), before->warp}});
    fence.before = nullptr;
  }
  return fence.base;
}

// What came before a fence of these lanes.
void Causality::add_entries(const FenceOrder::Fence& fence, ThreadKey of_block, std::uint32_t lanes,
                            std::vector<ClockEntry>& entries) const {
  const Launch* of = launch(of_block.operation());
  const std::uint64_t threads = of ? of->block.count() : 1024;
  const std::uint64_t first = fence.warp * 32;
  const std::uint32_t exist = threads >= first + 32 ? ~0u : threads > first ? (1u << (threads - first)) - 1 : 0;
  if (lanes == exist) {
    entries.push_back({of_block.block_bits(), warp_group(fence.warp), fence.stamp});
    return;
  }
  for (std::uint32_t rest = lanes; rest; rest &= rest - 1)
    entries.push_back(
        {of_block.block_bits(), thread_group(fence.warp * 32 + std::uint32_t(std::countr_zero(rest))), fence.stamp});
}

// Of a block's fences those of lanes that `lanes_of` names and `is_before` confirms, joined. What is known of a thread
// up to its fence is all that it knew then, so that the latest ones stand for most of the earlier ones; those that knew
// the same share a clock.
template <typename LanesOf, typename IsBefore>
ClockPointer Causality::joined(FenceOrder& order, ThreadKey of_block, LanesOf&& lanes_of, IsBefore&& is_before) const {
  ClockPointer all = order.before;
  auto& fences = order.fences;
  const auto lanes_to_add = [&](const FenceOrder::Fence& fence) {
    std::uint32_t lanes = fence.mask & lanes_of(fence);
    if (!lanes || (all && all->seen_warp({of_block.operation(), of_block.block(), fence.warp * 32}) >= fence.stamp))
      return 0u;
    for (std::uint32_t rest = lanes; rest; rest &= rest - 1) {
      const std::uint32_t lane = std::uint32_t(std::countr_zero(rest));
      const ThreadKey key(of_block.operation(), of_block.block(), fence.warp * 32 + lane);
      if ((all && all->seen(key) >= fence.stamp) || !is_before(fence, key)) lanes &= ~(1u << lane);
    }
    return lanes;
  };
  ClockPointer base; // of the entries
  std::vector<ClockEntry> entries;
  const auto join = [&] {
    if (!entries.empty()) all = Clock::join(all, Clock::with(base, entries));
    entries.clear();
  };
  for (auto at = fences.rbegin(); at != fences.rend(); ++at) {
    std::uint32_t lanes = lanes_to_add(*at);
    if (!lanes) continue;
    const ClockPointer& its = base_of(*at);
    if (its != base && !(its && base && *its == *base)) {
      join();
      base = its;
      lanes = lanes_to_add(*at);
    }
    if (lanes) add_entries(*at, of_block, lanes, entries);
  }
  join();
  return all;
}

ClockPointer Causality::before_fences(ThreadKey writer, FenceOrder& order) {
  const Block* of = find_block(writer);
  const FenceOrder::Answer asked{writer, own_of(of, writer), of->common, of->warps[writer.warp()]};
  if (order.asked == asked) return order.answer;
  order.asked = asked;
  const auto knows_of_it = [&](const ClockPointer& clock) { return clock && clock->knows(writer.block_bits()); };
  const bool of_others = knows_of_it(asked.common) || knows_of_it(asked.own);
  const auto before_it = [&](const FenceOrder::Fence& fence) {
    return fence.warp == writer.warp() && fence.stamp <= asked.warp;
  };
  return order.answer = joined(
             order, writer,
             [&](const FenceOrder::Fence& fence) {
               if (of_others || before_it(fence)) return ~0u;
               return fence.warp == writer.warp() ? 1u << (writer.thread() & 31) : 0;
             },
             [&](const FenceOrder::Fence& fence, ThreadKey key) {
               return key == writer || before_it(fence) || ordered(key, fence.stamp, 0, writer);
             });
}

void Causality::add_fenced(const ChainPointer& chain, ThreadKey writer) {
  for (const Reach reach : all_reaches) add_fenced(chain, writer, reach);
}

void Causality::add_fenced(const ChainPointer& chain, ThreadKey writer, Reach reach) {
  const Block* of = find_block(writer);
  if (!of || !of->fence_orders[std::size_t(reach)]) return;
  FenceOrder& order = *of->fence_orders[std::size_t(reach)];
  if (order.empty()) return;
  const ClockPointer before = before_fences(writer, order);
  if (!before) return;
  if (order.added == before && order.added_to == chain) return; // while it polls
  order.added = before, order.added_to = chain;
  const FenceGroup group = fence_group(writer, reach);
  const Chain::Fenced* last = chain->last_fenced(group, chain->fenced_count);
  const ClockPointer earlier = last ? last->before : nullptr;
  if (ClockPointer joined = Clock::join(earlier, before); joined != earlier)
    chain->add_fenced(group, std::move(joined));
}

// ---- the read that tells, and the fence that comes second

void Causality::fence_observed(ThreadKey reader, const ChainPointer& chain, std::size_t count, Stamp now) {
  for (const Reach reach : all_reaches)
    if (has_reach(reader, Scope::sys, reach)) fence_observed(reader, reach, chain, count, now);
}

void Causality::fence_observed(ThreadKey reader, Reach reach, const ChainPointer& chain, std::size_t count, Stamp now) {
  const Chain::Fenced* last = chain->last_fenced(fence_group(reader, reach), count);
  if (!last) return;
  auto& reads = fence_order(block(reader), reach).reads;
  const auto& [place, brings] = *last;
  if (ClockPointer& told = thread(reader).told[std::size_t(reach)]; told != brings) told = Clock::join(told, brings);
  for (FenceOrder::Read& read : reads) {
    if (read.chain != chain || (read.stamp && read.thread != reader)) continue;
    if (read.place >= place) return;
    if (!read.stamp || last_sync(reader) >= read.stamp) continue;
    read.stamp = now, read.place = place, read.brings = brings; // nobody else knows of the earlier one
    return;
  }
  if (reads.size() >= most_reads) { // of a chain that most of them are of, before those of others
    const bool crowded = 2 * std::count_if(reads.begin(), reads.end(),
                                           [&](const FenceOrder::Read& read) { return read.chain == chain; }) >
                         std::ptrdiff_t(most_reads);
    std::size_t to_forget = most_reads / 2;
    std::erase_if(reads, [&](const FenceOrder::Read& read) {
      const bool forget = to_forget && (!crowded || read.chain == chain);
      to_forget -= forget;
      return forget;
    });
  }
  FenceOrder::Read& read = reads.emplace_back();
  read.thread = reader, read.stamp = now, read.chain = chain, read.place = place, read.brings = brings;
}

void Causality::fence_follows(ThreadKey key, Scope scope, Stamp now) {
  for (const Reach reach : all_reaches)
    if (has_reach(key, scope, reach)) fence_follows(key, reach, now);
}

void Causality::fence_follows(ThreadKey key, Reach reach, Stamp now) {
  const auto& order = block(key).fence_orders[std::size_t(reach)];
  if (!order) return;
  synchronize(key, std::exchange(thread(key).told[std::size_t(reach)], nullptr));
  const std::uint32_t lane = 1u << (key.thread() & 31);
  for (FenceOrder::Read& read : order->reads) {
    if (!read.taken.empty() && read.taken[key.warp()] & lane) continue;
    if (read.stamp && !ordered(read.thread, read.stamp, 0, key)) continue;
    const bool known = read.taken_at && ordered(read.taken_by, read.taken_at, 0, key);
    if (!known) synchronize(key, read.brings);
    if (read.taken.empty()) read.taken.resize(32);
    read.taken[key.warp()] |= lane;
    if (!read.taken_at) read.taken_by = key, read.taken_at = now;
  }
}

// ---- a barrier of the whole block: what was before it all know

void Causality::fences_meet(OperationIndex operation, std::uint32_t index, Block& block) {
  for (std::size_t reach = 0; reach < reaches; ++reach) {
    if (!block.fence_orders[reach]) continue;
    FenceOrder& order = *block.fence_orders[reach];
    if (Reach(reach) == Reach::block)
      order.clear(); // of fences before a barrier all that meet know
    else
      fences_meet(operation, index, order);
  }
}

void Causality::fences_meet(OperationIndex operation, std::uint32_t index, FenceOrder& order) {
  order.before = joined(
      order, ThreadKey(operation, index, 0), [](const FenceOrder::Fence&) { return ~0u; },
      [](const FenceOrder::Fence&, ThreadKey) { return true; });
  order.fences.clear();
  order.asked.reset();
  std::erase_if(order.reads, [](const FenceOrder::Read& read) { return read.taken_at; }); // what they brought, all know
  for (FenceOrder::Read& read : order.reads) read.stamp = 0;
}

} // namespace deadheat::order
