#include "analyzer/detect/written.h"

#include <algorithm>
#include <array>
#include <bit>

#include "deadheat/digest.h"
#include "tracer/ptx/sites.h"

namespace deadheat::detect {

namespace {

std::uint8_t byte_of(std::uint64_t value, std::uint64_t at) { return std::uint8_t(value >> 8 * at); }

constexpr std::uint32_t largest = 32; // bytes of a vector

// The digest of what lies from `address` on where the word is repeated; of at most `largest` bytes.
std::uint32_t digest_of(std::uint32_t word, std::uint64_t address, std::uint64_t bytes) {
  std::array<std::uint8_t, largest> repeated;
  for (std::uint64_t at = 0; at < bytes; ++at) repeated[at] = byte_of(word, (address + at) % 4);
  return digest(repeated.data(), std::uint32_t(bytes));
}

// Of matrices nobody says which bytes come from which lane: a GPU's records have made-up digests of them.
bool has_digest(const Place& place) {
  return place.site && place.site->kind == SiteKind::access && place.site->opcode.rfind("stmatrix", 0) != 0 &&
         place.site->opcode.rfind("wmma", 0) != 0;
}

bool is_known(const Place& place) { return !place.site || !ptx::is_discard(*place.site); } // what it writes

std::optional<bool> as_the_set(const MemoryAccess& set, std::uint32_t word, const MemoryAccess& access,
                               const Place& place, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t record = access.record_bytes;
  if (!has_digest(place) || !record || record > largest || !std::has_single_bit(record)) return std::nullopt;
  if (record <= 4 && record == access.bytes) { // the digest is the value
    for (std::uint64_t at = address; at < address + bytes; ++at) {
      if (byte_of(word, at % 4) != byte_of(access.digest, at - access.address)) return false;
    }
    return true;
  }
  const std::uint64_t begin = access.address / record * record; // vectors are aligned (PTX ISA 5.4.2, 9.7.9.10)
  if (begin < set.address || begin + record > set.address + set.bytes) return std::nullopt;
  return digest_of(word, begin, record) == access.digest;
}

} // namespace

std::optional<std::uint32_t> word_of(const trace::Set& set) {
  const std::uint64_t element = set.element_bytes;
  if ((element != 1 && element != 2 && element != 4) || set.destination.address % element) return std::nullopt;
  if (set.destination.rows() > 1 && (set.destination.pitch % element || set.destination.slice % element))
    return std::nullopt;
  std::uint32_t word = 0;
  for (std::uint64_t i = 0; i < 4; ++i) word |= std::uint32_t(byte_of(set.value, i % element)) << 8 * i;
  return word;
}

std::optional<bool> wrote_the_same(const MemoryAccess& a, const Place& place_a, const MemoryAccess& b,
                                   const Place& place_b, std::uint64_t address, std::uint64_t bytes) {
  if (!is_known(place_a) || !is_known(place_b)) return std::nullopt;
  if (place_a.word && place_b.word) {
    for (std::uint64_t at = address; at < address + std::min<std::uint64_t>(bytes, 4); ++at) {
      if (byte_of(*place_a.word, at % 4) != byte_of(*place_b.word, at % 4)) return false;
    }
    return true;
  }
  if (place_a.word) return as_the_set(a, *place_a.word, b, place_b, address, bytes);
  if (place_b.word) return as_the_set(b, *place_b.word, a, place_a, address, bytes);
  if (!a.record_bytes || a.address != b.address || a.record_bytes != b.record_bytes) return std::nullopt;
  return a.digest == b.digest;
}

} // namespace deadheat::detect
