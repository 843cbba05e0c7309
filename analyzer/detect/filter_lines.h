// A line of a cache in a table of entries that lie here and there: seven of them, each with its key.
//
// Thread-safety: none.
#pragma once

#include <emmintrin.h>

#include <array>
#include <cstdint>

#include "analyzer/detect/filter_arrays.h"

namespace deadheat::detect {

struct alignas(64) EntryLine {
  static constexpr unsigned slots = 7;
  std::array<std::uint32_t, slots> key; // of a unit: its number; of an array: its block's, as SparseCells says
  std::array<std::uint32_t, slots> segment; // 0: nothing. Of an array: its name and 1
  std::array<std::uint8_t, slots> who; // of an array: its size
  std::uint8_t depth; // what belongs here lies in so many lines more

  unsigned empty() const { // places
    const __m128i zero = _mm_setzero_si128();
    auto nothing = [&](unsigned from) {
      const __m128i names = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&segment[from]));
      return unsigned(_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(names, zero))));
    };
    return nothing(0) | nothing(3) << 3;
  }
  // The places whose keys are of the block that `wanted` is of, as far as they lie in the same way.
  [[gnu::always_inline]] unsigned near(std::uint32_t wanted) const {
    static_assert(slots == 7);
    const __m128i block = _mm_set1_epi32(int(wanted >> EntryArrays::units_log2));
    auto alike = [&](unsigned from) {
      const __m128i keys = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&key[from]));
      const __m128i same = _mm_cmpeq_epi32(_mm_srli_epi32(keys, EntryArrays::units_log2), block);
      return unsigned(_mm_movemask_ps(_mm_castsi128_ps(same)));
    };
    return alike(0) | alike(3) << 3;
  }
};
static_assert(sizeof(EntryLine) == 64);

} // namespace deadheat::detect
