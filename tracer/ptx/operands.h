// What an instruction does with its operands: which registers it reads and which it writes.
//
// The carry flag of .cc instructions (add.cc, addc, madc …) is a register of its own that no operand names (PTX ISA
// 9.7.2): it is not listed here. Code put between an instruction that sets it and one that reads it must not touch it.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "deadheat/ptx.h"

namespace deadheat::ptx {

// How many leading operands receive results: 0 or 1 (a vector or a pair counts as one; an address is never a result:
// its registers are read). Of call: 1, the result list.
std::size_t destination_count(const Instruction& instruction);

// True when the destination's old value is part of the result even without a guard: wgmma.mma_async's accumulators,
// destinations of video instructions with a selector.
bool reads_destination(const Instruction& instruction);

// Registers read, guard included, and registers written, in operand order, possibly repeated.
struct RegisterUse {
  std::vector<RegisterId> reads, writes;
};
RegisterUse register_use(const Instruction& instruction);
// The same without allocating when the vectors are reused: clears and fills `use`.
void register_use(const Instruction& instruction, RegisterUse& use);

}  // namespace deadheat::ptx
