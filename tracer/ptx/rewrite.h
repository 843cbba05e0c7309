// What rewriters of modules share: finding calls, and printing a module with text added to it.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "deadheat/ptx.h"

namespace deadheat::ptx {

// The callee of a direct call; empty of others.
inline std::string_view callee(const Instruction& i) {
  if (i.opcode != Opcode::call || i.operands.size() < 2 || i.operands[1].kind != Operand::Kind::symbol) return {};
  return i.operands[1].text;
}

template <typename Visit>
void each_instruction(const Function& f, Visit&& visit) {
  for (std::size_t s = 0; s < f.body.size(); ++s) {
    if (const Instruction* i = f.body[s].instruction()) visit(s, *i);
  }
}

// The module's text with `added` behind its last function: before the debugging sections that usually follow.
std::string print_with(const Module& module, const std::string& added);

// The head of a clone called `name`: the original's, but for linkage (visible when it is an entry) and for limits on
// registers, since a clone needs more of them.
Function clone_head(const Function& original, std::string name);

// Instructions that put linear indices (x fastest) into 32-bit registers: of the block in its grid, of the thread in
// its block. Two more registers are overwritten.
std::string linear_indices(const std::string& block, const std::string& thread, const std::string& scratch_0,
                           const std::string& scratch_1);

}  // namespace deadheat::ptx
