// What is known of groups of asynchronous copies, by their numbers, which rise. Nearly all questions are about the
// newest: those lie side by side. Of older ones, those stay that somebody may still ask about.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/order/clock.h"

namespace deadheat::order {

// One group's accesses become part of the issuing thread's order when it waits, or of the order of those that see the
// phase of an mbarrier complete.
using AsyncGroup = std::uint32_t; // 0: none

struct AsyncState {
  // When its thread waited, or these lanes did; `apart`: when the others of its lanes did. 0: not yet.
  Stamp complete = 0;
  std::uint32_t complete_lanes = 0;
  bool bulk = false;
  std::unique_ptr<std::array<Stamp, 32>> apart;
  Stamp complete_of(unsigned lane) const { return complete_lanes >> lane & 1 ? complete : apart ? (*apart)[lane] : 0; }
  void completed_by(std::uint32_t lanes, Stamp now) {
    if (!complete || complete == now) {
      complete = now;
      complete_lanes |= lanes;
      return;
    }
    if (!apart) apart = std::make_unique<std::array<Stamp, 32>>();
    for (; lanes; lanes &= lanes - 1) (*apart)[unsigned(std::countr_zero(lanes))] = now;
  }
  // Of a bulk copy that completes on an mbarrier: who has this entry, or a later one, has seen it. Stamp 0: it has
  // not.
  ClockEntry completion;
  Stamp told = 0; // whoever comes after what its thread did up to there knows what that knew; 0: when it issued it
};

class AsyncGroups {
 public:
  AsyncGroup make(bool bulk) {
    if (count_ % per_piece == 0) pieces_.push_back(std::make_unique<Piece>());
    newest(count_).bulk = bulk;
    return first_ + count_++;
  }
  std::size_t size() const { return count_ + older_.size(); }
  // Null: nobody remembers it.
  AsyncState* find(AsyncGroup group) { return const_cast<AsyncState*>(std::as_const(*this).find(group)); }
  const AsyncState* find(AsyncGroup group) const {
    if (group - first_ < count_) return &newest(group - first_);
    const auto found = older_.find(group);
    return found == older_.end() ? nullptr : &found->second;
  }
  // Forgets all others. In any order, and any number of times each.
  void keep(std::vector<AsyncGroup> groups) {
    std::sort(groups.begin(), groups.end());
    std::erase_if(older_, [&](const auto& at) { return !std::binary_search(groups.begin(), groups.end(), at.first); });
    const AsyncGroup end = first_ + count_;
    for (auto at = std::lower_bound(groups.begin(), groups.end(), first_); at != groups.end() && *at < end; ++at)
      older_.try_emplace(*at, std::move(newest(*at - first_)));
    pieces_.clear();
    count_ = 0;
    first_ = end;
  }

 private:
  static constexpr std::uint32_t per_piece = 256; // a power of two, which a deque's node of them would not hold
  using Piece = std::array<AsyncState, per_piece>;
  AsyncState& newest(std::uint32_t number) const { return (*pieces_[number / per_piece])[number % per_piece]; }

  std::vector<std::unique_ptr<Piece>> pieces_; // the newest: count_ of them, from first_ on
  std::uint32_t count_ = 0;
  AsyncGroup first_ = 1;
  std::unordered_map<AsyncGroup, AsyncState> older_;
};

} // namespace deadheat::order
