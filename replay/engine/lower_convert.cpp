// cvt (PTX ISA 9.7.9.21): every pair of integer and floating-point types, and the packed narrow formats.
#include "replay/engine/floating.h"

namespace deadheat::engine {

using llvm::Value;
using numeric::Format;
using numeric::Rounding;
using ptx::Modifier;
using ptx::Operand;
using ptx::Type;

namespace {

bool is_scalar_half(Type t) { return t == Type::f16 || t == Type::bf16; }
bool is_number(Type t) { return is_float(t) || is_scalar_half(t); }

// To an integral value in a float's own format: .rni .rzi .rmi .rpi.
bool to_integral(const ptx::Instruction& i) {
  return i.has(Modifier::rni) || i.has(Modifier::rzi) || i.has(Modifier::rmi) || i.has(Modifier::rpi);
}
Value* integral(Builder& b, const ptx::Instruction& i, Value* v) {
  llvm::Intrinsic::ID id = i.has(Modifier::rzi)   ? llvm::Intrinsic::trunc
                           : i.has(Modifier::rmi) ? llvm::Intrinsic::floor
                           : i.has(Modifier::rpi) ? llvm::Intrinsic::ceil
                                                  : llvm::Intrinsic::roundeven;
  return b.ir.CreateUnaryIntrinsic(id, v);
}

Value* integer_to_integer(Builder& b, const ptx::Instruction& i, Value* v, Type to, Type from) {
  auto& ir = b.ir;
  unsigned from_bits = ptx::bits(from), to_bits = ptx::bits(to);
  if (i.has(Modifier::sat)) {  // clamped in 128 bits: covers every pair
    auto* wide = b.i(128);
    v = is_signed(from) ? ir.CreateSExt(v, wide) : ir.CreateZExt(v, wide);
    llvm::APInt low = is_signed(to) ? llvm::APInt::getSignedMinValue(to_bits).sext(128) : llvm::APInt(128, 0);
    llvm::APInt high =
        is_signed(to) ? llvm::APInt::getSignedMaxValue(to_bits).sext(128) : llvm::APInt::getMaxValue(to_bits).zext(128);
    v = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, llvm::ConstantInt::get(b.context(), low));
    v = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, llvm::ConstantInt::get(b.context(), high));
    return ir.CreateTrunc(v, b.i(to_bits));
  }
  if (to_bits <= from_bits) return ir.CreateTrunc(v, b.i(to_bits));
  return is_signed(from) ? ir.CreateSExt(v, b.i(to_bits)) : ir.CreateZExt(v, b.i(to_bits));
}

Value* integer_to_float(Builder& b, Value* v, Type to, Type from, Rounding rounding) {
  auto& ir = b.ir;
  bool s = is_signed(from);
  if (is_scalar_half(to)) {
    Value* wide = s ? ir.CreateSExt(v, b.i(64)) : ir.CreateZExt(v, b.i(64));
    numeric::Narrowing how{to == Type::f16 ? Format::f16 : Format::bf16, rounding};
    Value* r = b.call_helper(reinterpret_cast<const void*>(&numeric::narrow_integer), b.i(32),
                             {wide, b.constant(32, s ? 1 : 0), b.constant(32, how.code())});
    return ir.CreateTrunc(r, b.i(16));
  }
  llvm::Type* type = to == Type::f64 ? b.f64() : b.f32();
  if (rounding == Rounding::nearest) return s ? ir.CreateSIToFP(v, type) : ir.CreateUIToFP(v, type);
  Value* wide = s ? ir.CreateSExt(v, b.i(64)) : ir.CreateZExt(v, b.i(64));
  return b.call_helper(numeric::from_integer_rounded(to == Type::f64, s, rounding), type, {wide});
}

// A number of any floating-point type as float or double.
Value* read_number(Builder& b, const ptx::Instruction& i, const Operand& o, Type type) {
  if (is_scalar_half(type)) return half_to_float(b, b.read(o, 16), is_bf16(type));
  return read_flushed(b, i, o, type);
}

Value* clamp(Builder& b, const ptx::Instruction& i, Value* v) {
  if (i.has(Modifier::sat)) v = saturate(b, v);
  if (i.has(Modifier::relu)) {
    Value* zero = llvm::ConstantFP::get(v->getType(), 0.0);
    v = b.ir.CreateSelect(b.ir.CreateFCmpOLE(v, zero), zero, v);
  }
  return v;
}

// float or double to f16 or bf16 bits, one rounding.
Value* to_half(Builder& b, const ptx::Instruction& i, Value* v, bool bf16, Rounding rounding) {
  v = clamp(b, i, v);
  bool finite = i.has(Modifier::satfinite);
  if (rounding == Rounding::nearest && !finite)
    return v->getType()->isDoubleTy() ? double_to_half(b, v, bf16) : float_to_half(b, v, bf16);
  Value* r = narrow(b, v, {bf16 ? Format::bf16 : Format::f16, rounding, finite});
  return b.ir.CreateTrunc(r, b.i(16));
}

struct Packed {
  Type type;
  Format format;
  unsigned bits;  // of one element
};
constexpr Packed packed_formats[] = {{Type::e4m3x2, Format::e4m3, 8},
                                     {Type::e5m2x2, Format::e5m2, 8},
                                     {Type::e2m3x2, Format::e2m3, 8},
                                     {Type::e3m2x2, Format::e3m2, 8},
                                     {Type::e2m1x2, Format::e2m1, 4}};
const Packed* packed(Type t) {
  for (const Packed& p : packed_formats)
    if (p.type == t) return &p;
  return nullptr;
}

// Powers of two: to ue8m0x2 of floats or bf16x2, and from it to bf16x2.
bool convert_powers(Builder& b, const ptx::Instruction& i, Type to, Type from) {
  auto& ir = b.ir;
  const auto& o = i.operands;
  if (from == Type::ue8m0x2) {
    if (to != Type::bf16x2) return false;
    Value* pair = b.read(o[1], 16);
    Value* all = b.constant(32, 0);
    for (unsigned n = 0; n < 2; ++n) {
      Value* exponent = ir.CreateAnd(ir.CreateLShr(pair, 8 * n), b.constant(16, 255));
      Value* bits = ir.CreateShl(exponent, 7);
      bits = ir.CreateSelect(ir.CreateICmpEQ(exponent, b.constant(16, 0)), b.constant(16, 0x0040), bits);
      bits = ir.CreateSelect(ir.CreateICmpEQ(exponent, b.constant(16, 255)), b.constant(16, 0x7fff), bits);
      all = ir.CreateOr(all, ir.CreateShl(ir.CreateZExt(bits, b.i(32)), 16 * n));
    }
    b.write(o[0], all);
    return true;
  }
  if (to != Type::ue8m0x2 || (!i.has(Modifier::rz) && !i.has(Modifier::rp))) return false;
  Value *high, *low;
  if (from == Type::f32) {
    if (o.size() < 3) return b.refuse("operands"), true;
    high = b.read_float(o[1], from);
    low = b.read_float(o[2], from);
  } else if (from == Type::bf16x2) {
    Value* v = b.read(o[1], 32);
    high = half_to_float(b, ir.CreateTrunc(ir.CreateLShr(v, 16), b.i(16)), true);
    low = half_to_float(b, ir.CreateTrunc(v, b.i(16)), true);
  } else {
    return false;
  }
  auto power = [&](Value* v) {
    return b.call_helper(reinterpret_cast<const void*>(&numeric::to_power_of_two), b.i(32),
                         {v, b.constant(32, i.has(Modifier::rp)), b.constant(32, i.has(Modifier::satfinite))});
  };
  b.write(o[0], ir.CreateTrunc(ir.CreateOr(ir.CreateShl(power(high), 8), power(low)), b.i(16)));
  return true;
}

// Pairs: d, a, b gives a above b; or both halves of one operand.
bool convert_packed(Builder& b, const ptx::Instruction& i, Type to, Type from) {
  auto& ir = b.ir;
  const auto& o = i.operands;
  bool to_pair = to == Type::f16x2 || to == Type::bf16x2;
  if (to_pair && from == Type::f32) {
    if (o.size() < 3) return b.refuse("operands"), true;
    Rounding rounding = rounding_of(i);
    Value* high = to_half(b, i, read_flushed(b, i, o[1], from), is_bf16(to), rounding);
    Value* low = to_half(b, i, read_flushed(b, i, o[2], from), is_bf16(to), rounding);
    b.write(o[0], ir.CreateOr(ir.CreateShl(ir.CreateZExt(high, b.i(32)), 16), ir.CreateZExt(low, b.i(32))));
    return true;
  }
  if (const Packed* p = packed(to)) {
    numeric::Narrowing how{p->format, rounding_of(i), true, i.has(Modifier::relu)};
    Value *high, *low;
    if (from == Type::f32) {
      if (o.size() < 3) return b.refuse("operands"), true;
      high = b.read_float(o[1], from);
      low = b.read_float(o[2], from);
    } else if (from == Type::f16x2 || from == Type::bf16x2) {
      Value* v = b.read(o[1], 32);
      high = half_to_float(b, ir.CreateTrunc(ir.CreateLShr(v, 16), b.i(16)), is_bf16(from));
      low = half_to_float(b, ir.CreateTrunc(v, b.i(16)), is_bf16(from));
    } else {
      return false;
    }
    Value* r = ir.CreateOr(ir.CreateShl(narrow(b, high, how), p->bits), narrow(b, low, how));
    b.write(o[0], ir.CreateTrunc(r, b.i(p->bits * 2)));
    return true;
  }
  if (const Packed* p = packed(from)) {
    if (!to_pair) return false;
    Value* v = ir.CreateZExt(b.read(o[1], p->bits * 2), b.i(32));
    Value* all = b.constant(32, 0);
    for (unsigned n = 0; n < 2; ++n) {
      Value* element = ir.CreateAnd(ir.CreateLShr(v, n * p->bits), b.constant(32, (1u << p->bits) - 1));
      Value* h = float_to_half(b, clamp(b, i, widen(b, element, p->format)), is_bf16(to));
      all = ir.CreateOr(all, ir.CreateShl(ir.CreateZExt(h, b.i(32)), 16 * n));
    }
    b.write(o[0], all);
    return true;
  }
  return false;
}

// cvt.pack.sat: a above b, clamped; of types narrower than 16 bits c above both (PTX ISA 9.7.9.22).
void pack(Builder& b, const ptx::Instruction& i) {
  auto& ir = b.ir;
  const auto& o = i.operands;
  unsigned bits = ptx::bits(i.types[0]);
  bool s = ptx::name(i.types[0])[0] == 's', above = bits < 16;
  if (i.types[1] != Type::s32 || !i.has(Modifier::sat) || o.size() != (above ? 4u : 3u)) return b.refuse("form");
  auto clamped = [&](const Operand& operand) {
    std::int64_t low = s ? -(std::int64_t(1) << (bits - 1)) : 0;
    std::int64_t high = (std::int64_t(1) << (s ? bits - 1 : bits)) - 1;
    Value* v = b.read(operand, 32);
    v = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, b.constant(32, std::uint64_t(low)));
    v = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, b.constant(32, std::uint64_t(high)));
    return ir.CreateAnd(v, b.constant(32, (std::uint64_t(1) << bits) - 1));
  };
  Value* both = ir.CreateOr(ir.CreateShl(clamped(o[1]), bits), clamped(o[2]));
  b.write(o[0], above ? ir.CreateOr(ir.CreateShl(b.read(o[3], 32), 2 * bits), both) : both);
}

}  // namespace

void lower_cvt(Builder& b, const ptx::Instruction& i) {
  auto& ir = b.ir;
  const auto& o = i.operands;
  if (i.types.size() < 2 || o.size() < 2) return b.refuse("types");
  Type to = i.types[0], from = i.types[1];
  if (i.has(Modifier::pack)) return pack(b, i);
  if (convert_powers(b, i, to, from) || convert_packed(b, i, to, from)) return;
  if (to == Type::tf32 && from == Type::f32 && i.has(Modifier::rna) && !i.has(Modifier::satfinite)) {
    // Half up in magnitude; infinities and NaNs keep their upper bits, as on GPUs.
    Value* bits = b.read(o[1], 32);
    Value* special = ir.CreateICmpEQ(ir.CreateAnd(bits, b.constant(32, 0x7f800000)), b.constant(32, 0x7f800000));
    Value* up = ir.CreateSelect(special, b.constant(32, 0), b.constant(32, 0x1000));
    return b.write(o[0], ir.CreateAnd(ir.CreateAdd(bits, up), b.constant(32, 0xffffe000)));
  }
  if (to == Type::f32 && from == Type::bf16 && !to_integral(i) && !i.has(Modifier::sat) && !i.has(Modifier::relu))
    return b.write(o[0], ir.CreateShl(ir.CreateZExt(b.read(o[1], 16), b.i(32)), 16));  // NaNs too
  if (to == Type::tf32 && from == Type::f32) {
    Value* r = narrow(b, b.read_float(o[1], from),
                      {Format::tf32, rounding_of(i), i.has(Modifier::satfinite), i.has(Modifier::relu)});
    return b.write(o[0], r);
  }
  bool to_number = is_number(to), from_number = is_number(from);
  bool known_integer = !to_number && !from_number;
  for (Type t : {to, from})
    if (!is_number(t) && (ptx::bits(t) < 8 || ptx::bits(t) > 64 || ptx::name(t)[0] == 'e' || ptx::bits(t) % 8))
      return b.refuse("types");
  if (known_integer)
    return b.write(o[0], integer_to_integer(b, i, b.read(o[1], ptx::bits(from)), to, from), is_signed(to));
  Rounding rounding = rounding_of(i);
  if (!from_number) {
    Value* v = integer_to_float(b, b.read(o[1], ptx::bits(from)), to, from, rounding);
    if (is_scalar_half(to)) {
      if (i.has(Modifier::sat)) v = float_to_half(b, saturate(b, half_to_float(b, v, is_bf16(to))), is_bf16(to));
      return b.write(o[0], v);
    }
    return b.write_float(o[0], i.has(Modifier::sat) ? saturate(b, v) : v);
  }
  Value* v = read_number(b, i, o[1], from);
  if (!to_number) {  // saturates
    unsigned bits = ptx::bits(to);
    Value* rounded = integral(b, i, v);
    Value* r = ir.CreateIntrinsic(is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
                                  {b.i(bits), v->getType()}, {rounded});
    // NaN gives 0, but where 64 bits are involved GPUs give the sign bit.
    if (bits == 64 || from == Type::f64)
      r = ir.CreateSelect(ir.CreateFCmpUNO(v, v), b.constant(bits, std::uint64_t(1) << (bits - 1)), r);
    return b.write(o[0], r, is_signed(to));
  }
  if (to_integral(i)) v = integral(b, i, v);
  if (is_scalar_half(to)) return b.write(o[0], to_half(b, i, v, is_bf16(to), rounding));
  bool wide = v->getType()->isDoubleTy();
  if (to == Type::f64 && !wide) v = ir.CreateFPExt(v, b.f64());
  if (to == Type::f32 && wide && i.has(Modifier::ftz)) {  // what is tiny before rounding is flushed
    Value* tiny =
        ir.CreateFCmpOLT(ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v), llvm::ConstantFP::get(b.f64(), 0x1p-126));
    Value* zero = ir.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, llvm::ConstantFP::get(b.f64(), 0.0), v);
    v = ir.CreateSelect(tiny, zero, v);
  }
  if (to == Type::f32 && wide)
    v = rounding == Rounding::nearest ? ir.CreateFPTrunc(v, b.f32())
                                      : b.call_helper(numeric::to_float_rounded(rounding), b.f32(), {v});
  if (to == Type::f32 && i.has(Modifier::ftz)) v = flush(b, v);
  b.write_float(o[0], clamp(b, i, v));
}

}  // namespace deadheat::engine
