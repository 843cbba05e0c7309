// What a StrongCell says of a word here and there, beside its epoch, as one byte: the `who` of SparseCells' entries
// that are the caller's.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "analyzer/detect/filter_pages.h"

namespace deadheat::detect::strong_codes {

constexpr std::uint8_t mixed_sizes = 0xF0; // in StrongCell::flags, like no size
constexpr std::uint8_t size_of(std::uint32_t bytes) { return std::uint8_t(std::bit_width(bytes) << 4); }

// Whom of a segment, of 36; 4 or 8 bytes; plain, writes, or both.
constexpr std::uint8_t suspect = 0xFF;
constexpr unsigned whoms = 36, lanes = 32, count = 3 * 2 * whoms;
// From there on: an atomic access to 4 bytes by the lane that the rest says, which read them weakly since.
constexpr unsigned first_read_since = count;
static_assert(first_read_since + lanes <= suspect);
constexpr std::array<StrongCell, count + lanes> decoded = [] {
  std::array<StrongCell, count + lanes> list{};
  for (unsigned code = 0; code < count; ++code) {
    const unsigned whom = code % whoms, size = code / whoms % 2, kind = code / (2 * whoms);
    list[code].who =
        whom < lanes ? who_of(one_lane, whom) : who_of(whom == whoms - 1 ? unsigned(many) : whom + 1 - lanes, 0);
    list[code].flags = std::uint8_t(size_of(size ? 8 : 4) | (kind + 1) * StrongCell::plain);
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    list[first_read_since + lane].who = std::uint8_t(lane);
    list[first_read_since + lane].flags = StrongCell::of_atomics | StrongCell::read_since;
  }
  return list;
}();
static_assert(StrongCell::writes == 2 * StrongCell::plain &&
              StrongCell::of_atomics == (size_of(4) | StrongCell::writes));
// Atomic operations on 4 bytes of several blocks.
constexpr std::uint8_t of_blocks = 2 * whoms + lanes - 1 + whole_operation;
static_assert(decoded[of_blocks].who == who_of(whole_operation, 0) &&
              decoded[of_blocks].flags == StrongCell::of_atomics);

// Is it of one lane, and of those alone that have no read since? Then that may be replaced.
constexpr bool of_lane(std::uint8_t code) { return code < count && code % whoms < lanes; }
constexpr unsigned lane_of(std::uint8_t code) { return code % whoms; }
constexpr std::uint8_t with_lane(std::uint8_t code, unsigned lane) { return std::uint8_t(code - code % whoms + lane); }

} // namespace deadheat::detect::strong_codes
