// atom and red (PTX ISA 9.7.13.5, 9.7.13.6). One host thread runs a machine, so each is a load, an operation, a store;
// but for those that several machines may do at once.
#include <functional>
#include <optional>

#include "replay/engine/access.h"
#include "replay/engine/floating.h"
#include "replay/engine/precision.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

namespace {

// The value to store for the old value and the operands; `wrote` is set where that depends on the old one.
Value* combine(Builder& b, const ptx::Instruction& i, Type type, Value* old, Value* x, Value* y, Value*& wrote) {
  auto& ir = b.ir;
  unsigned bits = old->getType()->getIntegerBitWidth();
  auto pick = [&](llvm::Intrinsic::ID id) { return ir.CreateBinaryIntrinsic(id, old, x); };
  bool s = is_signed(type);
  if (i.has(Modifier::cas)) {
    wrote = ir.CreateICmpEQ(old, x);
    return ir.CreateSelect(wrote, y, old);
  }
  if (i.has(Modifier::exch)) return x;
  if (i.has(Modifier::and_)) return ir.CreateAnd(old, x);
  if (i.has(Modifier::or_)) return ir.CreateOr(old, x);
  if (i.has(Modifier::xor_)) return ir.CreateXor(old, x);
  if (i.has(Modifier::inc))  // old >= x ? 0 : old + 1
    return ir.CreateSelect(ir.CreateICmpUGE(old, x), b.constant(bits, 0), ir.CreateAdd(old, b.constant(bits, 1)));
  if (i.has(Modifier::dec)) {  // old == 0 or old > x ? x : old - 1
    Value* wraps = ir.CreateOr(ir.CreateICmpEQ(old, b.constant(bits, 0)), ir.CreateICmpUGT(old, x));
    return ir.CreateSelect(wraps, x, ir.CreateSub(old, b.constant(bits, 1)));
  }
  bool min = i.has(Modifier::min), max = i.has(Modifier::max);
  if (is_half(type)) {
    return by_half_lane(b, type, {old, x}, [&](llvm::ArrayRef<Value*> v) -> Value* {
      if (!min && !max) return add_halves(b, v[0], v[1], is_bf16(type));
      Value* m = minmax(b, half_to_float(b, v[0], is_bf16(type)), half_to_float(b, v[1], is_bf16(type)), min, false);
      return float_to_half(b, m, is_bf16(type));
    });
  }
  if (is_float(type)) {
    llvm::Type* t = type == Type::f64 ? b.f64() : b.f32();
    Value *p = ir.CreateBitCast(old, t), *q = ir.CreateBitCast(x, t);
    if (min || max) return b.canonical_bits(minmax(b, p, q, min, false));
    // atom.add.f32 on global memory flushes subnormals; on shared memory it does not, which is followed everywhere.
    return b.canonical_bits(ir.CreateFAdd(p, q));
  }
  if (min) return pick(s ? llvm::Intrinsic::smin : llvm::Intrinsic::umin);
  if (max) return pick(s ? llvm::Intrinsic::smax : llvm::Intrinsic::umax);
  if (i.has(Modifier::add)) return ir.CreateAdd(old, x);
  b.refuse("operation");
  return old;
}

using Combined = llvm::AtomicRMWInst::BinOp;

// An operation of which nobody can tell in which order it came among others of its kind: on integers, and its result
// unused. What it is on the host, or nothing.
std::optional<Combined> commuting(const Builder& b, const ptx::Instruction& i, bool red) {
  const Type type = i.type();
  if (is_float(type) || is_half(type) || ptx::bits(type) > 64 || ptx::bits(type) < 32) return std::nullopt;
  if (i.has(Modifier::v2) || i.has(Modifier::v4) || i.has(Modifier::v8)) return std::nullopt;
  if (!red && b.is_read(i.operands[0])) return std::nullopt;
  const bool s = is_signed(type);
  if (i.has(Modifier::add)) return Combined::Add;
  if (i.has(Modifier::and_)) return Combined::And;
  if (i.has(Modifier::or_)) return Combined::Or;
  if (i.has(Modifier::xor_)) return Combined::Xor;
  if (i.has(Modifier::min)) return s ? Combined::Min : Combined::UMin;
  if (i.has(Modifier::max)) return s ? Combined::Max : Combined::UMax;
  return std::nullopt;
}

// The old value of an element that `alone` combines, or the host's atomic operation where other machines may be at it.
Value* combine_together(Builder& b, Combined how, Value* where, Value* x, const std::function<Value*()>& alone) {
  auto& ir = b.ir;
  Value* launch = b.launch_context();
  Value* concurrent = b.entry_value("concurrent", [&] {
    return ir.CreateICmpNE(b.context_load(launch, offsetof(LaunchContext, concurrent), b.i(32)), b.constant(32, 0));
  });
  llvm::BasicBlock *atomic = b.new_block("together"), *plain = b.new_block("alone"), *next = b.new_block("combined");
  ir.CreateCondBr(concurrent, atomic, plain, b.unlikely());
  ir.SetInsertPoint(atomic);
  // Misaligned where addresses are not checked: then the host's operation is slow, and right.
  Value* old = ir.CreateAtomicRMW(how, where, x, llvm::Align(x->getType()->getIntegerBitWidth() / 8),
                                  llvm::AtomicOrdering::Monotonic);
  ir.CreateBr(next);
  ir.SetInsertPoint(plain);
  Value* old_alone = alone();
  llvm::BasicBlock* plain_end = ir.GetInsertBlock();
  ir.CreateBr(next);
  ir.SetInsertPoint(next);
  auto* phi = ir.CreatePHI(old->getType(), 2);
  phi->addIncoming(old, atomic);
  phi->addIncoming(old_alone, plain_end);
  return phi;
}

} // namespace

void lower_atom(Builder& b, const ptx::Instruction& i) {
  if (i.has(Modifier::async)) return lower_async_store(b, i);
  bool red = i.opcode == Opcode::red;
  std::size_t at = red ? 0 : 1;
  const auto& o = i.operands;
  bool cas = i.has(Modifier::cas);
  if (o.size() < at + (cas ? 3 : 2)) return b.refuse("operands");
  Space space = b.space_of(i);
  Type type = i.type();
  before_access(b, o[at], space, true);
  Access a;
  a.place = b.place(o[at], space);
  const Operand& first = o[at + 1];
  a.elements = i.has(Modifier::v8) ? 8 : i.has(Modifier::v4) ? 4 : i.has(Modifier::v2) ? 2 : 1;
  unsigned bits = ptx::bits(type);
  a.element_bytes = bits / 8;
  a.bytes = a.elements * a.element_bytes;
  a.is_write = a.is_atomic = a.strong = true;
  const std::optional<Combined> commutes = commuting(b, i, red);
  // Ranges tell operations apart that do not commute with each other, and widths, which overlap differently.
  if (commutes) a.commutes = std::uint8_t(1 + unsigned(*commutes) * 2 + (bits == 64));
  if (a.elements > 1 && (first.kind != Operand::Kind::vector || first.elements.size() < a.elements))
    return b.refuse("vector operand");
  std::vector<Value*> x, y;
  for (unsigned n = 0; n < a.elements; ++n) {
    x.push_back(b.read(a.elements > 1 ? first.elements[n] : first, bits));
    y.push_back(cas ? b.read(o[at + 2], bits) : nullptr);
  }
  check_access(b, a);
  Value* pointer = b.host_pointer(a.place);
  std::vector<Value*> old, stored;
  Value* wrote = nullptr;
  const bool watched = b.mode.record || b.mode.control || b.mode.precision;
  const bool together = commutes && !watched && !b.probe() && a.place.space != Space::shared;
  for (unsigned n = 0; n < a.elements; ++n) {
    Value* where = b.pointer_at(pointer, n * a.element_bytes);
    Value* made = nullptr;
    auto alone = [&]() -> Value* {
      Value* before = b.load(b.i(bits), where, a.place.space);
      made = combine(b, i, type, before, x[n], y[n], wrote);
      b.store_unnoted(made, where, a.place.space);
      return before;
    };
    old.push_back(together ? combine_together(b, *commutes, where, x[n], alone) : alone());
    stored.push_back(made);
    if (b.precision)
      b.precision->atomic(i, where, old[n], stored[n],
                          red                                  ? nullptr
                          : o[0].kind == Operand::Kind::vector ? &o[0].elements[n]
                                                               : &o[0],
                          a.elements > 1 ? first.elements[n] : first, x[n], cas ? &o[at + 2] : nullptr, y[n]);
  }
  if (!red)
    for (unsigned n = 0; n < a.elements; ++n)
      b.write(o[0].kind == Operand::Kind::vector ? o[0].elements[n] : o[0], old[n], is_signed(type));
  // Whether it changed anything depends on the others' order, and is nobody's business.
  if (commutes && !watched) return after_strong(b, &a, {}, nullptr);
  Value* changes = wrote ? wrote : static_cast<Value*>(b.constant(1, 1));
  report_strong(b, a, old, stored, changes);
  // Read-modify-writes that store what was there are reads to a spinning thread.
  Value* moved = b.ir.CreateICmpNE(old[0], stored[0]);
  for (unsigned n = 1; n < a.elements; ++n) moved = b.ir.CreateOr(moved, b.ir.CreateICmpNE(old[n], stored[n]));
  b.note_change(moved);
  after_strong(b, &a, old, moved);
}

} // namespace deadheat::engine
