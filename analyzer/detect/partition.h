// Memory in 256 parts, by page: what is found out about a part depends on the accesses to it and on nothing else that
// happens to memory.
//
// So parts can be looked at by several threads at once, or one after another when memory is short, and the result is
// the same. `memory` is 0 for global memory, else ThreadKey::block_bits + 1 of the block whose shared memory it is;
// which launch the block is of does not matter.
//
// Thread-safety: pure functions and plain values.
#pragma once

#include <emmintrin.h>

#include <array>
#include <bit>
#include <bitset>
#include <cstdint>

#include "analyzer/detect/suspects.h"

namespace deadheat::detect {

inline constexpr unsigned partitions = 256;
using Partitions = std::bitset<partitions>; // a set of them

// Of whose memory it is, as much as decides on the part.
inline std::uint64_t home_of(std::uint64_t memory) {
  return memory ? (((memory - 1) & order::ThreadKey::last_block) + 1) * 0xc2b2ae3d27d4eb4fu : 0;
}
inline constexpr std::uint64_t part_multiplier = 0x9e3779b97f4a7c15u;
inline unsigned partition_of(std::uint64_t memory, std::uint64_t page_number) {
  return unsigned((page_number ^ home_of(memory)) * part_multiplier >> 56);
}

// The parts of the bytes `offset` behind each of 32 addresses: the same, two at once.
using PartBytes = std::array<std::uint8_t, 32>;
inline PartBytes partitions_of(std::uint64_t memory, const std::uint64_t* addresses, std::uint64_t offset = 0) {
  const auto both = [](std::uint64_t value) { return _mm_set1_epi64x(static_cast<long long>(value)); };
  const __m128i home = both(home_of(memory)), further = both(offset), low = both(part_multiplier & 0xFFFFFFFF),
                high = both(part_multiplier >> 32);
  const auto two = [&](const std::uint64_t* at) {
    const __m128i address = _mm_add_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), further);
    const __m128i number = _mm_xor_si128(_mm_srli_epi64(address, std::countr_zero(page_bytes)), home);
    // The product's lower 64 bits, of products of 32.
    const __m128i upper = _mm_add_epi64(_mm_mul_epu32(_mm_srli_epi64(number, 32), low), _mm_mul_epu32(number, high));
    return _mm_srli_epi64(_mm_add_epi64(_mm_mul_epu32(number, low), _mm_slli_epi64(upper, 32)), 56);
  };
  const auto eight = [&](const std::uint64_t* at) { // in 16 bits each
    return _mm_packs_epi32(_mm_packs_epi32(two(at), two(at + 2)), _mm_packs_epi32(two(at + 4), two(at + 6)));
  };
  PartBytes parts;
  for (unsigned half = 0; half < 2; ++half) {
    const std::uint64_t* const at = addresses + 16 * half;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(parts.data() + 16 * half), _mm_packus_epi16(eight(at), eight(at + 8)));
  }
  return parts;
}

} // namespace deadheat::detect
