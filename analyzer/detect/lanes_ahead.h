// Goes ahead of who looks at the accesses of a batch, and has what their lanes will look at brought nearer.
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

// Accesses: what there is of a batch. size(): how many accesses; lanes(i): how many of access i lie in the list, 0 if
// none are to be brought nearer; bytes(i): of one's access to global memory, 0: it is left out; near(i): brings nearer
// what another core may have filled, before anybody reads it.
template <typename Accesses>
class LanesAhead {
 public:
  LanesAhead(Filter& filter, const Accesses& accesses, const LaneList& lanes, bool strong)
      : filter_(filter), accesses_(accesses), lanes_(lanes), strong_(strong) {
    filter_.forget_brought(strong);
  }
  // Somebody is about to look at the lane of that number, and those behind it.
  [[gnu::always_inline]] void before(std::uint32_t lane) {
    if (lane >= ready_) go_on(lane);
  }

 private:
  static constexpr std::uint32_t distance = 32; // lanes from one step to the next
  static constexpr std::size_t accesses_ahead = 8;
  static constexpr unsigned groups = 4 * distance; // more than there can be at once
  Filter::Ahead& group(unsigned number) { return groups_[number % groups]; }

  void go_on(std::uint32_t lane) {
    ready_ = lane + distance;
    while (made_ < ready_ + (Filter::steps - 1) * distance && make()) {
    }
    for (unsigned step = 1; step < Filter::steps; ++step) {
      const std::uint32_t end = ready_ + (Filter::steps - 1 - step) * distance;
      for (unsigned& at = done_[step]; at != done_[0] && group(at).first < end; ++at)
        filter_.bring(group(at), lanes_.data(), step);
    }
  }
  // The next lanes, as many as have the same width. False: there are none.
  bool make() {
    Filter::Ahead& of = group(done_[0]);
    of = {strong_, made_, 0, 0, 0};
    for (; next_ < accesses_.size() && of.count < distance; ++next_, used_ = 0) {
      if (next_ + accesses_ahead < accesses_.size()) accesses_.near(next_ + accesses_ahead);
      const std::uint32_t lanes = accesses_.lanes(next_);
      if (!lanes) continue;
      const std::uint32_t bytes = accesses_.bytes(next_), left = lanes - used_;
      if (of.count && bytes != of.bytes) break;
      of.bytes = bytes;
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
  const Accesses& accesses_;
  const LaneList& lanes_;
  const bool strong_;
  std::size_t next_ = 0; // access
  std::uint32_t used_ = 0; // of its lanes
  std::uint32_t made_ = 0; // lanes that are in groups
  std::uint32_t ready_ = 0; // all up to here may be looked at, if those before have been
  std::array<Filter::Ahead, groups> groups_;
  std::array<unsigned, Filter::steps> done_{}; // groups, of each step
};

} // namespace deadheat::detect
