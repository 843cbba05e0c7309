// Goes ahead of who looks at the accesses of a batch, and has what their lanes will look at brought nearer.
//
// By lane and not by access: of two workers each has about half the lanes of an access, and loops over 16 lanes or 17
// cost as much again where a processor expects other numbers. So the accesses are gone through once, before all, for
// where lanes of another width begin; from then on all goes by 32 lanes.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>

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
      : filter_(filter), lanes_(lanes), strong_(strong) {
    filter_.forget_brought(strong);
    std::uint32_t end = 0;
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      if (i + accesses_ahead < accesses.size()) accesses.near(i + accesses_ahead);
      const std::uint32_t count = accesses.lanes(i);
      if (!count) continue;
      end += count;
      const std::uint32_t bytes = accesses.bytes(i);
      if (runs_.empty() || bytes != runs_.back().bytes) runs_.push_back({end, bytes});
      runs_.back().end = end;
    }
  }
  // Somebody is about to look at the lane of that number, and those of its access behind it.
  [[gnu::always_inline]] void before(std::uint32_t lane) {
    if (lane + access_lanes > ready_) go_on(lane);
  }

 private:
  static constexpr std::uint32_t access_lanes = 32, distance = 32; // distance: lanes from one step to the next
  static constexpr std::size_t accesses_ahead = 16;
  static constexpr unsigned groups = 4 * distance; // more than there can be at once
  Filter::Ahead& group(unsigned number) { return groups_[number % groups]; }

  // By whole distances, so that as a rule each step has one group to do each time.
  void go_on(std::uint32_t lane) {
    ready_ = (lane + access_lanes + distance - 1) / distance * distance;
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
    if (run_ == runs_.size()) return false;
    const Run& run = runs_[run_];
    Filter::Ahead& of = group(done_[0]);
    of = {strong_, made_, std::min(distance, run.end - made_), run.bytes, 0};
    made_ += of.count;
    run_ += made_ == run.end;
    // The list itself, which another core may have filled.
    for (std::uint32_t at = made_ + distance; at < made_ + 2 * distance; at += 8)
      __builtin_prefetch(lanes_.data() + at);
    filter_.bring(of, lanes_.data(), 0);
    ++done_[0];
    return true;
  }

  struct Run { // lanes up to `end`, of accesses of as many bytes each
    std::uint32_t end = 0, bytes = 0;
  };
  Filter& filter_;
  const LaneList& lanes_;
  const bool strong_;
  boost::container::small_vector<Run, 16> runs_;
  std::size_t run_ = 0; // the next lanes'
  std::uint32_t made_ = 0; // lanes that are in groups
  std::uint32_t ready_ = 0; // all up to here may be looked at, if those before have been
  std::array<Filter::Ahead, groups> groups_;
  std::array<unsigned, Filter::steps> done_{}; // groups, of each step
};

} // namespace deadheat::detect
