// f16, bf16 and their pairs (PTX ISA 9.7.4): computed wider, rounded once. Sums, products and quotients of halves in
// float round innocuously (24 >= 2 * 11 + 2); products of bf16 and fma go through double, since they may be subnormal
// or tiny beside the addend.
#include "replay/engine/floating.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

bool is_bf16(Type t) { return t == Type::bf16 || t == Type::bf16x2; }

Value* half_to_float(Builder& b, Value* v, bool bf16) {
  if (bf16) return b.ir.CreateBitCast(b.ir.CreateShl(b.ir.CreateZExt(v, b.i(32)), 16), b.f32());
  return b.ir.CreateFPExt(b.ir.CreateBitCast(v, b.ir.getHalfTy()), b.f32());
}

Value* float_to_half(Builder& b, Value* v, bool bf16) {
  auto& ir = b.ir;
  Value* r;
  if (bf16) {
    Value* bits = ir.CreateBitCast(v, b.i(32));
    Value* odd = ir.CreateAnd(ir.CreateLShr(bits, 16), b.constant(32, 1));
    bits = ir.CreateAdd(bits, ir.CreateAdd(odd, b.constant(32, 0x7fff)));
    r = ir.CreateTrunc(ir.CreateLShr(bits, 16), b.i(16));
  } else {
    r = ir.CreateBitCast(ir.CreateFPTrunc(v, ir.getHalfTy()), b.i(16));
  }
  return ir.CreateSelect(ir.CreateFCmpUNO(v, v), b.constant(16, 0x7fff), r);
}

// To float, rounded to odd: then any shorter format rounds as if from the double.
Value* double_to_odd_float(Builder& b, Value* v) {
  auto& ir = b.ir;
  Value* f = ir.CreateFPTrunc(v, b.f32());
  Value* back = ir.CreateFPExt(f, b.f64());
  Value* bits = ir.CreateBitCast(f, b.i(32));
  Value* even = ir.CreateICmpEQ(ir.CreateAnd(bits, b.constant(32, 1)), b.constant(32, 0));
  Value* adjust = ir.CreateAnd(even, ir.CreateFCmpONE(back, v));
  // Towards v: away from zero when |back| < |v|. From infinity that is the largest float, from zero the least.
  Value* magnitude = ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
  Value* away = ir.CreateFCmpOLT(ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back), magnitude);
  Value* moved = ir.CreateAdd(bits, ir.CreateSelect(away, b.constant(32, 1), b.constant(32, ~std::uint64_t(0))));
  return ir.CreateBitCast(ir.CreateSelect(adjust, moved, bits), b.f32());
}

Value* double_to_half(Builder& b, Value* v, bool bf16) { return float_to_half(b, double_to_odd_float(b, v), bf16); }

Value* add_halves(Builder& b, Value* x, Value* y, bool bf16) {
  return float_to_half(b, b.ir.CreateFAdd(half_to_float(b, x, bf16), half_to_float(b, y, bf16)), bf16);
}

Value* by_half_lane(Builder& b, Type type, llvm::ArrayRef<Value*> in,
                    const std::function<Value*(llvm::ArrayRef<Value*>)>& f) {
  if (type != Type::f16x2 && type != Type::bf16x2) return f(in);
  Value* all = nullptr;
  for (unsigned lane = 0; lane < 2; ++lane) {
    std::vector<Value*> parts;
    for (Value* v : in) parts.push_back(b.ir.CreateTrunc(b.ir.CreateLShr(v, 16 * lane), b.i(16)));
    Value* r = b.ir.CreateShl(b.ir.CreateZExt(f(parts), b.i(32)), 16 * lane);
    all = all ? b.ir.CreateOr(all, r) : r;
  }
  return all;
}

Value* narrow(Builder& b, Value* v, numeric::Narrowing how) {
  if (v->getType()->isFloatTy()) v = b.ir.CreateFPExt(v, b.f64());
  return b.call_helper(reinterpret_cast<const void*>(&numeric::narrow), b.i(32), {v, b.constant(32, how.code())});
}

Value* widen(Builder& b, Value* bits, numeric::Format format) {
  return b.call_helper(reinterpret_cast<const void*>(&numeric::widen), b.f32(),
                       {b.ir.CreateZExtOrTrunc(bits, b.i(32)), b.constant(32, std::uint64_t(format))});
}

namespace {

class Lane {
 public:
  Lane(Builder& b, const ptx::Instruction& i) : b_(b), i_(i), bf_(is_bf16(i.type())) {}

  Value* operator()(llvm::ArrayRef<Value*> in) {
    auto& ir = b_.ir;
    switch (i_.opcode) {
      case Opcode::neg: return bits_result(ir.CreateXor(in[0], b_.constant(16, 0x8000)));
      case Opcode::abs: return bits_result(ir.CreateAnd(in[0], b_.constant(16, 0x7fff)));
      default: break;
    }
    std::vector<Value*> v;
    for (Value* bits : in) v.push_back(half_to_float(b_, i_.has(Modifier::ftz) ? flush16(bits) : bits, bf_));
    auto wide = [&](Value* f) { return ir.CreateFPExt(f, b_.f64()); };
    switch (i_.opcode) {
      case Opcode::add: return result(float_to_half(b_, ir.CreateFAdd(v[0], v[1]), bf_));
      case Opcode::sub: return result(float_to_half(b_, ir.CreateFSub(v[0], v[1]), bf_));
      case Opcode::mul:
        if (bf_) return result(double_to_half(b_, ir.CreateFMul(wide(v[0]), wide(v[1])), true));
        return result(float_to_half(b_, ir.CreateFMul(v[0], v[1]), false));
      case Opcode::fma:
      case Opcode::mad: {
        Value *x = wide(v[0]), *y = wide(v[1]), *z = wide(v[2]);
        // Half precision: the double sum is exact, or so far from a tie that its rounding cannot matter.
        Value* sum = bf_ ? b_.call_helper(reinterpret_cast<const void*>(&numeric::fma_to_odd), b_.f64(), {x, y, z})
                         : ir.CreateFAdd(ir.CreateFMul(x, y), z);
        Value* r = result(double_to_half(b_, sum, bf_));
        if (!i_.has(Modifier::oob)) return r;
        // Of a factor that stands for what lies out of bounds the result is +0: in both types 0x7ff7, of either sign.
        auto outside = [&](Value* bits) {
          return ir.CreateICmpEQ(ir.CreateAnd(bits, b_.constant(16, 0x7fff)), b_.constant(16, 0x7ff7));
        };
        return ir.CreateSelect(ir.CreateOr(outside(in[0]), outside(in[1])), b_.constant(16, 0), r);
      }
      case Opcode::min:
      case Opcode::max: {
        bool is_min = i_.opcode == Opcode::min, nan = i_.has(Modifier::nan) || i_.has(Modifier::NaN);
        Value* sign = nullptr;
        if (i_.has(Modifier::xorsign)) {
          sign = ir.CreateAnd(ir.CreateXor(in[0], in[1]), b_.constant(16, 0x8000));
          for (Value*& f : v) f = ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, f);
        }
        Value* m = minmax(b_, v[0], v[1], is_min, nan);
        if (v.size() > 2) m = minmax(b_, m, v[2], is_min, nan);
        Value* h = float_to_half(b_, m, bf_);
        if (sign) h = ir.CreateSelect(ir.CreateFCmpUNO(m, m), h, ir.CreateOr(h, sign));
        return result(h);
      }
      case Opcode::ex2: return call(&numeric::ex2, v[0]);
      case Opcode::tanh: return call(&numeric::tanh, v[0]);
      default: break;
    }
    b_.refuse("not supported");
    return b_.constant(16, 0);
  }

 private:
  Value* call(float (*f)(float), Value* x) {
    return result(float_to_half(b_, b_.call_helper(reinterpret_cast<const void*>(f), b_.f32(), {x}), bf_));
  }
  Value* flush16(Value* bits) {
    auto& ir = b_.ir;
    Value* tiny = ir.CreateICmpEQ(ir.CreateAnd(bits, b_.constant(16, bf_ ? 0x7f80 : 0x7c00)), b_.constant(16, 0));
    return ir.CreateSelect(tiny, ir.CreateAnd(bits, b_.constant(16, 0x8000)), bits);
  }
  Value* bits_result(Value* bits) {
    if (i_.has(Modifier::ftz)) bits = flush16(bits);
    Value* nan =
        b_.ir.CreateICmpUGT(b_.ir.CreateAnd(bits, b_.constant(16, 0x7fff)), b_.constant(16, bf_ ? 0x7f80 : 0x7c00));
    return b_.ir.CreateSelect(nan, b_.constant(16, 0x7fff), bits);
  }
  Value* result(Value* bits) {
    auto& ir = b_.ir;
    if (i_.has(Modifier::ftz)) bits = flush16(bits);
    if (i_.has(Modifier::sat)) bits = float_to_half(b_, saturate(b_, half_to_float(b_, bits, bf_)), bf_);
    if (i_.has(Modifier::relu)) { // negative numbers and -0 to 0; NaN stays
      Value* negative = ir.CreateICmpSLT(bits, b_.constant(16, 0));
      bits = ir.CreateSelect(negative, b_.constant(16, 0), bits);
    }
    return bits;
  }
  Builder& b_;
  const ptx::Instruction& i_;
  bool bf_;
};

} // namespace

void lower_half(Builder& b, const ptx::Instruction& i) {
  for (Type t : i.types)
    if (t != i.type()) return b.refuse("mixed precision");
  unsigned bits = ptx::bits(i.type());
  std::vector<Value*> in;
  for (std::size_t n = 1; n < i.operands.size(); ++n) in.push_back(b.read(i.operands[n], bits));
  b.write(i.operands[0], by_half_lane(b, i.type(), in, Lane(b, i)));
}

} // namespace deadheat::engine
