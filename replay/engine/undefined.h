// Code that follows undefined bits, those of memory that nobody wrote (written.h), from loads to where they matter.
//
// A load of undefined bytes is no error by itself: right programs copy structures with padding and with members that
// are not set, take bytes out of wide words, and load for all lanes what only some go on to use. So every register that
// may hold such bits (undefined_plan.h) has a shadow, which instructions compute beside their results, and stores carry
// it into the shadow of memory. Reported is what undefined bits decide:
//  - the address of an access, the way of a branch, whether a store, an atomic or a barrier happens;
//  - what an atomic computes with, or computes with in memory (atom.exch overwrites: it does not; atom.cas on words of
//    which a part is undefined only swaps: what it compares counts, as far as it knows what to expect there);
//  - results computed from them (not mere copies), where the host sees them: stored to memory that it can read, or
//    copied to it; and a copy to the host of which no byte was ever written (device/unwritten.cpp).
// Named is the load that they came from, once a site. Local memory and the arguments and results of calls have shadows
// as other memory has, in the thread's stack; what goes through them keeps the load that it came from. Shuffles, votes,
// matches, reductions of a warp or a barrier and moves of matrices carry shadows lane by lane and bit by bit. An
// element of a product of matrices is undefined where something of its row of a, its column of b or its own of c is.
// What is not followed counts as defined (mma.m8n8k4 of f16, b of sparse products), so that errors may be missed there
// but none is made up.
//
// Thread-safety: see builder.h.
#pragma once

#include "replay/engine/access.h"
#include "replay/engine/builder.h"
#include "replay/engine/undefined_plan.h"
#include "replay/engine/written.h"

namespace deadheat::engine {

class Undefined {
 public:
  // Makes the shadows of registers, saved at stops as registers are. Where the builder makes its registers.
  explicit Undefined(Builder& builder);
  void begin(); // where the function begins: everything is defined

  // Around the lowering of an instruction: `check` outside its guard, `before` and `after` inside.
  void check_guard(const ptx::Instruction& instruction);
  void before(const ptx::Instruction& instruction);
  void after(const ptx::Instruction& instruction);
  // An access that is legal, where it is performed.
  void access(const Access& access);
  // The operand's undefined bits, set; null when it has none.
  llvm::Value* bits(const ptx::Operand& operand, unsigned bits);
  void set(const ptx::Operand& destination, llvm::Value* bits); // null: all defined

  // ---- arguments and results of calls, which lie in the thread's stack: pointers into it
  void clear(llvm::Value* to, llvm::Value* bytes); // a frame that begins: nobody wrote its memory
  void copy(llvm::Value* to, llvm::Value* from, std::uint64_t bytes);
  void pass(const ptx::Operand& from, llvm::Value* to, unsigned bits);
  void take(const ptx::Operand& to, llvm::Value* from, unsigned bits);
  void define(llvm::Value* to, unsigned bytes);

  // ---- matrix instructions: the lane's table (tensor_undefined.h), as Precision has one
  void begin_matrix(); // before all else of the instruction
  void matrix_source(unsigned word, const ptx::Operand& reg, unsigned words);
  void matrix_result(const ptx::Operand& reg, unsigned word, unsigned words);
  void load_words(const Access& access); // of the lane's piece, before they meet
  void store_words(const Access& access, const ptx::Operand& fragment);

 private:
  using Value = llvm::Value;
  unsigned width_of(ptx::RegisterId r) const;
  bool decides(const ptx::Operand& operand) const;
  Value* any(const ptx::Operand& operand); // i1, or null
  Value* result(const ptx::Instruction& instruction);
  Value* bitwise(const ptx::Instruction& instruction, unsigned width);
  Value* extracted(const ptx::Instruction& instruction, unsigned width);
  Value* halves(const ptx::Instruction& instruction);
  Value* compared(const ptx::Instruction& instruction);
  Value* whole(const ptx::Instruction& instruction, unsigned width);
  Value* all_or_none(Value* any, unsigned width);
  Value* shadow_pointer(const Access& access, std::uint64_t elsewhere);
  Value* stack_shadow(Value* in_stack); // of a host pointer into the stack
  Value* is_local(const Builder::Place& place); // i1; null: certainly not
  void load(const ptx::Instruction& instruction, const Access& access);
  void store(const ptx::Instruction& instruction, const Access& access);
  void atomic(const ptx::Instruction& instruction, const Access& access);
  void discard(const Access& access);
  void note_origin(const Access& access);
  void report(Value* condition, UndefinedUse use, Value* address, unsigned bytes);

  Builder& b_;
  UndefinedPlan plan_;
  std::vector<std::uint32_t> slot_; // by register: of its shadow, or 0
  std::vector<std::pair<ptx::Operand, Value*>> results_; // of the instruction between before and after
  std::uint32_t table_ = 0; // offset in the frame of the TensorUndefined; 0: none yet
  Value* in_table(std::size_t offset) { return b_.pointer_at(b_.frame(), table_ + offset); }
};

} // namespace deadheat::engine
