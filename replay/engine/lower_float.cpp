// f32 and f64 arithmetic (PTX ISA 9.7.3): IEEE-exact; approximations call numeric.h.
#include "replay/engine/floating.h"

namespace deadheat::engine {

using llvm::Value;
using numeric::Operation;
using numeric::Rounding;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

Rounding rounding_of(const ptx::Instruction& i) {
  if (i.has(Modifier::rz)) return Rounding::zero;
  if (i.has(Modifier::rm)) return Rounding::down;
  if (i.has(Modifier::rp)) return Rounding::up;
  if (i.has(Modifier::rna)) return Rounding::away;
  return Rounding::nearest;
}

Value* flush(Builder& b, Value* v) {
  if (auto* c = llvm::dyn_cast<llvm::ConstantFP>(v); c && !c->getValue().isDenormal()) return v;
  Value* magnitude = b.ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
  bool is_double = v->getType()->isDoubleTy();
  Value* tiny = b.ir.CreateFCmpOLT(magnitude, llvm::ConstantFP::get(v->getType(), is_double ? 0x1p-1022 : 0x1p-126));
  Value* zero = b.ir.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, llvm::ConstantFP::get(v->getType(), 0.0), v);
  return b.ir.CreateSelect(tiny, zero, v);
}

Value* saturate(Builder& b, Value* v) {
  Value* zero = llvm::ConstantFP::get(v->getType(), 0.0);
  Value* one = llvm::ConstantFP::get(v->getType(), 1.0);
  v = b.ir.CreateSelect(b.ir.CreateFCmpOGT(v, zero), v, zero);
  return b.ir.CreateSelect(b.ir.CreateFCmpOLT(v, one), v, one);
}

Value* read_flushed(Builder& b, const ptx::Instruction& i, const Operand& o, Type type) {
  Value* v = b.read_float(o, type);
  return i.has(Modifier::ftz) && type == Type::f32 ? flush(b, v) : v;
}

Value* minmax(Builder& b, Value* x, Value* y, bool is_min, bool nan) {
  auto& ir = b.ir;
  auto better = [&](Value* p, Value* q) {
    return ir.CreateSelect(is_min ? ir.CreateFCmpOLT(p, q) : ir.CreateFCmpOGT(p, q), p, q);
  };
  // Equal operands are the same or zeros of two signs: or for min, and for max gives the right zero.
  llvm::Type* bits = b.i(x->getType()->isDoubleTy() ? 64 : 32);
  Value *m = ir.CreateBitCast(better(x, y), bits), *n = ir.CreateBitCast(better(y, x), bits);
  Value* r = ir.CreateBitCast(is_min ? ir.CreateOr(m, n) : ir.CreateAnd(m, n), x->getType());
  Value *x_nan = ir.CreateFCmpUNO(x, x), *y_nan = ir.CreateFCmpUNO(y, y);
  if (nan) return ir.CreateSelect(x_nan, x, ir.CreateSelect(y_nan, y, r));
  return ir.CreateSelect(y_nan, x, ir.CreateSelect(x_nan, y, r));
}

namespace {

// The result with .ftz and .sat applied.
Value* finished(Builder& b, const ptx::Instruction& i, Value* v) {
  if (i.has(Modifier::ftz) && v->getType()->isFloatTy()) v = flush(b, v);
  return i.has(Modifier::sat) ? saturate(b, v) : v;
}
void finish(Builder& b, const ptx::Instruction& i, Value* v) { b.write_float(i.operands[0], finished(b, i, v)); }

Value* call_rounded(Builder& b, Operation o, Rounding r, llvm::ArrayRef<Value*> v) {
  llvm::Type* type = v[0]->getType();
  return b.call_helper(numeric::rounded(o, type->isDoubleTy(), r), type, v);
}

template <typename F>
const void* address(F f) {
  return reinterpret_cast<const void*>(f);
}

// div.approx, div.full: within 2 ulp where the divisor's reciprocal is normal; beyond 2^126 the reciprocal is flushed
// (PTX ISA 9.7.3.8).
Value* divide(Builder& b, const ptx::Instruction& i, Value* x, Value* y) {
  Value* q = b.ir.CreateFDiv(x, y);
  if (!i.has(Modifier::approx)) return q;
  Value* magnitude = b.ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y);
  Value* large = b.ir.CreateAnd(b.ir.CreateFCmpOGT(magnitude, llvm::ConstantFP::get(y->getType(), 0x1p126)),
                                b.ir.CreateFCmpONE(magnitude, llvm::ConstantFP::getInfinity(y->getType())));
  Value* flushed = b.ir.CreateFMul(
      x, b.ir.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, llvm::ConstantFP::get(y->getType(), 0.0), y));
  return b.ir.CreateSelect(large, flushed, q);
}

// add, sub, mul and fma, correctly rounded.
Value* arithmetic(Builder& b, const ptx::Instruction& i, llvm::ArrayRef<Value*> v) {
  auto& ir = b.ir;
  Rounding rounding = rounding_of(i);
  bool directed = rounding != Rounding::nearest;
  switch (i.opcode) {
    case Opcode::add: return directed ? call_rounded(b, Operation::add, rounding, v) : ir.CreateFAdd(v[0], v[1]);
    case Opcode::sub:
      return directed ? call_rounded(b, Operation::add, rounding, {v[0], ir.CreateFNeg(v[1])})
                      : ir.CreateFSub(v[0], v[1]);
    case Opcode::mul: return directed ? call_rounded(b, Operation::multiply, rounding, v) : ir.CreateFMul(v[0], v[1]);
    case Opcode::fma:
    case Opcode::mad:
      return directed ? call_rounded(b, Operation::fma, rounding, v)
                      : ir.CreateIntrinsic(v[0]->getType(), llvm::Intrinsic::fma, v);
    default: return nullptr;
  }
}

// Two floats in 64 bits (PTX ISA 9.7.3: .f32x2).
void lower_pair(Builder& b, const ptx::Instruction& i) {
  auto& ir = b.ir;
  Value* both = b.constant(64, 0);
  for (unsigned n = 0; n < 2; ++n) {
    std::vector<Value*> v;
    for (std::size_t o = 1; o < i.operands.size(); ++o) {
      Value* bits = ir.CreateTrunc(ir.CreateLShr(b.read(i.operands[o], 64), 32 * n), b.i(32));
      Value* f = ir.CreateBitCast(bits, b.f32());
      v.push_back(i.has(Modifier::ftz) ? flush(b, f) : f);
    }
    bool fused = i.opcode == Opcode::fma;
    if (v.size() != (fused ? 3u : 2u)) return b.refuse("operands");
    Value* r = arithmetic(b, i, v);
    if (!r) return b.refuse("not supported");
    Value* bits = ir.CreateZExt(b.canonical_bits(finished(b, i, r)), b.i(64));
    both = ir.CreateOr(both, ir.CreateShl(bits, 32 * n));
  }
  b.write(i.operands[0], both);
}

// add, sub and fma of f32 whose first operands are halves (PTX ISA 9.7.5): exact in f32, then as there.
bool is_mixed(const ptx::Instruction& i) {
  return i.types.size() == 2 && i.types[0] == Type::f32 && (i.types[1] == Type::f16 || i.types[1] == Type::bf16) &&
         (i.opcode == Opcode::add || i.opcode == Opcode::sub || i.opcode == Opcode::fma);
}
void lower_mixed(Builder& b, const ptx::Instruction& i) {
  std::size_t halves = i.opcode == Opcode::fma ? 2 : 1;
  if (i.operands.size() != halves + 2) return b.refuse("operands");
  std::vector<Value*> v;
  for (std::size_t n = 1; n <= halves; ++n)
    v.push_back(half_to_float(b, b.read(i.operands[n], 16), is_bf16(i.types[1])));
  v.push_back(b.read_float(i.operands.back(), Type::f32));
  finish(b, i, arithmetic(b, i, v));
}

}  // namespace

void lower_float(Builder& b, const ptx::Instruction& i) {
  Type type = i.type();
  if (type == Type::f32x2) return lower_pair(b, i);
  if (is_mixed(i)) return lower_mixed(b, i);
  for (Type t : i.types)
    if (t != type) return b.refuse("mixed precision");
  auto& ir = b.ir;
  Rounding rounding = rounding_of(i);
  bool directed = rounding != Rounding::nearest;
  Value* x = read_flushed(b, i, i.operands[1], type);
  if (i.opcode == Opcode::neg) return finish(b, i, ir.CreateFNeg(x));
  if (i.opcode == Opcode::abs) return finish(b, i, ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x));
  if (i.operands.size() < 3) return b.refuse("operands");
  Value* y = read_flushed(b, i, i.operands[2], type);
  switch (i.opcode) {
    case Opcode::add:
    case Opcode::sub:
    case Opcode::mul: return finish(b, i, arithmetic(b, i, {x, y}));
    case Opcode::div:
      return finish(b, i, directed ? call_rounded(b, Operation::divide, rounding, {x, y}) : divide(b, i, x, y));
    case Opcode::min:
    case Opcode::max: {
      bool is_min = i.opcode == Opcode::min, nan = i.has(Modifier::nan) || i.has(Modifier::NaN);
      Value* sign = nullptr;
      std::vector<Value*> more;
      for (std::size_t n = 3; n < i.operands.size(); ++n) more.push_back(read_flushed(b, i, i.operands[n], type));
      if (i.has(Modifier::abs) && !i.has(Modifier::xorsign)) {
        for (Value** v : {&x, &y}) *v = ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, *v);
        for (Value*& v : more) v = ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
      }
      if (i.has(Modifier::xorsign)) {  // .xorsign.abs
        sign = ir.CreateXor(ir.CreateBitCast(x, b.i(32)), ir.CreateBitCast(y, b.i(32)));
        x = ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
        y = ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y);
      }
      Value* m = minmax(b, x, y, is_min, nan);
      for (Value* v : more) m = minmax(b, m, v, is_min, nan);
      if (sign) m = ir.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, m, ir.CreateBitCast(sign, b.f32()));
      return finish(b, i, m);
    }
    default: return b.refuse("not supported");
  }
}

// fma and mad of floating-point types: one rounding (PTX ISA 9.7.3.6, 9.7.3.7).
void lower_fma(Builder& b, const ptx::Instruction& i) {
  if (is_half(i.type())) return lower_half(b, i);
  Type type = i.type();
  if (type == Type::f32x2) return lower_pair(b, i);
  if (!is_float(type)) return b.refuse("not supported");
  if (is_mixed(i)) return lower_mixed(b, i);
  for (Type t : i.types)
    if (t != type) return b.refuse("mixed precision");
  Value* x = read_flushed(b, i, i.operands[1], type);
  Value* y = read_flushed(b, i, i.operands[2], type);
  Value* z = read_flushed(b, i, i.operands[3], type);
  finish(b, i, arithmetic(b, i, {x, y, z}));
}

void lower_unary_float(Builder& b, const ptx::Instruction& i) {
  if (is_half(i.type())) return lower_half(b, i);
  Type type = i.type();
  bool is_double = type == Type::f64;
  if (!is_float(type)) return b.refuse("not supported");
  Value* x = read_flushed(b, i, i.operands[1], type);
  llvm::Type* t = x->getType();
  Rounding rounding = rounding_of(i);
  bool directed = rounding != Rounding::nearest, approx = i.has(Modifier::approx);
  Value* one = llvm::ConstantFP::get(t, 1.0);
  auto call = [&](const void* f) { finish(b, i, b.call_helper(f, t, {x})); };
  switch (i.opcode) {
    case Opcode::rcp:
      if (is_double && approx) return call(address(&numeric::rcp_gross));
      if (directed) return finish(b, i, call_rounded(b, Operation::divide, rounding, {one, x}));
      return finish(b, i, b.ir.CreateFDiv(one, x));
    case Opcode::sqrt:
      if (directed) return finish(b, i, call_rounded(b, Operation::root, rounding, {x}));
      return finish(b, i, b.ir.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x));
    case Opcode::rsqrt:
      if (is_double) return call(i.has(Modifier::ftz) ? address(&numeric::rsqrt_gross) : address(&numeric::rsqrt64));
      return call(address(&numeric::rsqrt));
    default: break;
  }
  if (is_double) return b.refuse("not supported");
  switch (i.opcode) {
    case Opcode::ex2: return call(address(&numeric::ex2));
    case Opcode::lg2: return call(address(&numeric::lg2));
    case Opcode::sin: return call(address(&numeric::sine));
    case Opcode::cos: return call(address(&numeric::cosine));
    case Opcode::tanh: return call(address(&numeric::tanh));
    default: return b.refuse("not supported");
  }
}

}  // namespace deadheat::engine
