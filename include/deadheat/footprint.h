// What an opaque launch may touch, as Launch::footprint holds it (deadheat/trace.h): whole allocations by their ids,
// and ranges of memory, each as two numbers whose highest bit is set: its address, its bytes.
//
// A range lies in one allocation. Numbers that fit neither form are passed over: readers that know ids only do so with
// ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace deadheat::trace {

inline constexpr std::uint64_t footprint_range = std::uint64_t(1) << 63;

inline void add_range(std::vector<std::uint64_t>& footprint, std::uint64_t address, std::uint64_t bytes) {
  footprint.push_back(address | footprint_range);
  footprint.push_back(bytes | footprint_range);
}

// Calls whole(id) and part(address, bytes).
template <typename Whole, typename Part>
void each_reached(std::span<const std::uint64_t> footprint, Whole&& whole, Part&& part) {
  for (std::size_t i = 0; i < footprint.size(); ++i) {
    const std::uint64_t number = footprint[i];
    if (number <= ~std::uint32_t(0)) {
      whole(std::uint32_t(number));
    } else if ((number & footprint_range) && i + 1 < footprint.size() && (footprint[i + 1] & footprint_range)) {
      part(number & ~footprint_range, footprint[i + 1] & ~footprint_range);
      ++i;
    }
  }
}

}  // namespace deadheat::trace
