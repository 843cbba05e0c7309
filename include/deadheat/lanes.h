// The lanes of a warp that a mask names.
//
// Thread-safety: pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace deadheat {

// Calls each(lane) for every bit of the mask that is set, from the lowest on.
template <typename Each>
void each_lane(std::uint32_t mask, Each&& each) {
  for (; mask; mask &= mask - 1) each(unsigned(std::countr_zero(mask)));
}

}  // namespace deadheat
