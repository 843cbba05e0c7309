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
// Used for fences of gpu and sys scope, where F1 and W are of one block, and R and F2 of one; R is a read whose value
// is returned (not that of red).
//
// A write takes with it (Chain::fenced) what came before those fences of its block that precede it. A fence acquires
// that of the chains that reads of its block observed before it.
#include <algorithm>
#include <bit>

#include "analyzer/order/causality.h"

namespace deadheat::order {

namespace {

// Bounds, beyond which an order is missed, and no race: of fences and reads the oldest are forgotten, clocks of more
// entries are left out (threads by the thousand that each take a lock), as are reads of long chains that went on since.
constexpr std::size_t most_fences = 128, most_reads = 32, most_entries = 2048, most_behind = 1024;

bool large(const ClockPointer& clock) { return clock && clock->entries().size() > most_entries; }

} // namespace

// ---- the fence that comes first

void Causality::fence_precedes(ThreadKey key, const ClockPointer& before, Stamp now) {
  Block& of = block(key);
  if (!of.fence_order) of.fence_order = std::make_unique<FenceOrder>();
  auto& fences = of.fence_order->fences;
  const Thread* state = find_thread(key);
  const ClockPointer own = state ? state->own : nullptr;
  const std::uint32_t lane = 1u << (key.thread() & 31);
  for (auto at = fences.rbegin(); at != fences.rend() && at->stamp == now && at->warp == key.warp(); ++at) {
    if (at->own != own) continue;
    if (std::has_single_bit(at->mask))
      at->base =
          Clock::with(Clock::join(of.common, own), {{key.block_bits(), whole_block, of.barrier},
                                                    {key.block_bits(), warp_group(key.warp()), of.warps[key.warp()]}});
    at->mask |= lane;
    return;
  }
  if (fences.size() >= most_fences) fences.erase(fences.begin(), fences.begin() + most_fences / 2);
  fences.push_back({key.warp(), lane, now, own, before});
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

// Of a block's fences those that `lanes_of` lets pass, joined. What is known of a thread up to its fence is all that it
// knew then, so that the latest ones stand for most of the earlier ones; those that knew the same share a clock.
template <typename LanesOf>
ClockPointer Causality::joined(const FenceOrder& order, ThreadKey of_block, LanesOf&& lanes_of) const {
  ClockPointer all = order.before;
  const auto& fences = order.fences;
  const auto not_covered = [&](const FenceOrder::Fence& fence) {
    std::uint32_t lanes = fence.mask;
    for (std::uint32_t rest = all ? fence.mask : 0; rest; rest &= rest - 1) {
      const std::uint32_t lane = std::uint32_t(std::countr_zero(rest));
      const ThreadKey key(of_block.operation(), of_block.block(), fence.warp * 32 + lane);
      if (all->seen(key) >= fence.stamp) lanes &= ~(1u << lane);
    }
    return lanes;
  };
  for (auto at = fences.rbegin(); at != fences.rend();) {
    const ClockPointer& base = at->base;
    std::vector<ClockEntry> entries;
    do {
      if (const std::uint32_t lanes = lanes_of(*at, not_covered(*at))) add_entries(*at, of_block, lanes, entries);
      ++at;
    } while (at != fences.rend() && (at->base == base || (base && at->base && !large(base) && *at->base == *base)));
    if (!entries.empty() && !large(base)) all = Clock::join(all, Clock::with(base, std::move(entries)));
  }
  return all;
}

ClockPointer Causality::before_fences(ThreadKey writer) const {
  const Block* of = find_block(writer);
  if (!of || !of->fence_order) return nullptr;
  const Thread* state = find_thread(writer);
  const auto knows_of_it = [&](const ClockPointer& clock) { return clock && clock->knows(writer.block_bits()); };
  const bool of_others = knows_of_it(of->common) || (state && knows_of_it(state->own));
  return joined(*of->fence_order, writer, [&](const FenceOrder::Fence& fence, std::uint32_t asked) {
    const bool same_warp = fence.warp == writer.warp();
    if (same_warp && fence.stamp <= of->warps[fence.warp]) return asked;
    std::uint32_t lanes = same_warp ? asked & 1u << (writer.thread() & 31) : 0;
    for (std::uint32_t rest = of_others ? asked & ~lanes : 0; rest; rest &= rest - 1) {
      const std::uint32_t lane = std::uint32_t(std::countr_zero(rest));
      if (ordered(ThreadKey(writer.operation(), writer.block(), fence.warp * 32 + lane), fence.stamp, 0, writer))
        lanes |= 1u << lane;
    }
    return lanes;
  });
}

// ---- the read that tells, and the fence that comes second

void Causality::fence_observed(ThreadKey reader, const ChainPointer& chain, std::size_t count, Stamp now) {
  Block& of = block(reader);
  if (!of.fence_order) of.fence_order = std::make_unique<FenceOrder>();
  auto& reads = of.fence_order->reads;
  for (FenceOrder::Read& read : reads) {
    if (read.chain != chain || (read.stamp && read.thread != reader)) continue;
    if (read.count >= count) return;
    if (!read.stamp || last_sync(reader) >= read.stamp) continue;
    read.stamp = now, read.count = count, read.brings = nullptr; // nobody else knows of the earlier one
    return;
  }
  if (reads.size() >= most_reads) reads.erase(reads.begin(), reads.begin() + most_reads / 2);
  FenceOrder::Read& read = reads.emplace_back();
  read.thread = reader, read.stamp = now, read.chain = chain, read.count = count;
}

void Causality::fence_follows(ThreadKey key, Stamp now) {
  Block& of = block(key);
  if (!of.fence_order) return;
  const std::uint32_t lane = 1u << (key.thread() & 31);
  for (FenceOrder::Read& read : of.fence_order->reads) {
    if (!read.taken.empty() && read.taken[key.warp()] & lane) continue;
    if (read.stamp && !ordered(read.thread, read.stamp, 0, key)) continue;
    const bool known = read.taken_at && ordered(read.taken_by, read.taken_at, 0, key);
    if (!known) {
      if (!read.brings) read.brings = fenced(*of.fence_order, read.chain, read.count);
      acquire(key, read.brings);
    }
    if (read.taken.empty()) read.taken.resize(32);
    read.taken[key.warp()] |= lane;
    if (!read.taken_at) read.taken_by = key, read.taken_at = now;
  }
}

// The first `count` of what the chain has fenced, joined.
ClockPointer Causality::fenced(FenceOrder& order, const ChainPointer& chain, std::size_t count) {
  const auto go_on = [&](Chain::Merged& from) {
    for (; from.count < count; ++from.count) from.clock = Clock::join(from.clock, chain->fenced[from.count]);
    return from.clock;
  };
  count = std::min(count, chain->fenced.size());
  if (chain->all_fenced.count <= count) return go_on(chain->all_fenced);
  if (order.last_chain != chain || order.last.count > count) order.last = {};
  order.last_chain = chain;
  if (count - order.last.count > most_behind) return nullptr;
  return go_on(order.last);
}

// ---- a barrier of the whole block: what was before it all know

void Causality::fences_meet(OperationIndex operation, std::uint32_t index, Block& of) {
  FenceOrder& order = *of.fence_order;
  order.before = joined(order, ThreadKey(operation, index, 0),
                        [](const FenceOrder::Fence&, std::uint32_t lanes) { return lanes; });
  if (large(order.before)) order.before = nullptr;
  order.fences.clear();
  std::erase_if(order.reads, [](const FenceOrder::Read& read) { return read.taken_at; }); // what they brought, all know
  for (FenceOrder::Read& read : order.reads) read.stamp = 0;
}

} // namespace deadheat::order
