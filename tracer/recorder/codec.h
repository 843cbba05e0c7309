// Bytes of the compact records: variable-length numbers, columns of 32 lanes, and the delta state that encoder and
// decoder keep in step.
//
// Functions on raw pointers check nothing: the encoder guarantees `record_slack` bytes of room before each record, the
// decoder as many readable bytes after its payload, and checks its position when the record is done. No record without
// strings is longer than that.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "deadheat/trace.h"

namespace deadheat::trace {

inline constexpr std::size_t record_slack = 4096;
inline constexpr std::uint32_t full_mask = 0xFFFFFFFF;

inline std::uint8_t* put_varint(std::uint8_t* p, std::uint64_t v) {
  while (v >= 0x80) {
    *p++ = std::uint8_t(v) | 0x80;
    v >>= 7;
  }
  *p++ = std::uint8_t(v);
  return p;
}

// At most 10 bytes; bits beyond the 64th are dropped.
inline const std::uint8_t* get_varint(const std::uint8_t* p, std::uint64_t& v) {
  std::uint64_t value = *p & 0x7F;
  for (unsigned shift = 7; (*p++ & 0x80) && shift < 70; shift += 7) value |= std::uint64_t(*p & 0x7F) << shift;
  v = value;
  return p;
}

inline std::uint64_t zigzag(std::uint64_t difference) { return (difference << 1) ^ (0 - (difference >> 63)); }
inline std::uint64_t unzigzag(std::uint64_t v) { return (v >> 1) ^ (0 - (v & 1)); }

inline std::uint8_t* put_difference(std::uint8_t* p, std::uint64_t value, std::uint64_t from) {
  return put_varint(p, zigzag(value - from));
}
inline const std::uint8_t* get_difference(const std::uint8_t* p, std::uint64_t& value, std::uint64_t from) {
  std::uint64_t v;
  p = get_varint(p, v);
  value = from + unzigzag(v);
  return p;
}

// How the values of the lanes in a mask are written (FORMAT.md, "Columns").
enum class Column : unsigned {
  expected = 0, // base + stride · lane with the stride that the reader expects
  affine = 1,   // the same with another stride
  runs = 2,     // a few pieces of equal differences
  offsets = 3   // shifted offsets from the least, all of one width
};
inline constexpr unsigned max_runs = 6;

// How many of the values from `at` on go on by `step` from the one before.
inline unsigned run_length(const std::uint64_t* values, unsigned at, unsigned count, std::uint64_t step) {
  unsigned i = at;
  const auto uneven = [&](unsigned k) { return (values[k] - values[k - 1]) ^ step; };
  while (i + 4 <= count && !(uneven(i) | uneven(i + 1) | uneven(i + 2) | uneven(i + 3))) i += 4;
  while (i < count && !uneven(i)) i++;
  return i - at;
}

// Writes a column that is not affine.
inline Column put_uneven(std::uint8_t*& p, const std::uint64_t* packed, unsigned count, std::uint64_t& base) {
  // Values that have nothing to do with each other are found out by the first of them.
  static_assert(max_runs == 6);
  unsigned changes = 0;
  for (unsigned i = 2; count >= 8 && i < 8; i++)
    changes += (packed[i] - packed[i - 1]) != (packed[i - 1] - packed[i - 2]);

  std::uint8_t* const begin = p;
  p = put_difference(p, packed[0], base);
  std::uint8_t* const runs = p++;
  *runs = 0;
  unsigned done = 1;
  while (changes < max_runs && done < count && *runs < max_runs) {
    const std::uint64_t difference = packed[done] - packed[done - 1];
    const unsigned length = 1 + run_length(packed, done + 1, count, difference);
    p = put_varint(p, zigzag(difference));
    *p++ = std::uint8_t(length);
    ++*runs;
    done += length;
  }
  if (done == count) {
    base = packed[0];
    return Column::runs;
  }

  p = begin;
  std::uint64_t least = packed[0];
  for (unsigned i = 1; i < count; i++) least = std::min(least, packed[i]);
  p = put_difference(p, least, base);
  base = least;
  std::uint64_t bits = 0;
  for (unsigned i = 0; i < count; i++) bits |= packed[i] - least;
  unsigned shift = unsigned(std::countr_zero(bits));
  if (shift > 31) shift = 31;
  const unsigned width = (unsigned(std::bit_width(bits >> shift)) + 7) / 8;
  *p++ = std::uint8_t((width - 1) | shift << 3);
  for (unsigned i = 0; i < count; i++) {
    const std::uint64_t offset = (packed[i] - least) >> shift;
    std::memcpy(p, &offset, 8);
    p += width;
  }
  return Column::offsets;
}

// Writes the column (mask is not 0) and sets `base` and `stride` to what the next one is coded against.
template <typename Word>
Column put_column(std::uint8_t*& p, const Word* values, std::uint32_t mask, std::uint64_t& base, std::int64_t& stride) {
  const unsigned first = unsigned(std::countr_zero(mask));
  std::uint64_t step = std::uint64_t(stride);
  bool affine = true;
  if (mask == full_mask) {
    step = std::uint64_t(values[1]) - values[0];
    for (unsigned i = 1; i < 29 && affine; i += 5) { // some at a time: 30 differences
      std::uint64_t uneven = 0;
      for (unsigned k = i; k < i + 5; k++) uneven |= (std::uint64_t(values[k + 1]) - values[k]) ^ step;
      affine = uneven == 0;
    }
  } else if (const std::uint32_t others = mask & (mask - 1)) {
    const unsigned second = unsigned(std::countr_zero(others));
    step = std::uint64_t(std::int64_t(std::uint64_t(values[second]) - values[first]) / std::int64_t(second - first));
    for (std::uint32_t rest = others; rest; rest &= rest - 1) {
      const unsigned lane = unsigned(std::countr_zero(rest));
      affine &= std::uint64_t(values[lane]) == values[first] + step * (lane - first);
    }
  }
  if (affine) {
    p = put_difference(p, values[first], base);
    base = values[first];
    if (std::int64_t(step) == stride) return Column::expected;
    stride = std::int64_t(step);
    p = put_varint(p, zigzag(step));
    return Column::affine;
  }
  if constexpr (std::is_same_v<Word, std::uint64_t>)
    if (mask == full_mask) return put_uneven(p, values, 32, base);
  std::uint64_t packed[32];
  unsigned count = 0;
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) packed[count++] = values[std::countr_zero(rest)];
  return put_uneven(p, packed, count, base);
}

// Reads a column into the lanes of `mask`, which is not 0; false when its bytes make no sense.
template <typename Word>
bool get_column(const std::uint8_t*& p, Column mode, Word* values, std::uint32_t mask, std::uint64_t& base,
                std::int64_t& stride) {
  const unsigned first = unsigned(std::countr_zero(mask));
  if (mode == Column::expected || mode == Column::affine) {
    p = get_difference(p, base, base);
    if (mode == Column::affine) {
      std::uint64_t step;
      p = get_varint(p, step);
      stride = std::int64_t(unzigzag(step));
    }
    const std::uint64_t step = std::uint64_t(stride);
    if (mask == full_mask) {
      for (unsigned lane = 0; lane < 32; lane++) values[lane] = Word(base + step * lane);
    } else {
      for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = unsigned(std::countr_zero(rest));
        values[lane] = Word(base + step * (lane - first));
      }
    }
    return true;
  }
  if (mode == Column::runs) {
    p = get_difference(p, base, base);
    std::uint64_t value = base;
    std::uint32_t rest = mask & (mask - 1);
    values[first] = Word(value);
    const unsigned runs = *p++;
    if (runs > max_runs) return false;
    for (unsigned run = 0; run < runs; run++) {
      std::uint64_t step;
      p = get_varint(p, step);
      step = unzigzag(step);
      for (unsigned length = *p++; length; length--, rest &= rest - 1) {
        if (!rest) return false;
        value += step;
        values[std::countr_zero(rest)] = Word(value);
      }
    }
    return rest == 0;
  }
  p = get_difference(p, base, base);
  const unsigned width = (*p & 7) + 1, shift = *p >> 3;
  p++;
  const std::uint64_t keep = width == 8 ? ~std::uint64_t(0) : (std::uint64_t(1) << 8 * width) - 1;
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    std::uint64_t offset;
    std::memcpy(&offset, p, 8);
    p += width;
    values[std::countr_zero(rest)] = Word(base + ((offset & keep) << shift));
  }
  return true;
}

// What one record leaves for the next of its chunk to be coded against. Fresh (all zero) at the start of each chunk.
struct DeltaState {
  static constexpr std::uint32_t slots = 1024;
  struct Slot { // of sites with the same low bits
    std::uint64_t base = 0;
    std::int64_t stride = 0;
    std::uint32_t next = 0; // site that followed this one
    std::uint32_t reserved = 0;
  };
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0;
  std::uint64_t order = 0; // last order_first
  Slot slot[slots];

  Slot& of(std::uint32_t site_number) { return slot[site_number % slots]; }
  // Makes `site_number` the current site.
  void move_to(std::uint32_t site_number) {
    of(site).next = site_number;
    site = site_number;
  }
};

// First byte of an access, and its second when `extras` is set.
namespace access_bits {
inline constexpr unsigned extras = 1;         // a second byte follows
inline constexpr unsigned named_site = 2;     // the site is not the one expected
inline constexpr unsigned mask_shift = 2;     // 0 full, 1 as in the access before, 2 written out
inline constexpr unsigned column_shift = 4;   // Column of the addresses
inline constexpr unsigned shared = 64;        // Space::shared, else Space::global
// Second byte.
inline constexpr unsigned digest_mask = 3;    // 0 all zero, 1 all equal, 2 affine, 3 each
inline constexpr unsigned strong = 4;
inline constexpr unsigned wrote_shift = 3;    // 0 no lane, 1 all lanes of the mask, 2 a mask
inline constexpr unsigned other_space = 32;   // a byte says which
} // namespace access_bits

} // namespace deadheat::trace
