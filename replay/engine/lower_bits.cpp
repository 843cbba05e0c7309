// Logic, shifts and bit fields (PTX ISA 9.7.1, 9.7.8).
#include "replay/engine/builder.h"
#include "replay/engine/lower.h"
#include "replay/engine/numeric.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

namespace {

unsigned width_of(const ptx::Instruction& i) { return i.type() == Type::pred ? 1 : ptx::bits(i.type()); }

// v << n, v >> n with PTX's clamping: shifts by the width or more shift everything out.
Value* shift_left(Builder& b, Value* v, Value* n) {
  unsigned bits = v->getType()->getIntegerBitWidth();
  Value* wide = b.ir.CreateZExtOrTrunc(n, v->getType());
  if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(n))
    return c->getZExtValue() >= bits ? static_cast<Value*>(b.constant(bits, 0)) : b.ir.CreateShl(v, wide);
  Value* out = b.ir.CreateICmpUGE(n, llvm::ConstantInt::get(n->getType(), bits));
  Value* shifted = b.ir.CreateShl(v, b.ir.CreateAnd(wide, b.constant(bits, bits - 1)));
  return b.ir.CreateSelect(out, b.constant(bits, 0), shifted);
}

Value* shift_right(Builder& b, Value* v, Value* n, bool sign) {
  unsigned bits = v->getType()->getIntegerBitWidth();
  Value* limit = llvm::ConstantInt::get(n->getType(), bits - 1);
  if (sign) {
    Value* amount = b.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, n, limit);
    return b.ir.CreateAShr(v, b.ir.CreateZExtOrTrunc(amount, v->getType()));
  }
  if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(n))
    return c->getZExtValue() >= bits ? static_cast<Value*>(b.constant(bits, 0))
                                     : b.ir.CreateLShr(v, b.ir.CreateZExtOrTrunc(n, v->getType()));
  Value* out = b.ir.CreateICmpUGT(n, limit);
  Value* amount = b.ir.CreateZExtOrTrunc(b.ir.CreateAnd(n, limit), v->getType());
  return b.ir.CreateSelect(out, b.constant(bits, 0), b.ir.CreateLShr(v, amount));
}

// (1 << n) - 1 for 0 <= n <= width.
Value* low_ones(Builder& b, Value* n, unsigned bits) {
  return b.ir.CreateNot(shift_left(b, b.constant(bits, ~std::uint64_t(0)), n));
}

// One of the 16 functions of (p, q) by truth table; bit 2p+q.
Value* table2(Builder& b, unsigned table, Value* p, Value* q) {
  auto& ir = b.ir;
  switch (table & 15) {
    case 0: return b.constant(32, 0);
    case 1: return ir.CreateNot(ir.CreateOr(p, q));
    case 2: return ir.CreateAnd(ir.CreateNot(p), q);
    case 3: return ir.CreateNot(p);
    case 4: return ir.CreateAnd(p, ir.CreateNot(q));
    case 5: return ir.CreateNot(q);
    case 6: return ir.CreateXor(p, q);
    case 7: return ir.CreateNot(ir.CreateAnd(p, q));
    case 8: return ir.CreateAnd(p, q);
    case 9: return ir.CreateNot(ir.CreateXor(p, q));
    case 10: return q;
    case 11: return ir.CreateOr(ir.CreateNot(p), q);
    case 12: return p;
    case 13: return ir.CreateOr(p, ir.CreateNot(q));
    case 14: return ir.CreateOr(p, q);
    default: return b.constant(32, 0xffffffffu);
  }
}

}  // namespace

void lower_logic(Builder& b, const ptx::Instruction& i) {
  unsigned bits = width_of(i);
  Value *x = b.read(i.operands[1], bits), *y = b.read(i.operands[2], bits);
  b.write(i.operands[0], i.opcode == Opcode::and_  ? b.ir.CreateAnd(x, y)
                         : i.opcode == Opcode::or_ ? b.ir.CreateOr(x, y)
                                                   : b.ir.CreateXor(x, y));
}

void lower_not(Builder& b, const ptx::Instruction& i) {
  unsigned bits = width_of(i);
  Value* x = b.read(i.operands[1], bits);
  if (i.opcode == Opcode::cnot)
    b.write(i.operands[0], b.ir.CreateZExt(b.ir.CreateICmpEQ(x, b.constant(bits, 0)), b.i(bits)));
  else
    b.write(i.operands[0], b.ir.CreateNot(x));
}

void lower_shift(Builder& b, const ptx::Instruction& i) {
  Value *x = b.read(i.operands[1], width_of(i)), *n = b.read(i.operands[2], 32);
  b.write(i.operands[0], i.opcode == Opcode::shl ? shift_left(b, x, n) : shift_right(b, x, n, is_signed(i.type())));
}

// shf: the funnel b:a; the amount is clamped to 32 or wraps.
void lower_shf(Builder& b, const ptx::Instruction& i) {
  Value* low = b.ir.CreateZExt(b.read(i.operands[1], 32), b.i(64));
  Value* high = b.ir.CreateShl(b.ir.CreateZExt(b.read(i.operands[2], 32), b.i(64)), 32);
  Value* n = b.read(i.operands[3], 32);
  n = i.has(Modifier::wrap) ? b.ir.CreateAnd(n, b.constant(32, 31))
                            : b.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, n, b.constant(32, 32));
  n = b.ir.CreateZExt(n, b.i(64));
  Value* both = b.ir.CreateOr(high, low);
  Value* r = i.has(Modifier::l) ? b.ir.CreateLShr(b.ir.CreateShl(both, n), 32) : b.ir.CreateLShr(both, n);
  b.write(i.operands[0], b.ir.CreateTrunc(r, b.i(32)));
}

// lop3: a selects between two functions of b and c. lop3.BoolOp also gives the predicate (r != 0) BoolOp q.
void lower_lop3(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (o.size() < 5 || o[4].kind != Operand::Kind::integer) return b.refuse("operands");
  Value *x = b.read(o[1], 32), *y = b.read(o[2], 32), *z = b.read(o[3], 32);
  unsigned table = unsigned(o[4].bits) & 255, high = table >> 4, low = table & 15;
  Value* r;
  if (high == low)
    r = table2(b, low, y, z);
  else if (high == (~low & 15))
    r = b.ir.CreateXor(x, table2(b, low, y, z));
  else if (low == 0)
    r = b.ir.CreateAnd(x, table2(b, high, y, z));
  else if (high == 0)
    r = b.ir.CreateAnd(b.ir.CreateNot(x), table2(b, low, y, z));
  else if (high == 15)
    r = b.ir.CreateOr(x, table2(b, low, y, z));
  else if (low == 15)
    r = b.ir.CreateOr(b.ir.CreateNot(x), table2(b, high, y, z));
  else
    r = b.ir.CreateOr(b.ir.CreateAnd(x, table2(b, high, y, z)),
                      b.ir.CreateAnd(b.ir.CreateNot(x), table2(b, low, y, z)));
  if (o[0].kind != Operand::Kind::pair) return b.write(o[0], r);
  if (o.size() < 6) return b.refuse("operands");
  Value* some = b.ir.CreateICmpNE(r, b.constant(32, 0));
  Value* q = b.read_predicate(o[5]);
  Value* p = i.has(Modifier::and_) ? b.ir.CreateAnd(some, q) : b.ir.CreateOr(some, q);
  b.write(o[0].elements[0], r);
  b.write(o[0].elements[1], p);
}

void lower_count(Builder& b, const ptx::Instruction& i) {
  Value* x = b.read(i.operands[1], width_of(i));
  Value* r;
  if (i.opcode == Opcode::brev)
    r = b.ir.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, x);
  else if (i.opcode == Opcode::popc)
    r = b.ir.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x);
  else
    r = b.ir.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, x, b.constant(1, 0));
  b.write(i.operands[0], i.opcode == Opcode::brev ? r : b.ir.CreateZExtOrTrunc(r, b.i(32)));
}

// The position of the most significant bit that differs from the sign; .shiftamt: how far to shift it to the top.
void lower_bfind(Builder& b, const ptx::Instruction& i) {
  unsigned bits = width_of(i);
  Value* x = b.read(i.operands[1], bits);
  if (is_signed(i.type())) x = b.ir.CreateXor(x, b.ir.CreateAShr(x, bits - 1));
  Value* zeros =
      b.ir.CreateZExtOrTrunc(b.ir.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, x, b.constant(1, 0)), b.i(32));
  Value* found = i.has(Modifier::shiftamt) ? zeros : b.ir.CreateSub(b.constant(32, bits - 1), zeros);
  b.write(i.operands[0],
          b.ir.CreateSelect(b.ir.CreateICmpEQ(x, b.constant(bits, 0)), b.constant(32, 0xffffffffu), found));
}

// Position and length of a bit field. The ISA masks them to 8 bits; GPUs do so for 32-bit fields only.
namespace {
Value* field_operand(Builder& b, const Operand& o, unsigned bits) {
  Value* v = b.read(o, 32);
  return bits == 32 ? b.ir.CreateAnd(v, b.constant(32, 255)) : v;
}
}  // namespace

void lower_bfe(Builder& b, const ptx::Instruction& i) {
  unsigned bits = width_of(i);
  auto& ir = b.ir;
  Value* x = b.read(i.operands[1], bits);
  Value *position = field_operand(b, i.operands[2], bits), *length = field_operand(b, i.operands[3], bits);
  Value* mask = low_ones(b, length, bits);
  Value* field = ir.CreateAnd(shift_right(b, x, position, false), mask);
  if (is_signed(i.type())) {
    // The sign is the field's top bit, or the top bit of x where the field reaches beyond it.
    Value* top =
        ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, ir.CreateSub(ir.CreateAdd(position, length), b.constant(32, 1)),
                                 b.constant(32, bits - 1));
    Value* sign = ir.CreateTrunc(shift_right(b, x, top, false), b.i(1));
    sign = ir.CreateAnd(sign, ir.CreateICmpNE(length, b.constant(32, 0)));
    // Bits of the field beyond the top of x are copies of the sign, too.
    Value* available = ir.CreateSub(b.constant(32, bits),
                                    ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, position, b.constant(32, bits)));
    Value* real = low_ones(b, ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, length, available), bits);
    field = ir.CreateSelect(sign, ir.CreateOr(field, ir.CreateNot(real)), ir.CreateAnd(field, real));
  }
  b.write(i.operands[0], field);
}

// bfi d, a, b, pos, len: a's low bits into b.
void lower_bfi(Builder& b, const ptx::Instruction& i) {
  unsigned bits = width_of(i);
  auto& ir = b.ir;
  Value *x = b.read(i.operands[1], bits), *into = b.read(i.operands[2], bits);
  Value *position = field_operand(b, i.operands[3], bits), *length = field_operand(b, i.operands[4], bits);
  Value* mask = shift_left(b, low_ones(b, length, bits), position);
  b.write(i.operands[0],
          ir.CreateOr(ir.CreateAnd(into, ir.CreateNot(mask)), ir.CreateAnd(shift_left(b, x, position), mask)));
}

// bmsk.{clamp,wrap} d, a, b: b ones from bit a on.
void lower_bmsk(Builder& b, const ptx::Instruction& i) {
  Value *at = b.read(i.operands[1], 32), *count = b.read(i.operands[2], 32);
  if (i.has(Modifier::wrap)) {
    at = b.ir.CreateAnd(at, b.constant(32, 31));
    count = b.ir.CreateAnd(count, b.constant(32, 31));
  }
  b.write(i.operands[0], shift_left(b, low_ones(b, count, 32), at));
}

// szext.{clamp,wrap}: the low b bits, extended.
void lower_szext(Builder& b, const ptx::Instruction& i) {
  Value *x = b.read(i.operands[1], 32), *n = b.read(i.operands[2], 32);
  if (i.has(Modifier::wrap))
    n = b.ir.CreateAnd(n, b.constant(32, 31));
  else
    n = b.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, n, b.constant(32, 32));
  Value* up = b.ir.CreateSub(b.constant(32, 32), n);
  Value* r = shift_right(b, shift_left(b, x, up), up, is_signed(i.type()));
  b.write(i.operands[0], b.ir.CreateSelect(b.ir.CreateICmpEQ(n, b.constant(32, 0)), b.constant(32, 0), r));
}

void lower_clmad(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 4) return b.refuse("operands");
  Value* product = b.call_helper(
      reinterpret_cast<const void*>(&numeric::carryless_product), b.i(64),
      {b.read(i.operands[1], 64), b.read(i.operands[2], 64), b.constant(32, i.has(Modifier::hi) ? 1 : 0)});
  b.write(i.operands[0], b.ir.CreateXor(product, b.read(i.operands[3], 64)));
}

void lower_fns(Builder& b, const ptx::Instruction& i) {
  b.write(i.operands[0],
          b.call_helper(reinterpret_cast<const void*>(&numeric::find_nth_set), b.i(32),
                        {b.read(i.operands[1], 32), b.read(i.operands[2], 32), b.read(i.operands[3], 32)}));
}

// prmt: each result byte is one of the eight bytes of b:a, or copies of its sign. The modes compute the selectors
// from the low two bits of c.
void lower_prmt(Builder& b, const ptx::Instruction& i) {
  auto& ir = b.ir;
  Value* all = ir.CreateOr(ir.CreateZExt(b.read(i.operands[1], 32), b.i(64)),
                           ir.CreateShl(ir.CreateZExt(b.read(i.operands[2], 32), b.i(64)), 32));
  Value* c = b.read(i.operands[3], 32);
  // Selectors of the four bytes for c & 3 = 0..3 (PTX ISA 9.7.8.7, table of modes), lowest nibble first.
  struct Mode {
    Modifier modifier;
    std::uint16_t selectors[4];
  };
  static constexpr Mode modes[] = {
      {Modifier::f4e, {0x3210, 0x4321, 0x5432, 0x6543}}, {Modifier::b4e, {0x5670, 0x6701, 0x7012, 0x0123}},
      {Modifier::rc8, {0x0000, 0x1111, 0x2222, 0x3333}}, {Modifier::ecl, {0x3210, 0x3211, 0x3222, 0x3333}},
      {Modifier::ecr, {0x0000, 0x1110, 0x2210, 0x3210}}, {Modifier::rc16, {0x1010, 0x3232, 0x1010, 0x3232}}};
  bool generic = true;
  for (const Mode& m : modes) {
    if (!i.has(m.modifier)) continue;
    generic = false;
    Value* which = ir.CreateAnd(c, b.constant(32, 3));
    Value* selectors = b.constant(32, m.selectors[0]);
    for (unsigned n = 1; n < 4; ++n)
      selectors = ir.CreateSelect(ir.CreateICmpEQ(which, b.constant(32, n)), b.constant(32, m.selectors[n]), selectors);
    c = selectors;
  }
  Value* r = nullptr;
  for (unsigned n = 0; n < 4; ++n) {
    Value* nibble = ir.CreateAnd(ir.CreateLShr(c, 4 * n), b.constant(32, 15));
    Value* shift = ir.CreateZExt(ir.CreateShl(ir.CreateAnd(nibble, b.constant(32, 7)), 3), b.i(64));
    Value* byte = ir.CreateTrunc(ir.CreateLShr(all, shift), b.i(8));
    if (generic) {
      Value* sign = ir.CreateICmpNE(ir.CreateAnd(nibble, b.constant(32, 8)), b.constant(32, 0));
      byte = ir.CreateSelect(sign, ir.CreateAShr(byte, 7), byte);
    }
    Value* placed = ir.CreateShl(ir.CreateZExt(byte, b.i(32)), 8 * n);
    r = r ? ir.CreateOr(r, placed) : placed;
  }
  b.write(i.operands[0], r);
}

}  // namespace deadheat::engine
