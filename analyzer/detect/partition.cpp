#include "analyzer/detect/partition.h"

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstring>

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

// AVX-512, as far as it is used here.
#define DEADHEAT_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"

[[gnu::target(DEADHEAT_AVX512)]] std::uint32_t pack_by_avx512(const std::uint64_t* addresses, std::uint32_t mask,
                                                              std::uint64_t* to) {
  std::uint64_t* at = to;
  for (unsigned lane = 0; lane < 32; lane += 8, mask >>= 8) {
    const __m512i eight = _mm512_loadu_si512(addresses + lane);
    _mm512_storeu_si512(at, _mm512_maskz_compress_epi64(__mmask8(mask), eight));
    at += std::popcount(mask & 0xFF);
  }
  return std::uint32_t(at - to);
}

// Without a branch for each: who is in the mask is as good as random.
std::uint32_t pack_one_by_one(const std::uint64_t* addresses, std::uint32_t mask, std::uint64_t* to) {
  std::uint32_t count = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    to[count] = addresses[lane];
    count += mask >> lane & 1;
  }
  return count;
}

[[gnu::target("avx2")]] std::uint32_t pack_by_avx2(const std::uint64_t* addresses, std::uint32_t mask,
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

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

constexpr int page_log2 = std::countr_zero(page_bytes);

LaneParts parts_one_by_one(const std::uint64_t* addresses) {
  LaneParts of;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const std::uint64_t address = addresses[lane];
    of.part[lane] = std::uint8_t(partition_of(0, address / page_bytes));
    of.limited &= address < address_limit;
  }
  return of;
}

[[gnu::target("avx2")]] LaneParts parts_by_avx2(const std::uint64_t* addresses) {
  const __m256i multiplier = _mm256_set1_epi32(int(part_multiplier));
  __m256i part[4], high_bits = _mm256_setzero_si256();
  for (unsigned i = 0; i < 4; ++i) { // lanes 0, 1, 4, 5 of each eight; 2, 3, 6, 7
    const __m256 a = _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(addresses + 8 * i))),
                 b = _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(addresses + 8 * i + 4)));
    const __m256i low = _mm256_castps_si256(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0))),
                  high = _mm256_castps_si256(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
    high_bits = _mm256_or_si256(high_bits, high);
    const __m256i number =
        _mm256_xor_si256(_mm256_or_si256(_mm256_srli_epi32(low, page_log2), _mm256_slli_epi32(high, 32 - page_log2)),
                         _mm256_srli_epi32(high, page_log2));
    part[i] = _mm256_srli_epi32(_mm256_mullo_epi32(number, multiplier), 24);
  }
  // Four bytes of each come to lie in either half; these go side by side, and their bytes into the lanes' order.
  const __m256i halves = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7),
                lanes = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, //
                                         0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
  LaneParts of;
  const __m256i parts = _mm256_packus_epi16(_mm256_packs_epi32(part[0], part[1]), _mm256_packs_epi32(part[2], part[3]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(of.part.data()),
                      _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(parts, halves), lanes));
  of.limited = _mm256_testz_si256(high_bits, _mm256_set1_epi32(int(~std::uint32_t((address_limit >> 32) - 1))));
  return of;
}

[[gnu::target(DEADHEAT_AVX512)]] LaneParts parts_by_avx512(const std::uint64_t* addresses) {
  constexpr __mmask8 all = 0xFF; // named, since GCC 12 warns of the intrinsics that do without
  const __m512i multiplier = _mm512_set1_epi64(part_multiplier);
  LaneParts of;
  __m512i bits = _mm512_setzero_si512();
  for (unsigned lane = 0; lane < 32; lane += 8) {
    const __m512i eight = _mm512_loadu_si512(addresses + lane), number = _mm512_maskz_srli_epi64(all, eight, page_log2),
                  mixed = _mm512_xor_si512(number, _mm512_maskz_srli_epi64(all, number, 32)),
                  product = _mm512_maskz_mul_epu32(all, mixed, multiplier);
    bits = _mm512_or_si512(bits, eight);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(of.part.data() + lane),
                     _mm512_maskz_cvtepi64_epi8(all, _mm512_maskz_srli_epi64(all, product, 24)));
  }
  of.limited = !_mm512_test_epi64_mask(bits, _mm512_set1_epi64(static_cast<long long>(~(address_limit - 1))));
  return of;
}

} // namespace

std::uint32_t pack_lanes(const std::uint64_t* addresses, std::uint32_t mask, std::uint64_t* to) {
  static const auto pack = pack_versions().front();
  if (mask != ~0u) return pack(addresses, mask, to);
  std::memcpy(to, addresses, 32 * sizeof *to);
  return 32;
}

LaneParts lane_parts(const std::uint64_t* addresses) {
  static const auto parts = lane_parts_versions().front();
  return parts(addresses);
}

// What this processor has of those that need more than all have, and the one that needs nothing.
std::vector<PackLanes*> pack_versions() {
  std::vector<PackLanes*> all{pack_one_by_one};
  if (__builtin_cpu_supports("avx2")) all.insert(all.begin(), pack_by_avx2);
  if (has_avx512()) all.insert(all.begin(), pack_by_avx512);
  return all;
}
std::vector<FindLaneParts*> lane_parts_versions() {
  std::vector<FindLaneParts*> all{parts_one_by_one};
  if (__builtin_cpu_supports("avx2")) all.insert(all.begin(), parts_by_avx2);
  if (has_avx512()) all.insert(all.begin(), parts_by_avx512);
  return all;
}

} // namespace deadheat::detect

#undef DEADHEAT_AVX512
