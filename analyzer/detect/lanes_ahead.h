// Goes ahead of who looks at the weak accesses of a batch, and has what their lanes will look at brought nearer.
//
// By lane and not by access: of two workers each has about half the lanes of an access, and loops over 16 lanes or 17
// cost as much again where a processor expects other numbers.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "analyzer/detect/batch.h"
#include "analyzer/detect/filter.h"

namespace deadheat::detect {

// width(access): bytes of a lane's access to global memory; 0: not to be brought nearer.
template <typename Width>
class LanesAhead {
 public:
  LanesAhead(Filter& filter, const std::vector<WeakAccess>& accesses, const LaneList& lanes, const Width& width)
      : filter_(filter), accesses_(accesses), lanes_(lanes), width_(width) {
    filter_.forget_brought();
  }
  // Somebody is about to look at the lane of that number, and those behind it.
  [[gnu::always_inline]] void before(std::uint32_t lane) {
    while (made_ < lane + Filter::steps * distance && make()) {
    }
    for (unsigned step = 1; step < Filter::steps; ++step) {
      for (unsigned& at = done_[step]; at != done_[0] && group(at).first < lane + (Filter::steps - step) * distance;
           ++at)
        filter_.bring(group(at), lanes_.data(), step);
    }
  }

 private:
  static constexpr std::uint32_t distance = 32; // lanes from one step to the next
  static constexpr std::size_t accesses_ahead = 8; // which another core may have filled
  static constexpr unsigned groups = 4 * distance; // more than there can be at once
  Filter::Ahead& group(unsigned number) { return groups_[number % groups]; }

  // The next lanes, as many as have the same width. False: there are none.
  bool make() {
    Filter::Ahead& of = group(done_[0]);
    of = {made_, 0, 0, 0};
    for (; next_ < accesses_.size() && of.count < distance; ++next_, used_ = 0) {
      const WeakAccess& access = accesses_[next_];
      if (next_ + accesses_ahead < accesses_.size()) __builtin_prefetch(&accesses_[next_ + accesses_ahead]);
      if (access.affine || !access.mask) continue;
      const std::uint32_t width = width_(access), left = std::uint32_t(std::popcount(access.mask)) - used_;
      if (of.count && width != of.bytes) break;
      of.bytes = width;
      if (of.count + left > distance) {
        used_ += distance - of.count;
        of.count = distance;
        break;
      }
      of.count += left;
    }
    if (!of.count) return false;
    made_ += of.count;
    // The list itself, which another core may have filled.
    for (std::uint32_t at = made_ + distance; at < made_ + 2 * distance; at += 8)
      __builtin_prefetch(lanes_.data() + at);
    filter_.bring(of, lanes_.data(), 0);
    ++done_[0];
    return true;
  }

  Filter& filter_;
  const std::vector<WeakAccess>& accesses_;
  const LaneList& lanes_;
  const Width& width_;
  std::size_t next_ = 0; // access
  std::uint32_t used_ = 0; // of its lanes
  std::uint32_t made_ = 0; // lanes that are in groups
  std::array<Filter::Ahead, groups> groups_;
  std::array<unsigned, Filter::steps> done_{}; // groups, of each step
};

} // namespace deadheat::detect
