// atom and red (PTX ISA 9.7.13.5, 9.7.13.6). One host thread runs a machine, so each is a load, an operation, a store.
#include "replay/engine/access.h"
#include "replay/engine/floating.h"

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

} // namespace

void lower_atom(Builder& b, const ptx::Instruction& i) {
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
  for (unsigned n = 0; n < a.elements; ++n) {
    Value* where = b.pointer_at(pointer, n * a.element_bytes);
    old.push_back(b.load(b.i(bits), where, a.place.space));
    stored.push_back(combine(b, i, type, old[n], x[n], y[n], wrote));
    b.store(stored[n], where, a.place.space);
  }
  if (!red)
    for (unsigned n = 0; n < a.elements; ++n)
      b.write(o[0].kind == Operand::Kind::vector ? o[0].elements[n] : o[0], old[n], is_signed(type));
  Value* changes = wrote ? wrote : static_cast<Value*>(b.constant(1, 1));
  report_strong(b, a, old, stored, changes);
  // Read-modify-writes that store what was there are reads to a spinning thread.
  Value* moved = b.ir.CreateICmpNE(old[0], stored[0]);
  after_strong(b, &a, b.ir.CreateZExtOrTrunc(old[0], b.i(64)), moved);
}

} // namespace deadheat::engine
