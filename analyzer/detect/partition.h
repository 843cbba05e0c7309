// Memory in 256 parts, global memory by page, shared memory by block: what is found out about a part depends on the
// accesses to it and on nothing else that happens to memory. Who looks at no shared memory of a block seldom asks how
// its threads synchronized among themselves.
//
// So parts can be looked at by several threads at once, or one after another when memory is short, and the result is
// the same. `memory` is 0 for global memory, else ThreadKey::block_bits + 1 of the block whose shared memory it is;
// which launch the block is of does not matter.
//
// A part that has no room alone is divided into slices, which are looked at one after another in the same way.
//
// Thread-safety: pure functions and plain values.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "analyzer/detect/suspects.h"

namespace deadheat::detect {

inline constexpr unsigned partitions = 256;
using Partitions = std::bitset<partitions>; // a set of them

// Pages at regular distances are to fall evenly into parts, and those of a part evenly into what the product's lower
// bits name (LineTable): so no fraction of the multiplier that shifts leave, of 4 to 18 bits, is close to one with a
// small denominator. Of 600 million that were tried this one keeps farthest from them (ARCHITECTURE.md).
inline constexpr std::uint32_t part_multiplier = 0xe69d290bu;
inline constexpr unsigned part_shift = 24; // bits of the product that the part leaves
// Multiples of the golden ratio lie apart: of blocks that come one behind the other, or each so many, about as many
// fall into either half of all, any quarter and so on, wherever one begins. The last bits of the part say which, so
// that blocks at work at the same time are evenly shared.
inline unsigned partition_of_block(std::uint64_t memory) {
  std::uint32_t bits = std::uint32_t((memory - 1) & order::ThreadKey::last_block) * 0x9e3779b1u >> 24;
  bits = (bits & 0x0F) << 4 | bits >> 4;
  bits = (bits & 0x33) << 2 | (bits >> 2 & 0x33);
  return (bits & 0x55) << 1 | (bits >> 1 & 0x55);
}
inline unsigned partition_of(std::uint64_t memory, std::uint64_t page_number) {
  if (memory) return partition_of_block(memory);
  return unsigned(std::uint32_t(page_number ^ page_number >> 32) * part_multiplier >> part_shift);
}

// Of memory the pages whose hash ends in given bits, and of these, in the second pass, the granules whose hash does:
// words of one granule are those that an element can have in common with another. Of no bits: all.
struct Slice {
  static constexpr unsigned most_page_bits = 12, most_granule_bits = 8;
  static constexpr std::uint64_t granule_bytes = 16; // what is larger counts word by word (Shadow::check)
  std::uint32_t page = 0, granule = 0; // these bits
  unsigned page_bits = 0, granule_bits = 0; // how many

  bool is_all() const { return !page_bits && !granule_bits; }
  bool has_page(std::uint64_t memory, std::uint64_t number) const {
    return !page_bits || last_bits((number ^ memory * 0xc2b2ae3d27d4eb4fu) * 0xff51afd7ed558ccdu, page_bits) == page;
  }
  bool has_granule(std::uint64_t address) const {
    return !granule_bits || last_bits(address / granule_bytes * 0x9e3779b97f4a7c15u, granule_bits) == granule;
  }
  // What is found out about a page as a whole counts once.
  bool has_whole_pages() const { return !granule; }
  std::array<Slice, 2> halves(bool by_page) const {
    std::array<Slice, 2> both{*this, *this};
    for (Slice& half : both) ++(by_page ? half.page_bits : half.granule_bits);
    by_page ? both[1].page |= 1u << page_bits : both[1].granule |= 1u << granule_bits;
    return both;
  }
  friend bool operator==(const Slice&, const Slice&) = default;

 private:
  static std::uint32_t last_bits(std::uint64_t product, unsigned bits) {
    return std::uint32_t(product >> 40) & ((1u << bits) - 1);
  }
};

// What somebody looks at.
struct Share {
  Partitions parts;
  Slice slice; // of each
  bool has_page(std::uint64_t memory, std::uint64_t number) const {
    return parts.test(partition_of(memory, number)) && slice.has_page(memory, number);
  }
};

// partition_of() of where 32 lanes begin in global memory, several at once.
struct LaneParts {
  std::array<std::uint8_t, 32> part; // of each
  bool limited = true; // all addresses lie below address_limit
};
using FindLaneParts = LaneParts(const std::uint64_t* addresses);
FindLaneParts lane_parts;

// Writes the addresses of the lanes of `mask` one behind the other, and perhaps others behind them; `to` has room
// for 32. Returns how many they are.
using PackLanes = std::uint32_t(const std::uint64_t* addresses, std::uint32_t mask, std::uint64_t* to);
PackLanes pack_lanes;

// How these two may be done on this processor, the best first.
std::vector<FindLaneParts*> lane_parts_versions();
std::vector<PackLanes*> pack_versions();

} // namespace deadheat::detect
