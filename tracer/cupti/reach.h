// What the arguments of an opaque launch reach: live allocations, and inside of them the live blocks of PyTorch's
// caching allocator, where it tells of them (torch_blocks.h). A kernel that is handed a block has no business outside
// of it.
//
// Blocks narrow only what they explain. Memory of which no block was ever told is reached whole; so is everything once
// something is told that cannot be: a block over another one, one given back that was never taken, or as another size.
//
// A pointer to where no block is belongs to one that was given back. A parameter reaches all up to the live neighbours.
// Structures of PyTorch's own kernels are not filled (of the arrays of ATen's multi_tensor_apply, only as many elements
// as there are tensors): an old pointer there reaches no more than the largest block that was at its address, as far as
// no live one is in the way.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "deadheat/trace.h"

namespace deadheat::cupti {

class Reach {
 public:
  void allocated(const trace::Allocate& memory);
  void freed(std::uint32_t allocation);
  // False: this makes no sense, and blocks are not believed any more. Later calls do nothing.
  bool block_taken(std::uint64_t address, std::uint64_t bytes);
  bool block_given(std::uint64_t address, std::uint64_t bytes);
  void has_gaps() { gaps_ = true; } // not all is told from now on: what cannot be is no wonder

  // The footprint (deadheat/footprint.h) of a launch with these arguments. alone(offset): the eight bytes there are a
  // parameter of their own, and so meant.
  template <typename Alone>
  std::vector<std::uint64_t> of(std::span<const std::uint8_t> arguments, Alone&& alone) const {
    std::vector<std::uint64_t> reached;
    if (live_.empty()) return reached;
    const std::uint64_t least = live_.begin()->first;
    const std::uint64_t most = live_.rbegin()->first + live_.rbegin()->second.bytes;
    for (std::size_t at = 0; at + 8 <= arguments.size(); at += 8) {
      std::uint64_t word;
      std::memcpy(&word, arguments.data() + at, 8);
      if (word >= least && word < most && !add(word, reached)) add_free(word, alone(at), reached);
    }
    return reached;
  }

 private:
  struct Memory {
    std::uint64_t bytes = 0;
    std::uint32_t allocation = 0;
    bool in_blocks = false; // there was a block in it
    bool goes_on = false; // there was one that lay in the next as well
  };
  using Live = std::map<std::uint64_t, Memory>; // by address

  Live::const_iterator holder(std::uint64_t address) const; // of the allocation that holds it; end(): none
  bool add(std::uint64_t word, std::vector<std::uint64_t>& reached) const; // false: it lies between blocks
  void add_free(std::uint64_t word, bool alone, std::vector<std::uint64_t>& reached) const;
  void add_parts(std::uint64_t address, std::uint64_t bytes, std::vector<std::uint64_t>& reached) const;
  void forget(std::uint64_t begin, std::uint64_t end); // blocks that reach into this
  bool give_up();

  Live live_;
  std::unordered_map<std::uint32_t, std::uint64_t> addresses_; // of live allocations
  std::map<std::uint64_t, std::uint64_t> blocks_; // live ones: bytes by address
  std::map<std::uint64_t, std::uint64_t> former_; // where blocks began that were given back: the most bytes of one
  bool believed_ = true, gaps_ = false;
};

} // namespace deadheat::cupti
