// The schedules that a search tries, and making one small.
//
// Thread-safety: as Session.
#pragma once

#include <cstdint>
#include <functional>

#include "deadheat/schedule.h"

namespace deadheat::search {

// Number 0, 1, … of a seed: random walks with short and long turns, and randomised priorities of growing depth.
// `steps`: decisions of the natural run.
Schedule nth_schedule(std::uint64_t number, std::uint64_t seed, std::uint64_t steps);

// Fewest switches that still do it, by delta debugging (Zeller, Hildebrandt: Simplifying and Isolating
// Failure-Inducing Input, 2002): no single switch that is left can be left out, unless `runs` ran out. `does_it` is
// asked at most `runs` times; the whole list does it.
std::vector<Switch> shrink(std::vector<Switch> switches, const std::function<bool(const Schedule&)>& does_it,
                           std::uint64_t runs);

} // namespace deadheat::search
