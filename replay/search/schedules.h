// The schedules that a search tries, and making one small.
//
// Thread-safety: as Session.
#pragma once

#include <cstdint>
#include <functional>

#include "deadheat/schedule.h"

namespace deadheat::search {

// Number 0, 1, … of a seed: blocks in reverse and permuted order, stalled warps, random walks with short and long
// turns, and randomised priorities of growing depth. `steps`: decisions of the natural run.
Schedule nth_schedule(std::uint64_t number, std::uint64_t seed, std::uint64_t steps);

// Few of `count` items that still do it, in order: delta debugging as in shrink(). `does_it` is given their numbers.
std::vector<std::size_t> fewest(std::size_t count, const std::function<bool(const std::vector<std::size_t>&)>& does_it,
                                std::uint64_t runs);

// Fewest switches that still do it, by delta debugging (Zeller, Hildebrandt: Simplifying and Isolating
// Failure-Inducing Input, 2002): no single switch that is left can be left out, unless `runs` ran out. `does_it` is
// asked at most `runs` times; the whole list does it.
std::vector<Switch> shrink(std::vector<Switch> switches, const std::function<bool(const Schedule&)>& does_it,
                           std::uint64_t runs);

} // namespace deadheat::search
