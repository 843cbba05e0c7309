// What lanes of a block's warps know beyond what the block knows. Lanes that wait for the same know the same, so that
// there is one clock for them all, and what they do together is done once.
//
// Invariant: each lane has one clock at most, and no two clocks of a warp are the same object.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/order/clock.h"

namespace deadheat::order {

class OwnClocks {
 public:
  const ClockPointer& of(ThreadKey thread) const { // null: nothing
    static const ClockPointer nothing;
    if (warps_.size() <= thread.warp()) return nothing;
    for (const Alike& alike : warps_[thread.warp()])
      if (alike.lanes >> (thread.thread() & 31) & 1) return alike.clock;
    return nothing;
  }
  // Calls each(lanes, clock) for lanes of a warp, as many together as have the same clock.
  template <typename Each>
  void each(std::uint32_t warp, std::uint32_t lanes, Each&& each) const {
    if (warp < warps_.size()) {
      for (const Alike& alike : warps_[warp]) {
        if (!(alike.lanes & lanes)) continue;
        each(alike.lanes & lanes, alike.clock);
        lanes &= ~alike.lanes;
      }
    }
    if (lanes) each(lanes, ClockPointer());
  }
  // The same, with change(lanes, clock), which returns the clock that they have from now on.
  template <typename Change>
  void change(std::uint32_t warp, std::uint32_t lanes, Change&& change);
  template <typename Each>
  void clear(Each&& each) { // each(clock): that somebody had
    for (std::vector<Alike>& of_warp : warps_) {
      for (const Alike& alike : of_warp) each(alike.clock);
      of_warp.clear();
    }
  }
  bool never() const { return warps_.empty(); } // had anybody a clock?
  // Have all lanes of the warp the same, or none?
  bool alike(std::uint32_t warp) const {
    return warp >= warps_.size() || warps_[warp].empty() || warps_[warp].front().lanes == ~0u;
  }
  std::uint32_t warps() const { return std::uint32_t(warps_.size()); } // there are no clocks beyond those

 private:
  struct Alike {
    std::uint32_t lanes = 0;
    ClockPointer clock;
  };
  std::vector<std::vector<Alike>> warps_;
};

template <typename Change>
void OwnClocks::change(std::uint32_t warp, std::uint32_t lanes, Change&& change) {
  if (warps_.size() <= warp) warps_.resize(warp + 1);
  std::vector<Alike>& all = warps_[warp];
  const std::size_t before = all.size();
  bool merge = false;
  for (std::size_t i = 0; i < before && lanes; ++i) {
    const std::uint32_t of = all[i].lanes & lanes;
    if (!of) continue;
    lanes &= ~of;
    ClockPointer now = change(of, all[i].clock);
    if (now == all[i].clock) continue;
    merge = true;
    if (of == all[i].lanes) {
      all[i].clock = std::move(now);
    } else { // they come apart
      all[i].lanes &= ~of;
      all.push_back({of, std::move(now)});
    }
  }
  if (lanes) {
    ClockPointer now = change(lanes, ClockPointer());
    merge |= now != nullptr;
    all.push_back({lanes, std::move(now)});
  }
  std::erase_if(all, [](const Alike& alike) { return !alike.clock; });
  for (std::size_t i = 0; merge && i < all.size(); ++i) {
    for (std::size_t j = all.size() - 1; j > i; --j) {
      if (all[j].clock != all[i].clock) continue;
      all[i].lanes |= all[j].lanes;
      all.erase(all.begin() + std::ptrdiff_t(j));
    }
  }
}

} // namespace deadheat::order
