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

  // Appends the footprint (deadheat/footprint.h) of a launch to `reached`, by addresses. Its words: eight bytes of its
  // arguments each that may be an address, marked where they are a parameter of their own, and so meant.
  static std::uint64_t marked(std::uint64_t word, bool alone) { return word << 1 | std::uint64_t(alone); }
  void of(std::span<std::uint64_t> words, std::vector<std::uint64_t>& reached) const; // leaves them in another order

 private:
  struct Memory {
    std::uint64_t bytes = 0;
    std::uint32_t allocation = 0;
    bool in_blocks = false; // there was a block in it
    bool goes_on = false; // there was one that lay in the next as well
  };
  using Live = std::map<std::uint64_t, Memory>; // by address
  struct Block { // that lives
    std::uint64_t bytes = 0;
    bool in_one = false; // allocation
  };
  using Blocks = std::map<std::uint64_t, Block>; // likewise

  Live::const_iterator holder(std::uint64_t address) const; // of the allocation that holds it; end(): none
  static std::uint64_t end_of(Blocks::const_iterator block) { return block->first + block->second.bytes; }
  std::uint64_t add_block(std::uint64_t word, std::vector<std::uint64_t>& reached) const; // its end; 0: it is in none
  void add_free(std::uint64_t word, bool alone, std::vector<std::uint64_t>& reached) const;
  // once: no part that is there already
  void add_parts(std::uint64_t address, std::uint64_t bytes, bool once, std::vector<std::uint64_t>& reached) const;
  void forget(std::uint64_t begin, std::uint64_t end); // blocks that reach into this
  bool give_up();

  Live live_;
  std::unordered_map<std::uint32_t, std::uint64_t> addresses_; // of live allocations
  Blocks blocks_;
  Blocks::node_type spare_; // of blocks_, to be used again
  std::map<std::uint64_t, std::uint64_t> former_; // where blocks began that were given back: the most bytes of one
  bool believed_ = true, gaps_ = false;
};

} // namespace deadheat::cupti
