// Code that carries a double beside every floating-point value (shadow.h): in Mode::precision.
//
// The shadows of a function's registers (precision_plan.h) lie in its frame, so that stops need not save them. Behind
// each instruction that computes or moves floating-point values compiled code calls shadow_step with the bits of its
// sources and of its result; loads, stores, atomics and arguments of calls have calls of their own, with the host's
// address of the memory. Parameters of functions and local memory are memory like any other.
//
// Thread-safety: see builder.h.
#pragma once

#include "replay/engine/access.h"
#include "replay/engine/builder.h"
#include "replay/engine/precision_plan.h"

namespace deadheat::engine {

class Precision {
 public:
  // Makes room for the shadows. Where the builder makes its registers.
  explicit Precision(Builder& builder);
  void begin(); // where the function begins: no shadows

  // Around the lowering of an instruction, inside its guard.
  void before(const ptx::Instruction& instruction);
  void after(const ptx::Instruction& instruction);

  // ---- where memory is touched; `bits`: what was loaded, or is stored, as an integer of the element's width
  void load(const ptx::Operand& to, llvm::Value* from, llvm::Value* bits);
  void store(const ptx::Operand& from, llvm::Value* to, llvm::Value* bits);
  void copy(llvm::Value* to, llvm::Value* from, std::uint64_t bytes);
  // One element, before the result is written. `result`, `z` may be null.
  void atomic(const ptx::Instruction& instruction, llvm::Value* at, llvm::Value* old, llvm::Value* stored,
              const ptx::Operand* result, const ptx::Operand& x, llvm::Value* x_bits, const ptx::Operand* z,
              llvm::Value* z_bits);
  // ---- matrix instructions: the lane's table (tensor_shadows.h)
  void begin_matrix(); // before all else of the instruction
  void matrix_source(unsigned word, const ptx::Operand& reg);
  void matrix_result(unsigned word, const ptx::Operand& reg);
  // An element, or two halves, of the lane's piece, before they meet: `width` bits from a word on.
  void load_word(unsigned word, llvm::Value* from, llvm::Value* bits, unsigned width);
  void result_words(unsigned count); // what the lane is to store
  void store_word(unsigned word, llvm::Value* to, llvm::Value* bits, unsigned width);
  // The register's RegisterShadow as a 64-bit address; 0 where it has none.
  llvm::Value* address_of(const ptx::Operand& reg);

 private:
  using Value = llvm::Value;
  struct Pending { // a step that waits for the instruction's result
    ShadowUse use;
    std::vector<Value*> bits; // of its sources
  };
  bool has_shadow(const ptx::Operand& o) const { return o.kind == ptx::Operand::Kind::reg && place_[o.reg] != 0; }
  Value* pointer(const ptx::Operand& o); // null pointer where there is none
  void set_operand(unsigned n, Value* shadow, Value* bits);
  Value* where();

  Builder& b_;
  std::vector<const ptx::Operand*> constants_; // by register
  std::vector<std::uint32_t> place_; // by register: offset in the frame; 0: none
  std::uint32_t first_ = 0, bytes_ = 0;
  Value* operands_ = nullptr; // ShadowOperand[], of the step that is being made
  std::vector<Pending> pending_;
  std::uint32_t table_ = 0; // offset in the frame of the TensorShadowTable; 0: none yet
  Value* in_table(std::size_t offset) { return b_.pointer_at(b_.frame(), table_ + offset); }
};

} // namespace deadheat::engine
