// Floating-point building blocks that several families share. Values are float or double, "raw" as in builder.h, or
// the bits of half formats (i16), canonical.
//
// Thread-safety: see builder.h.
#pragma once

#include <optional>

#include "replay/engine/builder.h"
#include "replay/engine/lower.h"
#include "replay/engine/numeric.h"

namespace deadheat::engine {

// .rn .rz .rm .rp of an instruction (PTX ISA 9.7.3: rn is the default).
numeric::Rounding rounding_of(const ptx::Instruction& instruction);
// Subnormals to zero of the same sign; of float.
llvm::Value* flush(Builder& b, llvm::Value* value);
// Clamped to [0, 1], NaN to +0.
llvm::Value* saturate(Builder& b, llvm::Value* value);
// Reads an f32 or f64 operand, flushed where .ftz asks for it.
llvm::Value* read_flushed(Builder& b, const ptx::Instruction& i, const ptx::Operand& operand, ptx::Type type);
// min or max with PTX's rules: -0 < +0; of a number and a NaN the number, or NaN if `nan`.
llvm::Value* minmax(Builder& b, llvm::Value* x, llvm::Value* y, bool is_min, bool nan);

bool is_bf16(ptx::Type type);                                                    // bf16 or bf16x2
llvm::Value* half_to_float(Builder& b, llvm::Value* bits16, bool bf16);          // exact
llvm::Value* float_to_half(Builder& b, llvm::Value* value, bool bf16);           // nearest; NaN 0x7fff
llvm::Value* double_to_half(Builder& b, llvm::Value* value, bool bf16);          // nearest, one rounding
llvm::Value* double_to_odd_float(Builder& b, llvm::Value* value);                // to round again later
llvm::Value* add_halves(Builder& b, llvm::Value* x, llvm::Value* y, bool bf16);  // for atomics
// Applies f to each lane of a half type (one or two).
llvm::Value* by_half_lane(Builder& b, ptx::Type type, llvm::ArrayRef<llvm::Value*> in,
                          const std::function<llvm::Value*(llvm::ArrayRef<llvm::Value*>)>& f);
llvm::Value* narrow(Builder& b, llvm::Value* value, numeric::Narrowing how);  // float or double → i32
llvm::Value* widen(Builder& b, llvm::Value* bits, numeric::Format format);    // i32 → float

}  // namespace deadheat::engine
