// Control flow and liveness of one function.
//
// Statement numbers are indices into Function::body. Blocks hold instructions; labels, directives and scopes belong to
// the block around them. Edges: bra, brx.idx (every target), fall-through; a guarded branch, exit, ret or trap also
// falls through. Calls fall through.
//
// Invariants: blocks are in source order and cover the body; block 0 is the entry; block_of(s) is defined for every
// statement. Time is linear in the function for the graph and its cycles; liveness takes (blocks x registers that are
// live across blocks) bits.
//
// Thread-safety: immutable after construction. The Function must outlive a Liveness.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "deadheat/ptx.h"

namespace deadheat::ptx {

struct Block {
  std::uint32_t first = 0, last = 0;                    // statements [first, last)
  std::vector<std::uint32_t> successors, predecessors;  // block numbers, without repeats
  bool on_cycle = false;                                // lies on a cycle of the graph
  bool reachable = false;                               // from the entry
  std::uint32_t dominator = 0;  // immediate dominator of a reachable block; the entry's is itself
};

class Flow {
 public:
  explicit Flow(const Function& function);

  const std::vector<Block>& blocks() const { return blocks_; }
  std::uint32_t block_of(std::uint32_t statement) const { return block_of_[statement]; }
  bool on_cycle(std::uint32_t statement) const { return blocks_[block_of_[statement]].on_cycle; }
  bool dominates(std::uint32_t a, std::uint32_t b) const;  // blocks; every block dominates itself
  // By block: can it be reached from one of these, or one of these from it? They themselves can.
  std::vector<bool> reachable_from(std::vector<std::uint32_t> blocks) const;
  std::vector<bool> leading_to(std::vector<std::uint32_t> blocks) const;

  // Natural loops: one a header, the union of its back edges' bodies. Irreducible cycles have none (on_cycle holds).
  struct Loop {
    std::uint32_t header = 0;
    std::vector<std::uint32_t> blocks;  // ascending, header included
  };
  std::vector<Loop> natural_loops() const;

 private:
  void find_edges(const Function& function);
  void find_cycles();
  void find_dominators();
  std::vector<bool> walk(std::vector<std::uint32_t> blocks, std::vector<std::uint32_t> Block::* along) const;

  std::vector<Block> blocks_;
  std::vector<std::uint32_t> block_of_, order_;  // order_: position in reverse postorder, by block
};

// A set of registers, by number.
class RegisterSet {
 public:
  RegisterSet() = default;
  explicit RegisterSet(std::size_t registers) : words_((registers + 63) / 64) {}
  bool contains(RegisterId r) const { return words_[r / 64] >> (r % 64) & 1; }
  void insert(RegisterId r) { words_[r / 64] |= std::uint64_t(1) << (r % 64); }
  void erase(RegisterId r) { words_[r / 64] &= ~(std::uint64_t(1) << (r % 64)); }
  void clear() { words_.assign(words_.size(), 0); }
  std::size_t size() const;
  std::vector<RegisterId> list() const;  // ascending
  friend bool operator==(const RegisterSet&, const RegisterSet&) = default;

 private:
  std::vector<std::uint64_t> words_;
};

// Registers whose value may still be read. A guarded write does not end the life of the old value.
class Liveness {
 public:
  Liveness(const Function& function, const Flow& flow);

  // Live right after the statement, before the next one. Costs a walk over the rest of its block.
  RegisterSet live_after(std::uint32_t statement) const;
  // Every instruction with what is live after it, blocks in order, within a block from last to first: a whole function
  // in one linear sweep. The set is only valid during the call.
  void sweep(const std::function<void(std::uint32_t statement, const RegisterSet& live_after)>& visit) const;

 private:
  RegisterSet live_out(std::uint32_t block) const;

  const Function& function_;
  const Flow& flow_;
  std::vector<RegisterId> crossing_; // registers live across blocks: the columns of the bit matrix
  std::size_t row_words_ = 0;
  std::vector<std::uint64_t> out_; // blocks x crossing_
};

} // namespace deadheat::ptx
