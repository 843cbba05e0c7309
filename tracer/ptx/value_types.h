// What the registers of a function hold, where the text only says how wide they are.
//
// nvcc moves floats and packed halves as b32, b64, u32 or b16. Registers that moves, selects and shuffles connect form
// one class; typed instructions that read or write a member (add.f32, cvt.f32.f16, mma operands, declarations .f32)
// vote for the class. A class has a type when its floating-point votes agree, or, without any, its integer votes do.
//
// Invariants: one pass over the function and at most four over its packings, near-linear time. A guess from use, not a
// proof: whoever takes it checks that its width fits.
//
// Thread-safety: immutable after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "deadheat/ptx.h"

namespace deadheat::ptx {

bool is_float(Type type);  // f16, bf16, tf32, f32, f64 and their packed pairs; not the 8-bit and narrower formats

class ValueTypes {
 public:
  explicit ValueTypes(const Function& function);
  Type of(RegisterId r) const;  // Type::none where nothing is known

 private:
  struct Votes {
    Type floating = Type::none, integer = Type::none;
    bool floats_differ = false, integers_differ = false;
  };
  struct Packing {  // whole = {low, high}, either way
    RegisterId whole = 0, low = 0, high = 0;
    bool low_is_zero = false;
  };
  RegisterId find(RegisterId r) const;
  void unite(const Operand& a, const Operand& b);
  void vote(RegisterId r, Type type);
  void vote(const Operand& operand, Type type);           // every register in it
  void vote_fragment(const Operand& operand, Type type);  // of a matrix: 16-bit elements come in pairs
  void visit(const Instruction& i);
  void visit_packing(const Instruction& i);
  bool spread(const Packing& packing);

  mutable std::vector<RegisterId> parent_;
  std::vector<Votes> votes_;
  std::vector<Packing> packings_;
};

}  // namespace deadheat::ptx
