// Memory in 256 parts, by page: what is found out about a part depends on the accesses to it and on nothing else that
// happens to memory.
//
// So parts can be looked at by several threads at once, or one after another when memory is short, and the result is
// the same. `memory` is 0 for global memory, else ThreadKey::block_bits + 1 of the block whose shared memory it is;
// which launch the block is of does not matter.
//
// Thread-safety: pure functions and plain values.
#pragma once

#include <bitset>
#include <cstdint>

#include "analyzer/detect/suspects.h"

namespace deadheat::detect {

inline constexpr unsigned partitions = 256;
using Partitions = std::bitset<partitions>; // a set of them

inline unsigned partition_of(std::uint64_t memory, std::uint64_t page_number) {
  const std::uint64_t home = memory ? ((memory - 1) & order::ThreadKey::last_block) + 1 : 0;
  return unsigned((page_number ^ home * 0xc2b2ae3d27d4eb4fu) * 0x9e3779b97f4a7c15u >> 56);
}

} // namespace deadheat::detect
