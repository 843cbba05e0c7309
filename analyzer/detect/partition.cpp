#include "analyzer/detect/partition.h"

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace deadheat::detect {

namespace {

// Of four 64-bit values, those that a mask of four bits names come first: which 32-bit values that makes.
using Order = std::array<std::int32_t, 8>;
constexpr std::array<Order, 16> packed_orders = [] {
  std::array<Order, 16> orders{};
  for (unsigned mask = 0; mask < 16; ++mask) {
    unsigned at = 0;
    for (int value = 0; value < 4; ++value) {
      if (!(mask >> value & 1)) continue;
      orders[mask][at++] = 2 * value;
      orders[mask][at++] = 2 * value + 1;
    }
  }
  return orders;
}();

[[gnu::target("avx2")]] std::uint32_t pack_by_four(const std::uint64_t* addresses, std::uint32_t mask,
                                                   std::uint64_t* to) {
  std::uint64_t* at = to;
  for (unsigned lane = 0; lane < 32; lane += 4, mask >>= 4) {
    const __m256i four = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(addresses + lane)),
                  order = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed_orders[mask & 15].data()));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), _mm256_permutevar8x32_epi32(four, order));
    at += std::popcount(mask & 15);
  }
  return std::uint32_t(at - to);
}

} // namespace

// Without a branch for each: who is in the mask is as good as random.
std::uint32_t pack_one_by_one(const std::uint64_t* addresses, std::uint32_t mask, std::uint64_t* to) {
  std::uint32_t count = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    to[count] = addresses[lane];
    count += mask >> lane & 1;
  }
  return count;
}

std::uint32_t pack_lanes(const std::uint64_t* addresses, std::uint32_t mask, std::uint64_t* to) {
  static const auto pack = __builtin_cpu_supports("avx2") ? pack_by_four : pack_one_by_one;
  if (mask != ~0u) return pack(addresses, mask, to);
  std::memcpy(to, addresses, 32 * sizeof *to);
  return 32;
}

LaneParts lane_parts(const std::uint64_t* addresses, std::uint32_t bytes) {
  constexpr int page_log2 = std::countr_zero(page_bytes);
  const auto all = [](std::uint32_t value) { return _mm_set1_epi32(int(value)); };
  const __m128i multiplier = all(part_multiplier), offset = all(page_bytes - 1),
                last = all(std::uint32_t(page_bytes) - bytes);
  __m128i part[8], beyond[8], high_bits = _mm_setzero_si128();
  for (unsigned i = 0; i < 8; ++i) {
    // One by one: they were stored so just before, and a load of two would wait until all stores are done.
    const auto two = [&](unsigned lane) {
      return _mm_castsi128_ps(
          _mm_set_epi64x(static_cast<long long>(addresses[lane + 1]), static_cast<long long>(addresses[lane])));
    };
    const __m128 a = two(4 * i), b = two(4 * i + 2);
    const __m128i low = _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0))),
                  high = _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
    high_bits = _mm_or_si128(high_bits, high);
    beyond[i] = _mm_cmpgt_epi32(_mm_and_si128(low, offset), last);
    const __m128i number =
        _mm_xor_si128(_mm_or_si128(_mm_srli_epi32(low, page_log2), _mm_slli_epi32(high, 32 - page_log2)),
                      _mm_srli_epi32(high, page_log2));
    part[i] = _mm_srli_epi32(_mm_mullo_epi32(number, multiplier), 24);
  }
  LaneParts of;
  for (unsigned half = 0; half < 2; ++half) {
    const auto bytes_of = [&](const __m128i* of_four) {
      const __m128i* const at = of_four + 4 * half;
      return std::pair(_mm_packs_epi32(at[0], at[1]), _mm_packs_epi32(at[2], at[3]));
    };
    const auto [part_low, part_high] = bytes_of(part);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(of.begin.data() + 16 * half), _mm_packus_epi16(part_low, part_high));
    const auto [beyond_low, beyond_high] = bytes_of(beyond);
    of.beyond |= std::uint32_t(_mm_movemask_epi8(_mm_packs_epi16(beyond_low, beyond_high))) << 16 * half;
  }
  of.limited = _mm_testz_si128(high_bits, all(~std::uint32_t((address_limit >> 32) - 1)));
  return of;
}

} // namespace deadheat::detect
