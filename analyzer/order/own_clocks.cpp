#include "analyzer/order/own_clocks.h"

#include <bit>

namespace deadheat::order {

const ClockPointer& OwnClocks::of(ThreadKey thread) const {
  static const ClockPointer nothing;
  if (warps_.size() <= thread.warp()) return nothing;
  std::vector<Alike>& all = warps_[thread.warp()];
  const std::uint32_t lane = 1u << (thread.thread() & 31);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!(all[i].lanes & lane)) continue;
    if (all[i].of_each.empty()) return all[i].clock;
    const ThreadKey lane0(thread.operation(), thread.block(), thread.warp() * 32);
    ClockPointer clock = together(all[i], lane0, lane);
    if (all[i].lanes != lane) {
      all[i].lanes &= ~lane;
      return all.emplace_back(Alike{lane, std::move(clock), {}}).clock;
    }
    all[i] = {lane, std::move(clock), {}};
    return all[i].clock;
  }
  return nothing;
}

// What the lanes know, all of them together.
ClockPointer OwnClocks::together(const Alike& alike, ThreadKey lane0, std::uint32_t lanes) {
  if (alike.of_each.empty()) return alike.clock;
  std::vector<ClockEntry> entries;
  for (const OfEach& of : alike.of_each) {
    if (lanes == ~0u) {
      entries.push_back({lane0.block_bits(), of.of_thread_0 - thread_group(0) + warp_group(lane0.warp()), of.stamp});
      continue;
    }
    for (std::uint32_t rest = lanes; rest; rest &= rest - 1)
      entries.push_back(
          {lane0.block_bits(), of.of_thread_0 + lane0.thread() + std::uint32_t(std::countr_zero(rest)), of.stamp});
  }
  return Clock::with(alike.clock, entries);
}

// So that each of the lanes is in one that has no others.
void OwnClocks::take_apart(std::vector<Alike>& all, std::uint32_t lanes) {
  const std::size_t before = all.size();
  for (std::size_t i = 0; i < before && lanes; ++i) {
    const std::uint32_t of = all[i].lanes & lanes;
    if (!of) continue;
    lanes &= ~of;
    if (of == all[i].lanes) continue;
    Alike apart = all[i];
    apart.lanes = of;
    all[i].lanes &= ~of;
    all.push_back(std::move(apart));
  }
  if (lanes) all.push_back({lanes, nullptr, {}});
}

void OwnClocks::merge(std::vector<Alike>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = all.size() - 1; j > i; --j) {
      if (all[j].clock != all[i].clock || all[j].of_each != all[i].of_each) continue;
      all[i].lanes |= all[j].lanes;
      all.erase(all.begin() + std::ptrdiff_t(j));
    }
  }
}

void OwnClocks::set(std::uint32_t warp, std::uint32_t lanes, const ClockPointer& clock) {
  std::vector<Alike>& all = of_warp(warp);
  std::erase_if(all, [&](Alike& alike) { return !(alike.lanes &= ~lanes); });
  if (clock) all.push_back({lanes, clock, {}});
  merge(all);
}

void OwnClocks::add_to_each(std::uint32_t warp, std::uint32_t lanes, std::uint32_t of_thread_0, Stamp stamp) {
  std::vector<Alike>& all = of_warp(warp);
  take_apart(all, lanes);
  for (Alike& alike : all) {
    if (!(alike.lanes & lanes)) continue;
    std::erase_if(alike.of_each, [&](const OfEach& of) { return of.of_thread_0 == of_thread_0; }); // an earlier one
    alike.of_each.push_back({of_thread_0, stamp});
  }
  merge(all);
}

} // namespace deadheat::order
