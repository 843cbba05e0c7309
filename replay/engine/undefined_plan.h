// Which registers of a function can hold bits that nobody wrote, and what becomes of such bits.
//
// They come from memory: from loads of global, shared and local memory, of arguments and results of functions, and
// atom.exch. Instructions that only move bits (copies, masks, shifts, byte permutations, selections, conversions
// between integers) keep them apart, bit by bit; what anything else computes of them is undefined as a whole. They end
// where they decide something (undefined.h).
//
// Flow-insensitive: a register has one kind in all of the function.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "deadheat/ptx.h"

namespace deadheat::engine {

struct UndefinedPlan {
  enum class Kind : std::uint8_t {
    none,     // always defined
    moved,    // copied from memory
    computed  // a result
  };
  std::vector<Kind> kind;     // by register
  std::vector<bool> wide;     // by register: its bits are told apart; else it is undefined as a whole, or not
  std::vector<bool> decides;  // by register: flows into a result, or to where undefined bits are reported
  bool any = false;
  std::set<std::int64_t> results; // offsets in the function's own result at which it stores results of instructions
};
// `results_of` gives that set of a function that is called; null where it is not known.
using ResultsOf = std::function<const std::set<std::int64_t>*(std::string_view function)>;
UndefinedPlan plan_undefined(const ptx::Function& function, const ResultsOf& results_of);

// Memory that a ld, ldu or st touches: whether it is tracked. Kernels' parameters and constants are not; parameters of
// functions, and of calls, are local memory.
enum class Tracked : std::uint8_t { no, memory, arguments };
Tracked tracked_memory(const ptx::Function& function, const ptx::Instruction& instruction, std::size_t address);
// Loads and fetches, whose results come from memory that is tracked.
bool loads_memory(const ptx::Function& function, const ptx::Instruction& instruction);
// ldmatrix, wmma.load: each lane gets what several have loaded.
bool loads_matrix(const ptx::Instruction& instruction);
// How undefined bits of its sources go on to its results: bit by bit, half by half (of f16x2 and the like), or all.
// From what lanes give to what they get back (of votes, matches, reductions and products of matrices): machine and
// instruction settle it.
enum class UndefinedFlow : std::uint8_t { none, bits, halves, whole, lanes };
UndefinedFlow undefined_flow(const ptx::Instruction& instruction);
// Operands that decide something: addresses, what atomics compute with, targets of jumps. The guard besides, where the
// instruction does more than write registers.
bool decides_by(const ptx::Instruction& instruction, std::size_t operand);
bool decides_by_guard(const ptx::Instruction& instruction);

// Calls body(RegisterId) for each register of the operand.
template <typename F>
void each_register(const ptx::Operand& operand, const F& body) {
  if (operand.kind == ptx::Operand::Kind::reg) body(operand.reg);
  for (const ptx::Operand& element : operand.elements) each_register(element, body);
}

}  // namespace deadheat::engine
