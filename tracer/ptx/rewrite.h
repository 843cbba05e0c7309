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

// The driver's assembler (CUDA 13.0, libnvJitLink too) crashes over an mbarrier.init whose count it finds to be 0. The
// manual wants at least 1 (PTX ISA 9.7.13.15.9), but ptxas takes it, and code that never uses the barrier has it.
// True of an mbarrier.init, unless its count is seen to be a constant other than 0.
bool count_may_be_zero(const Function& f, const Instruction& i);

// Instructions that put such a count into the 32-bit register `to`, in a way that tells an assembler nothing.
std::string hidden_count(const Function& f, const Instruction& i, const std::string& to);

// A statement's text, its count hidden where that is needed.
std::string assemblable(const Statement& statement, const Function& f);

// The module's text with `added` behind its last function: before the debugging sections that usually follow. What it
// has is kept byte for byte, but for counts that must be hidden.
std::string print_with(const Module& module, const std::string& added);

// The head of a clone called `name`: the original's, but for linkage (visible when it is an entry) and for limits on
// registers, since a clone needs more of them.
Function clone_head(const Function& original, std::string name);

// Instructions that put linear indices (x fastest) into 32-bit registers: of the block in its grid, of the thread in
// its block. Two more registers are overwritten.
std::string linear_indices(const std::string& block, const std::string& thread, const std::string& scratch_0,
                           const std::string& scratch_1);

}  // namespace deadheat::ptx
