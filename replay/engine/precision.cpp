#include "replay/engine/precision.h"

#include <algorithm>

#include "replay/engine/lower.h"
#include "replay/engine/tensor_shadows.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Instruction;
using ptx::Operand;

Precision::Precision(Builder& builder) : b_(builder), constants_(constant_registers(builder.function)) {
  const std::vector<bool> carries = plan_precision(b_.function);
  place_.assign(carries.size(), 0);
  std::uint32_t count = 0;
  for (std::size_t r = 0; r < carries.size(); ++r) count += carries[r] && b_.slots_[r].pointer;
  bytes_ = count * std::uint32_t(sizeof(RegisterShadow));
  if (!count) return;
  first_ = b_.frame_slot(bytes_);
  std::uint32_t at = first_;
  for (std::size_t r = 0; r < carries.size(); ++r) {
    if (!carries[r] || !b_.slots_[r].pointer) continue;
    place_[r] = at;
    at += std::uint32_t(sizeof(RegisterShadow));
  }
  operands_ = b_.ir.CreateAlloca(llvm::ArrayType::get(b_.i(64), 2 * (most_shadow_sources + 1)));
}

void Precision::begin() {
  if (bytes_) b_.ir.CreateMemSet(b_.pointer_at(b_.frame(), first_), b_.constant(8, 0), bytes_, llvm::MaybeAlign(8));
}

Value* Precision::pointer(const Operand& o) {
  if (!has_shadow(o) || o.negated) return llvm::ConstantPointerNull::get(b_.ir.getPtrTy());
  return b_.pointer_at(b_.frame(), place_[o.reg]);
}

Value* Precision::address_of(const Operand& o) {
  return has_shadow(o) ? b_.ir.CreatePtrToInt(pointer(o), b_.i(64)) : static_cast<Value*>(b_.constant(64, 0));
}

void Precision::set_operand(unsigned n, Value* shadow, Value* bits) {
  b_.ir.CreateStore(shadow, b_.pointer_at(operands_, n * sizeof(ShadowOperand)));
  b_.ir.CreateStore(b_.ir.CreateZExtOrTrunc(bits, b_.i(64)),
                    b_.pointer_at(operands_, n * sizeof(ShadowOperand) + offsetof(ShadowOperand, bits)));
}

Value* Precision::where() { return b_.constant(64, Shadows::in_function(b_.index_, b_.statement)); }

void Precision::before(const Instruction& i) {
  pending_.clear();
  if (!bytes_) return;
  // Behind a stop nothing is left of what was read before it.
  const bool stops = b_.can_stop_at(i, b_.site);
  for (ShadowUse& use : shadow_uses(i)) {
    if (!has_shadow(*use.to)) continue;
    note_constants(use, constants_);
    // Special registers and addresses have no shadows, and reading a clock moves it.
    const bool others = std::any_of(use.from.begin(), use.from.end(), [](const ShadowUse::Source& s) {
      return s.operand->kind == Operand::Kind::special || s.operand->kind == Operand::Kind::symbol;
    });
    if (stops || others) {
      use.from.clear();
      use.step.op = ShadowOp::restart;
    }
    if (use.step.op == ShadowOp::restart) // what has no shadow loses none
      std::erase_if(use.from, [&](const ShadowUse::Source& s) { return !has_shadow(*s.operand); });
    use.step.sources = std::uint8_t(use.from.size());
    Pending step{std::move(use), {}};
    for (const ShadowUse::Source& s : step.use.from) {
      const bool predicate = s.operand->kind == Operand::Kind::reg && b_.register_bits(*s.operand) == 1;
      const unsigned bits = predicate                               ? 1
                            : s.operand->kind == Operand::Kind::reg ? b_.register_bits(*s.operand)
                                                                    : s.bits;
      step.bits.push_back(b_.read(*s.operand, bits));
    }
    pending_.push_back(std::move(step));
  }
}

void Precision::after(const Instruction&) {
  if (b_.ir.GetInsertBlock()->getTerminator()) return;
  for (const Pending& step : pending_) {
    const Operand& to = *step.use.to;
    set_operand(0, pointer(to), b_.read(to, b_.register_bits(to)));
    for (std::size_t n = 0; n < step.bits.size(); ++n)
      set_operand(unsigned(n + 1), pointer(*step.use.from[n].operand), step.bits[n]);
    b_.call_helper(reinterpret_cast<const void*>(&deadheat_shadow_step), b_.ir.getVoidTy(),
                   {b_.thread(), b_.constant(64, step.use.step.code()), where(), operands_}, false);
  }
  pending_.clear();
}

void Precision::load(const Operand& to, Value* from, Value* bits) {
  if (!has_shadow(to)) return;
  b_.call_helper(reinterpret_cast<const void*>(&deadheat_shadow_load), b_.ir.getVoidTy(),
                 {b_.thread(), from, b_.constant(32, bits->getType()->getIntegerBitWidth()),
                  b_.ir.CreateZExtOrTrunc(bits, b_.i(64)), pointer(to)},
                 false);
}

void Precision::store(const Operand& from, Value* to, Value* bits) {
  b_.call_helper(reinterpret_cast<const void*>(&deadheat_shadow_store), b_.ir.getVoidTy(),
                 {b_.thread(), to, b_.constant(32, bits->getType()->getIntegerBitWidth()),
                  b_.ir.CreateZExtOrTrunc(bits, b_.i(64)), pointer(from), where()},
                 false);
}

void Precision::copy(Value* to, Value* from, std::uint64_t bytes) {
  b_.call_helper(reinterpret_cast<const void*>(&deadheat_shadow_copy), b_.ir.getVoidTy(),
                 {b_.thread(), to, from, b_.constant(32, bytes)}, false);
}

void Precision::atomic(const Instruction& i, Value* at, Value* old, Value* stored, const Operand* result,
                       const Operand& x, Value* x_bits, const Operand* z, Value* z_bits) {
  if (!operands_) { // no shadow goes in or comes out: what memory has still goes
    llvm::IRBuilderBase::InsertPointGuard guard(b_.ir);
    b_.ir.SetInsertPoint(b_.entry_, b_.entry_->begin());
    operands_ = b_.ir.CreateAlloca(llvm::ArrayType::get(b_.i(64), 2 * (most_shadow_sources + 1)));
  }
  Value* none = llvm::ConstantPointerNull::get(b_.ir.getPtrTy());
  set_operand(0, result ? pointer(*result) : none, old);
  set_operand(1, pointer(x), x_bits);
  set_operand(2, z ? pointer(*z) : none, z_bits ? z_bits : static_cast<Value*>(b_.constant(64, 0)));
  b_.call_helper(reinterpret_cast<const void*>(&deadheat_shadow_atomic), b_.ir.getVoidTy(),
                 {b_.thread(), b_.constant(64, atomic_step(i).code()), where(), at,
                  b_.ir.CreateZExtOrTrunc(stored, b_.i(64)), operands_},
                 false);
}

// ---- matrix instructions

void Precision::begin_matrix() {
  if (!table_) table_ = b_.frame_slot(sizeof(TensorShadowTable));
  b_.ir.CreateMemSet(in_table(0), b_.constant(8, 0), sizeof(TensorShadowTable), llvm::MaybeAlign(8));
  b_.ir.CreateStore(where(), in_table(offsetof(TensorShadowTable, where)));
  b_.thread_store(offsetof(ThreadContext, arg) + 8 * tensor_table_argument,
                  b_.ir.CreatePtrToInt(in_table(0), b_.i(64)));
}

void Precision::matrix_source(unsigned word, const Operand& reg) {
  b_.ir.CreateStore(address_of(reg), in_table(offsetof(TensorShadowTable, in) + 8 * word));
}

void Precision::matrix_result(unsigned word, const Operand& reg) {
  b_.ir.CreateStore(address_of(reg), in_table(offsetof(TensorShadowTable, out) + 8 * word));
}

void Precision::load_word(unsigned word, Value* from, Value* bits, unsigned width) {
  Value* piece = in_table(offsetof(TensorShadowTable, piece) + word * sizeof(RegisterShadow));
  b_.call_helper(reinterpret_cast<const void*>(&deadheat_shadow_load), b_.ir.getVoidTy(),
                 {b_.thread(), from, b_.constant(32, width), b_.ir.CreateZExt(bits, b_.i(64)), piece}, false);
  b_.ir.CreateStore(b_.ir.CreatePtrToInt(piece, b_.i(64)), in_table(offsetof(TensorShadowTable, in) + 8 * word));
}

void Precision::result_words(unsigned count) {
  for (unsigned n = 0; n < count; ++n)
    b_.ir.CreateStore(
        b_.ir.CreatePtrToInt(in_table(offsetof(TensorShadowTable, piece) + n * sizeof(RegisterShadow)), b_.i(64)),
        in_table(offsetof(TensorShadowTable, out) + 8 * n));
}

void Precision::store_word(unsigned word, Value* to, Value* bits, unsigned width) {
  b_.call_helper(reinterpret_cast<const void*>(&deadheat_shadow_store), b_.ir.getVoidTy(),
                 {b_.thread(), to, b_.constant(32, width), b_.ir.CreateZExt(bits, b_.i(64)),
                  in_table(offsetof(TensorShadowTable, piece) + word * sizeof(RegisterShadow)), where()},
                 false);
}

} // namespace deadheat::engine
