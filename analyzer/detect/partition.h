// Memory in 256 parts, global memory by page, shared memory by block: what is found out about a part depends on the
// accesses to it and on nothing else that happens to memory. Who looks at no shared memory of a block seldom asks how
// its threads synchronized among themselves.
//
// So parts can be looked at by several threads at once, or one after another when memory is short, and the result is
// the same. `memory` is 0 for global memory, else ThreadKey::block_bits + 1 of the block whose shared memory it is;
// which launch the block is of does not matter.
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

// The same of where 32 lanes begin in global memory, several at once.
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
