// One instruction, once more on shadows: what compiled code in Mode::precision calls behind each instruction that makes
// or moves floating-point values (precision.h decides where).
//
// Thread-safety: as Shadows.
#pragma once

#include <cstdint>

#include "replay/engine/abi.h"
#include "replay/engine/shadow.h"

namespace deadheat::engine {

enum class ShadowOp : std::uint8_t {
  // Arithmetic: the result's bits say what the program computed.
  add,
  sub,
  mul,
  div,
  fma,
  min,
  max,
  neg,
  abs,
  copysign,
  rcp,
  sqrt,
  rsqrt,
  ex2,
  lg2,
  sin,
  cos,
  tanh,
  convert, // from one kind to another
  from_signed, // an integer of `width` bits
  from_unsigned,
  // Moves of bits.
  copy, // all of a register
  select, // one of two registers; the last source is the predicate's bit
  pack, // sources side by side, each `width` bits
  part, // `width` bits from bit `at` on
  logic_and,
  logic_or,
  logic_xor,
  shift_left,
  shift_right,
  permute, // halves and signs that stay whole
  restart // anything else; counted where a source had a shadow that said something
};

struct ShadowStep {
  ShadowOp op = ShadowOp::restart;
  FloatKind to = FloatKind::none; // of results
  FloatKind from = FloatKind::none; // of sources, but for the last of a sum with mixed kinds, which is of `to`
  std::uint8_t lanes = 1; // 2 of packed types
  std::uint8_t sources = 0;
  std::uint8_t width = 0, at = 0; // bits
  bool mixed = false, saturate = false, relu = false, propagate_nan = false, xorsign = false, absolute = false;
  bool rounds = false; // adds a constant so large that what is left has no fraction: a rounding to an integer
  bool directed = false; // rounds in one direction
  bool crossed = false; // two sources make the two lanes, the first the upper one (cvt.rn.f16x2.f32)
  bool counts = true; // restart: is a loss

  std::uint64_t code() const;
  static ShadowStep from_code(std::uint64_t code);
};

// Sources and result as compiled code hands them over: a pointer to a RegisterShadow or 0, and the bits.
struct ShadowOperand {
  RegisterShadow* shadow = nullptr;
  std::uint64_t bits = 0;
};
inline constexpr unsigned most_shadow_sources = 6;

// operands[0] is the result. `where`: function and statement.
void shadow_step(Shadows& shadows, const ShadowStep& step, std::uint64_t where, const ShadowOperand* operands);
// The double computation alone, for tests and for what computes with values of no register: sources in order.
double compute(const ShadowStep& step, const double* sources);
// The shadow of a result with these bits, from those of its sources.
Shadow combine(const ShadowStep& step, const Shadow* sources, std::uint64_t bits, std::uint64_t where);

extern "C" {
void deadheat_shadow_step(ThreadContext* thread, std::uint64_t step, std::uint64_t where,
                          const ShadowOperand* operands);
void deadheat_shadow_load(ThreadContext* thread, void* from, std::uint32_t width, std::uint64_t bits,
                          RegisterShadow* to);
void deadheat_shadow_store(ThreadContext* thread, void* to, std::uint32_t width, std::uint64_t bits,
                           RegisterShadow* from, std::uint64_t where);
void deadheat_shadow_copy(ThreadContext* thread, void* to, void* from, std::uint32_t bytes);
// An atomic on one element: operands[0] is the result (the old bits), [1] what it computes with, [2] of a compare and
// swap the value to store. `stored`: what memory holds now.
void deadheat_shadow_atomic(ThreadContext* thread, std::uint64_t step, std::uint64_t where, void* address,
                            std::uint64_t stored, const ShadowOperand* operands);
}
// Of an atomic's ShadowStep: `op` is add, min or max (of `to`), copy (exchange), select (compare and swap: of
// operands[1] and [2]) or restart (an integer operation); `width` the element's.

} // namespace deadheat::engine
