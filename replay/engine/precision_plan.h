// Which registers of a function carry shadows, and what each instruction does to shadows (shadow_step.h).
//
// A register carries one where a floating-point value, or bits that may be one, can reach it, and where it can reach an
// instruction that computes or stores a floating-point value. Declared types say little: compilers keep floats in .b32,
// and pairs of halves.
//
// Thread-safety: pure functions.
#pragma once

#include <vector>

#include "deadheat/ptx.h"
#include "replay/engine/shadow_step.h"

namespace deadheat::engine {

// One step behind an instruction: `from` and `to` point into it.
struct ShadowUse {
  ShadowStep step;
  const ptx::Operand* to = nullptr; // a register
  struct Source {
    const ptx::Operand* operand = nullptr;
    unsigned bits = 0; // of an operand that is no register
  };
  std::vector<Source> from;
};

// Of instructions that touch registers only; all others restart their results.
std::vector<ShadowUse> shadow_uses(const ptx::Instruction& instruction);
// Those that move shadows themselves, where they touch memory or meet other threads: none of the above.
bool moves_shadows(const ptx::Instruction& instruction);
// Of atom and red, for one element.
ShadowStep atomic_step(const ptx::Instruction& instruction);
FloatKind float_kind(ptx::Type type); // of an element: f16 of f16x2; f32 of tf32; none of integers

// Registers that hold one constant throughout, by register: a mov's operand; null: no constant.
std::vector<const ptx::Operand*> constant_registers(const ptx::Function& function);
// Says of a sum with such a constant whether it rounds to an integer (ShadowStep::rounds).
void note_constants(ShadowUse& use, const std::vector<const ptx::Operand*>& constants);

// By register: whether it carries a shadow.
std::vector<bool> plan_precision(const ptx::Function& function);

} // namespace deadheat::engine
