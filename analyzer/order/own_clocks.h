// What lanes of a block's warps know beyond what the block knows. Lanes that wait for the same know the same, so that
// there is one clock for them all, and what they do together is done once. What each knows of itself alone, as after a
// fence that all of them executed, is kept as one entry until somebody asks for one of them.
//
// Invariant: each lane has one clock at most.
// Thread-safety: none.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/order/clock.h"

namespace deadheat::order {

class OwnClocks {
 public:
  const ClockPointer& of(ThreadKey thread) const; // null: nothing
  // Calls each(lanes, clock) for lanes of a warp, as many together as have the same clock; with what each of these
  // knows of itself.
  template <typename Each>
  void each(ThreadKey lane0, std::uint32_t lanes, Each&& each) const;
  // Calls each(clock) for all clocks that somebody has, in the same way, and takes them away.
  template <typename Each>
  void clear(std::uint64_t block_bits, Each&& each);
  void set(std::uint32_t warp, std::uint32_t lanes, const ClockPointer& clock); // in place of what they know
  // Calls more(clock), which returns a clock with all of that one that the lanes have in its place.
  template <typename More>
  void add(std::uint32_t warp, std::uint32_t lanes, More&& more);
  // To each of the lanes: of its block, the entry of the group `of_thread_0` + its number in the block. of_thread_0: a
  // thread_group(), perhaps of a kind of which warps have entries too.
  void add_to_each(std::uint32_t warp, std::uint32_t lanes, std::uint32_t of_thread_0, Stamp stamp);

  bool never() const { return warps_.empty(); } // had anybody a clock?
  // Have all lanes of the warp the same, or none?
  bool alike(std::uint32_t warp) const {
    return warp >= warps_.size() || warps_[warp].empty() ||
           (warps_[warp].front().lanes == ~0u && warps_[warp].front().of_each.empty());
  }
  std::uint32_t warps() const { return std::uint32_t(warps_.size()); } // there are no clocks beyond those

 private:
  struct OfEach {
    std::uint32_t of_thread_0 = 0;
    Stamp stamp = 0;
    friend bool operator==(const OfEach&, const OfEach&) = default;
  };
  struct Alike {
    std::uint32_t lanes = 0;
    ClockPointer clock;
    std::vector<OfEach> of_each;
  };
  static ClockPointer together(const Alike& alike, ThreadKey lane0, std::uint32_t lanes);
  std::vector<Alike>& of_warp(std::uint32_t warp) {
    if (warps_.size() <= warp) warps_.resize(warp + 1);
    return warps_[warp];
  }
  void take_apart(std::vector<Alike>& all, std::uint32_t lanes);
  static void merge(std::vector<Alike>& all);

  mutable std::vector<std::vector<Alike>> warps_; // of() takes one lane apart from others
};

template <typename Each>
void OwnClocks::each(ThreadKey lane0, std::uint32_t lanes, Each&& each) const {
  const std::uint32_t warp = lane0.warp();
  for (std::size_t i = 0; warp < warps_.size() && i < warps_[warp].size(); ++i) {
    const std::uint32_t of = warps_[warp][i].lanes & lanes;
    if (!of) continue;
    lanes &= ~of;
    if (std::has_single_bit(of)) {
      ThreadKey lane;
      lane.bits = lane0.bits + std::uint64_t(std::countr_zero(of));
      each(of, ClockPointer(this->of(lane))); // the same object each time
    } else {
      each(of, together(warps_[warp][i], lane0, of));
    }
  }
  if (lanes) each(lanes, ClockPointer());
}

template <typename Each>
void OwnClocks::clear(std::uint64_t block_bits, Each&& each) {
  for (std::uint32_t warp = 0; warp < warps_.size(); ++warp) {
    ThreadKey lane0;
    lane0.bits = block_bits << 10 | warp * 32;
    for (const Alike& alike : warps_[warp]) each(together(alike, lane0, alike.lanes));
    warps_[warp].clear();
  }
}

template <typename More>
void OwnClocks::add(std::uint32_t warp, std::uint32_t lanes, More&& more) {
  std::vector<Alike>& all = of_warp(warp);
  const std::size_t before = all.size();
  bool changed = false;
  for (std::size_t i = 0; i < before && lanes; ++i) {
    const std::uint32_t of = all[i].lanes & lanes;
    if (!of) continue;
    lanes &= ~of;
    ClockPointer now = more(all[i].clock);
    if (now == all[i].clock) continue;
    changed = true;
    if (of != all[i].lanes) {
      Alike rest = all[i];
      rest.lanes &= ~of;
      all.push_back(std::move(rest));
      all[i].lanes = of;
    }
    all[i].clock = std::move(now);
  }
  if (lanes) {
    if (ClockPointer now = more(ClockPointer())) {
      all.push_back({lanes, std::move(now), {}});
      changed = true;
    }
  }
  if (changed && all.size() > 1) merge(all);
}

} // namespace deadheat::order
