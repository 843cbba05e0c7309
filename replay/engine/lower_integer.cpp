// Integer arithmetic (PTX ISA 9.7.1, 9.7.2). The carry flag lives in the frame: it is rare and must survive stops.
#include "replay/engine/builder.h"
#include "replay/engine/lower.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

namespace {

using llvm::Intrinsic::ID;

Value* binary(Builder& b, ID id, Value* x, Value* y) { return b.ir.CreateBinaryIntrinsic(id, x, y); }

Value* carry_in(Builder& b, unsigned bits) {
  return b.ir.CreateZExt(b.context_load(b.frame(), frame_carry, b.i(8)), b.i(bits));
}
void set_carry(Builder& b, Value* carry) { b.context_store(b.frame(), frame_carry, b.ir.CreateZExt(carry, b.i(8))); }

// Applies f to 16-bit halves of packed types, to the whole of others.
Value* by_lane(Builder& b, Type type, llvm::ArrayRef<Value*> in,
               const std::function<Value*(llvm::ArrayRef<Value*>)>& f) {
  if (type != Type::u16x2 && type != Type::s16x2) return f(in);
  Value* all = nullptr;
  for (unsigned lane = 0; lane < 2; ++lane) {
    std::vector<Value*> parts;
    for (Value* v : in) parts.push_back(b.ir.CreateTrunc(b.ir.CreateLShr(v, 16 * lane), b.i(16)));
    Value* r = b.ir.CreateShl(b.ir.CreateZExt(f(parts), b.i(32)), 16 * lane);
    all = all ? b.ir.CreateOr(all, r) : r;
  }
  return all;
}

// x + y + c with the carry out.
Value* add_with_carry(Builder& b, Value* x, Value* y, Value* c, bool set) {
  unsigned bits = x->getType()->getIntegerBitWidth();
  auto* wide = b.i(bits + 1);
  Value* sum = b.ir.CreateAdd(b.ir.CreateZExt(x, wide), b.ir.CreateZExt(y, wide));
  if (c) sum = b.ir.CreateAdd(sum, b.ir.CreateZExt(c, wide));
  if (set) set_carry(b, b.ir.CreateTrunc(b.ir.CreateLShr(sum, bits), b.i(1)));
  return b.ir.CreateTrunc(sum, b.i(bits));
}

// x - y - c with the borrow out.
Value* subtract_with_borrow(Builder& b, Value* x, Value* y, Value* c, bool set) {
  unsigned bits = x->getType()->getIntegerBitWidth();
  auto* wide = b.i(bits + 1);
  Value* difference = b.ir.CreateSub(b.ir.CreateZExt(x, wide), b.ir.CreateZExt(y, wide));
  if (c) difference = b.ir.CreateSub(difference, b.ir.CreateZExt(c, wide));
  if (set) set_carry(b, b.ir.CreateTrunc(b.ir.CreateLShr(difference, bits), b.i(1)));
  return b.ir.CreateTrunc(difference, b.i(bits));
}

// The product's part that .lo, .hi or .wide asks for.
Value* product(Builder& b, const ptx::Instruction& i, Value* x, Value* y) {
  unsigned bits = x->getType()->getIntegerBitWidth();
  if (!i.has(Modifier::hi) && !i.has(Modifier::wide)) return b.ir.CreateMul(x, y);
  auto* wide = b.i(bits * 2);
  bool s = is_signed(i.type());
  Value* p = b.ir.CreateMul(s ? b.ir.CreateSExt(x, wide) : b.ir.CreateZExt(x, wide),
                            s ? b.ir.CreateSExt(y, wide) : b.ir.CreateZExt(y, wide));
  return i.has(Modifier::wide) ? p : b.ir.CreateTrunc(b.ir.CreateLShr(p, bits), b.i(bits));
}

bool floating(Builder& b, const ptx::Instruction& i) {
  if (is_float(i.type()) || i.type() == Type::f32x2) return lower_float(b, i), true;
  if (is_half(i.type())) return lower_half(b, i), true;
  return false;
}

}  // namespace

void lower_add(Builder& b, const ptx::Instruction& i) {
  if (floating(b, i)) return;
  unsigned bits = ptx::bits(i.type());
  Value *x = b.read(i.operands[1], bits), *y = b.read(i.operands[2], bits);
  if (i.has(Modifier::cc)) return b.write(i.operands[0], add_with_carry(b, x, y, nullptr, true));
  b.write(i.operands[0], by_lane(b, i.type(), {x, y}, [&](llvm::ArrayRef<Value*> v) -> Value* {
            if (i.has(Modifier::sat))
              return binary(b, is_signed(i.type()) ? llvm::Intrinsic::sadd_sat : llvm::Intrinsic::uadd_sat, v[0], v[1]);
            return b.ir.CreateAdd(v[0], v[1]);
          }));
}

void lower_sub(Builder& b, const ptx::Instruction& i) {
  if (floating(b, i)) return;
  unsigned bits = ptx::bits(i.type());
  Value *x = b.read(i.operands[1], bits), *y = b.read(i.operands[2], bits);
  if (i.has(Modifier::cc)) return b.write(i.operands[0], subtract_with_borrow(b, x, y, nullptr, true));
  b.write(i.operands[0], by_lane(b, i.type(), {x, y}, [&](llvm::ArrayRef<Value*> v) -> Value* {
            if (i.has(Modifier::sat))
              return binary(b, is_signed(i.type()) ? llvm::Intrinsic::ssub_sat : llvm::Intrinsic::usub_sat, v[0], v[1]);
            return b.ir.CreateSub(v[0], v[1]);
          }));
}

void lower_addc(Builder& b, const ptx::Instruction& i) {
  unsigned bits = ptx::bits(i.type());
  Value *x = b.read(i.operands[1], bits), *y = b.read(i.operands[2], bits);
  Value* c = carry_in(b, bits);
  bool set = i.has(Modifier::cc);
  b.write(i.operands[0],
          i.opcode == Opcode::subc ? subtract_with_borrow(b, x, y, c, set) : add_with_carry(b, x, y, c, set));
}

void lower_mul(Builder& b, const ptx::Instruction& i) {
  if (floating(b, i)) return;
  unsigned bits = ptx::bits(i.type());
  b.write(i.operands[0], product(b, i, b.read(i.operands[1], bits), b.read(i.operands[2], bits)));
}

void lower_mad(Builder& b, const ptx::Instruction& i) {
  if (is_float(i.type()) || is_half(i.type()) || i.type() == Type::f32x2) return lower_fma(b, i);
  unsigned bits = ptx::bits(i.type());
  Value* p = product(b, i, b.read(i.operands[1], bits), b.read(i.operands[2], bits));
  Value* c = b.read(i.operands[3], i.has(Modifier::wide) ? bits * 2 : bits);
  if (i.has(Modifier::cc)) return b.write(i.operands[0], add_with_carry(b, p, c, nullptr, true));
  if (i.has(Modifier::sat)) return b.write(i.operands[0], binary(b, llvm::Intrinsic::sadd_sat, p, c));
  b.write(i.operands[0], b.ir.CreateAdd(p, c));
}

void lower_madc(Builder& b, const ptx::Instruction& i) {
  unsigned bits = ptx::bits(i.type());
  Value* p = product(b, i, b.read(i.operands[1], bits), b.read(i.operands[2], bits));
  b.write(i.operands[0], add_with_carry(b, p, b.read(i.operands[3], bits), carry_in(b, bits), i.has(Modifier::cc)));
}

// mul24, mad24: of the low 24 bits; .lo bits 0..31, .hi bits 16..47 of the 48-bit product.
void lower_mul24(Builder& b, const ptx::Instruction& i) {
  bool s = is_signed(i.type());
  auto narrow = [&](const Operand& o) {
    Value* v = b.ir.CreateTrunc(b.read(o, 32), b.i(24));
    return s ? b.ir.CreateSExt(v, b.i(64)) : b.ir.CreateZExt(v, b.i(64));
  };
  Value* p = b.ir.CreateMul(narrow(i.operands[1]), narrow(i.operands[2]));
  Value* r = b.ir.CreateTrunc(i.has(Modifier::hi) ? b.ir.CreateLShr(p, 16) : p, b.i(32));
  if (i.opcode == Opcode::mad24) {
    Value* c = b.read(i.operands[3], 32);
    r = i.has(Modifier::sat) ? binary(b, llvm::Intrinsic::sadd_sat, r, c) : b.ir.CreateAdd(r, c);
  }
  b.write(i.operands[0], r);
}

namespace {

// Division by zero gives an unspecified value (PTX ISA 9.7.1.7): all ones, and the dividend as remainder, as GPUs do;
// x86 would trap, on the most negative number over -1 too.
Value* divide(Builder& b, const ptx::Instruction& i, bool remainder) {
  unsigned bits = ptx::bits(i.type());
  Value *x = b.read(i.operands[1], bits), *y = b.read(i.operands[2], bits);
  Value* zero = b.ir.CreateICmpEQ(y, b.constant(bits, 0));
  Value* safe = b.ir.CreateSelect(zero, b.constant(bits, 1), y);
  Value* r;
  if (is_signed(i.type())) {
    Value* minus_one = b.ir.CreateICmpEQ(y, b.constant(bits, ~std::uint64_t(0)));
    safe = b.ir.CreateSelect(minus_one, b.constant(bits, 1), safe);
    r = remainder ? b.ir.CreateSRem(x, safe) : b.ir.CreateSDiv(x, safe);
    if (!remainder) r = b.ir.CreateSelect(minus_one, b.ir.CreateNeg(x), r);
  } else {
    r = remainder ? b.ir.CreateURem(x, safe) : b.ir.CreateUDiv(x, safe);
  }
  return b.ir.CreateSelect(zero, remainder ? x : static_cast<Value*>(b.constant(bits, ~std::uint64_t(0))), r);
}

}  // namespace

void lower_div(Builder& b, const ptx::Instruction& i) {
  if (!floating(b, i)) b.write(i.operands[0], divide(b, i, false));
}
void lower_rem(Builder& b, const ptx::Instruction& i) { b.write(i.operands[0], divide(b, i, true)); }

void lower_abs(Builder& b, const ptx::Instruction& i) {
  if (floating(b, i)) return;
  Value* x = b.read(i.operands[1], ptx::bits(i.type()));
  b.write(i.operands[0], binary(b, llvm::Intrinsic::abs, x, b.constant(1, 0)));
}

void lower_neg(Builder& b, const ptx::Instruction& i) {
  if (floating(b, i)) return;
  b.write(i.operands[0], b.ir.CreateNeg(b.read(i.operands[1], ptx::bits(i.type()))));
}

void lower_minmax(Builder& b, const ptx::Instruction& i) {
  if (floating(b, i)) return;
  unsigned bits = ptx::bits(i.type());
  bool s = is_signed(i.type()), low = i.opcode == Opcode::min;
  ID id =
      low ? (s ? llvm::Intrinsic::smin : llvm::Intrinsic::umin) : (s ? llvm::Intrinsic::smax : llvm::Intrinsic::umax);
  Value* r = by_lane(b, i.type(), {b.read(i.operands[1], bits), b.read(i.operands[2], bits)},
                     [&](llvm::ArrayRef<Value*> v) -> Value* {
                       Value* m = binary(b, id, v[0], v[1]);
                       if (i.has(Modifier::relu))
                         m = binary(b, llvm::Intrinsic::smax, m, llvm::ConstantInt::get(m->getType(), 0));
                       return m;
                     });
  b.write(i.operands[0], r);
}

void lower_sad(Builder& b, const ptx::Instruction& i) {
  unsigned bits = ptx::bits(i.type());
  Value *x = b.read(i.operands[1], bits), *y = b.read(i.operands[2], bits);
  Value* less = is_signed(i.type()) ? b.ir.CreateICmpSLT(x, y) : b.ir.CreateICmpULT(x, y);
  Value* d = b.ir.CreateSelect(less, b.ir.CreateSub(y, x), b.ir.CreateSub(x, y));
  b.write(i.operands[0], b.ir.CreateAdd(d, b.read(i.operands[3], bits)));
}

// dp4a: four bytes by four bytes; dp2a: two halves by two bytes (.lo or .hi of b). Types: of a, of b.
void lower_dp(Builder& b, const ptx::Instruction& i) {
  if (i.types.size() < 2) return b.refuse("types");
  bool sa = is_signed(i.types[0]), sb = is_signed(i.types[1]);
  Value *x = b.read(i.operands[1], 32), *y = b.read(i.operands[2], 32), *sum = b.read(i.operands[3], 32);
  bool two = i.opcode == Opcode::dp2a;
  auto part = [&](Value* v, unsigned shift, unsigned width, bool s) {
    Value* t = b.ir.CreateTrunc(b.ir.CreateLShr(v, shift), b.i(width));
    return s ? b.ir.CreateSExt(t, b.i(32)) : b.ir.CreateZExt(t, b.i(32));
  };
  for (unsigned n = 0; n < (two ? 2u : 4u); ++n) {
    Value* p = part(x, two ? 16 * n : 8 * n, two ? 16 : 8, sa);
    Value* q = part(y, 8 * n + (two && i.has(Modifier::hi) ? 16 : 0), 8, sb);
    sum = b.ir.CreateAdd(sum, b.ir.CreateMul(p, q));
  }
  b.write(i.operands[0], sum);
}

}  // namespace deadheat::engine
