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
    if (count_ == pieces_.size() * per_piece) pieces_.push_back(std::make_unique<Piece>());
    AsyncState& fresh = newest(count_);
    fresh = {}; // it may have been another's
    fresh.bulk = bulk;
    return first_ + count_++;
  }
  std::size_t size() const { return count_ + older_.size(); }
  // Null: nobody remembers it.
  AsyncState* find(AsyncGroup group) { return const_cast<AsyncState*>(std::as_const(*this).find(group)); }
  const AsyncState* find(AsyncGroup group) const {
    if (group - first_ < count_) return &newest(group - first_);
    const auto found = std::lower_bound(older_.begin(), older_.end(), group,
                                        [](const Older& of, AsyncGroup number) { return of.group < number; });
    return found == older_.end() || found->group != group ? nullptr : &found->state;
  }
  // Forgets all others. In any order, and any number of times each.
  void keep(const std::vector<AsyncGroup>& groups) {
    std::vector<bool> named(count_);
    std::vector<AsyncGroup> before; // of the others
    for (const AsyncGroup group : groups) {
      if (group - first_ < count_)
        named[group - first_] = true;
      else
        before.push_back(group);
    }
    std::sort(before.begin(), before.end());
    std::erase_if(older_, [&](const Older& of) { return !std::binary_search(before.begin(), before.end(), of.group); });
    for (std::uint32_t number = 0; number < count_; ++number)
      if (named[number]) older_.push_back({first_ + number, std::move(newest(number))});
    first_ += count_;
    count_ = 0; // their memory is for those that come next
  }

 private:
  struct Older {
    AsyncGroup group = 0;
    AsyncState state;
  };
  static constexpr std::uint32_t per_piece = 256; // a power of two, which a deque's node of them would not hold
  using Piece = std::array<AsyncState, per_piece>;
  AsyncState& newest(std::uint32_t number) const { return (*pieces_[number / per_piece])[number % per_piece]; }

  std::vector<std::unique_ptr<Piece>> pieces_; // the newest: count_ of them, from first_ on; and room
  std::uint32_t count_ = 0;
  AsyncGroup first_ = 1;
  std::vector<Older> older_; // by number
};

} // namespace deadheat::order
