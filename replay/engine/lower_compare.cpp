// Comparison and selection (PTX ISA 9.7.5, 9.7.6), testp and copysign.
#include "replay/engine/floating.h"

namespace deadheat::engine {

using llvm::CmpInst;
using llvm::Value;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

namespace {

struct Comparison {
  Modifier modifier;
  CmpInst::Predicate s, u, f;  // signed, unsigned, floating-point
};
constexpr CmpInst::Predicate none = CmpInst::BAD_ICMP_PREDICATE;
constexpr Comparison comparisons[] = {
    {Modifier::eq, CmpInst::ICMP_EQ, CmpInst::ICMP_EQ, CmpInst::FCMP_OEQ},
    {Modifier::ne, CmpInst::ICMP_NE, CmpInst::ICMP_NE, CmpInst::FCMP_ONE},
    {Modifier::lt, CmpInst::ICMP_SLT, CmpInst::ICMP_ULT, CmpInst::FCMP_OLT},
    {Modifier::le, CmpInst::ICMP_SLE, CmpInst::ICMP_ULE, CmpInst::FCMP_OLE},
    {Modifier::gt, CmpInst::ICMP_SGT, CmpInst::ICMP_UGT, CmpInst::FCMP_OGT},
    {Modifier::ge, CmpInst::ICMP_SGE, CmpInst::ICMP_UGE, CmpInst::FCMP_OGE},
    {Modifier::lo, CmpInst::ICMP_ULT, CmpInst::ICMP_ULT, none},
    {Modifier::ls, CmpInst::ICMP_ULE, CmpInst::ICMP_ULE, none},
    {Modifier::hi, CmpInst::ICMP_UGT, CmpInst::ICMP_UGT, none},
    {Modifier::hs, CmpInst::ICMP_UGE, CmpInst::ICMP_UGE, none},
    {Modifier::equ, none, none, CmpInst::FCMP_UEQ},
    {Modifier::neu, none, none, CmpInst::FCMP_UNE},
    {Modifier::ltu, none, none, CmpInst::FCMP_ULT},
    {Modifier::leu, none, none, CmpInst::FCMP_ULE},
    {Modifier::gtu, none, none, CmpInst::FCMP_UGT},
    {Modifier::geu, none, none, CmpInst::FCMP_UGE},
    {Modifier::num, none, none, CmpInst::FCMP_ORD},
    {Modifier::nan, none, none, CmpInst::FCMP_UNO},
};

// The comparisons of all lanes (one but for f16x2 and bf16x2).
std::vector<Value*> compare(Builder& b, const ptx::Instruction& i, Type type, const Operand& left,
                            const Operand& right) {
  const Comparison* c = nullptr;
  for (const Comparison& known : comparisons)
    if (i.has(known.modifier)) {
      c = &known;
      break;
    }
  if (!c) {
    b.refuse("comparison");
    return {b.ir.getFalse()};
  }
  bool floats = is_float(type) || is_half(type);
  CmpInst::Predicate p = floats ? c->f : is_signed(type) ? c->s : c->u;
  if (p == none) {
    b.refuse("comparison");
    return {b.ir.getFalse()};
  }
  if (is_float(type)) return {b.ir.CreateFCmp(p, read_flushed(b, i, left, type), read_flushed(b, i, right, type))};
  unsigned bits = type == Type::pred ? 1 : ptx::bits(type);
  Value *x = b.read(left, bits), *y = b.read(right, bits);
  if (!floats) return {b.ir.CreateICmp(p, x, y)};
  bool bf = is_bf16(type);
  std::vector<Value*> lanes;
  for (unsigned lane = 0; lane < bits / 16; ++lane) {
    auto part = [&](Value* v) {
      Value* h = b.ir.CreateTrunc(b.ir.CreateLShr(v, 16 * lane), b.i(16));
      if (i.has(Modifier::ftz)) {
        Value* tiny = b.ir.CreateICmpEQ(b.ir.CreateAnd(h, b.constant(16, bf ? 0x7f80 : 0x7c00)), b.constant(16, 0));
        h = b.ir.CreateSelect(tiny, b.constant(16, 0), h);
      }
      return half_to_float(b, h, bf);
    };
    lanes.push_back(b.ir.CreateFCmp(p, part(x), part(y)));
  }
  return lanes;
}

bool combines(const ptx::Instruction& i) {
  return i.has(Modifier::and_) || i.has(Modifier::or_) || i.has(Modifier::xor_);
}

Value* combine(Builder& b, const ptx::Instruction& i, Value* v, Value* c) {
  if (i.has(Modifier::and_)) return b.ir.CreateAnd(v, c);
  if (i.has(Modifier::or_)) return b.ir.CreateOr(v, c);
  return b.ir.CreateXor(v, c);
}

}  // namespace

void lower_setp(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (o.size() < 3) return b.refuse("operands");
  std::vector<Value*> lanes = compare(b, i, i.type(), o[1], o[2]);
  bool pair = o[0].kind == Operand::Kind::pair;
  Value* c = combines(i) && o.size() > 3 ? b.read_predicate(o[3]) : nullptr;
  auto with = [&](Value* v) { return c ? combine(b, i, v, c) : v; };
  if (lanes.size() == 2) {  // f16x2: p|q of the two lanes
    Value *p = with(lanes[0]), *q = with(lanes[1]);
    b.write(pair ? o[0].elements[0] : o[0], p);
    if (pair) b.write(o[0].elements[1], q);
    return;
  }
  Value *p = with(lanes[0]), *q = pair ? with(b.ir.CreateNot(lanes[0])) : nullptr;
  b.write(pair ? o[0].elements[0] : o[0], p);
  if (pair) b.write(o[0].elements[1], q);
}

// set: all ones or 1.0 where it holds, of the destination's type.
void lower_set(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (o.size() < 3 || i.types.empty()) return b.refuse("operands");
  Type to = i.types[0], from = i.types.size() > 1 ? i.types[1] : i.types[0];
  std::vector<Value*> lanes = compare(b, i, from, o[1], o[2]);
  Value* c = combines(i) && o.size() > 3 ? b.read_predicate(o[3]) : nullptr;
  for (Value*& v : lanes)
    if (c) v = combine(b, i, v, c);
  unsigned bits = ptx::bits(to);
  std::uint64_t yes = ~std::uint64_t(0);
  unsigned lane_bits = lanes.size() == 2 ? 16 : bits;
  if (to == Type::f32)
    yes = 0x3f800000;
  else if (to == Type::f16 || to == Type::f16x2)
    yes = 0x3c00;
  else if (to == Type::bf16 || to == Type::bf16x2)
    yes = 0x3f80;
  if (lanes.size() == 1) return b.write(o[0], b.ir.CreateSelect(lanes[0], b.constant(bits, yes), b.constant(bits, 0)));
  Value* all = b.constant(bits, 0);
  for (unsigned n = 0; n < 2; ++n) {
    Value* v = b.ir.CreateSelect(lanes[n], b.constant(lane_bits, yes), b.constant(lane_bits, 0));
    all = b.ir.CreateOr(all, b.ir.CreateShl(b.ir.CreateZExt(v, b.i(bits)), 16 * n));
  }
  b.write(o[0], all);
}

namespace {

// d = choice ? x : y; stays raw where d is.
void select(Builder& b, const ptx::Instruction& i, Type type, Value* choice) {
  const auto& o = i.operands;
  unsigned bits = type == Type::pred ? 1 : ptx::bits(type);
  if (b.is_raw(o[0]) && b.register_bits(o[0]) == bits) {
    Type as = bits == 64 ? Type::f64 : Type::f32;
    Value *x = b.read_float(o[1], as), *y = b.read_float(o[2], as);
    return b.write_float(o[0], b.ir.CreateSelect(choice, x, y));
  }
  Value *x = b.read(o[1], bits), *y = b.read(o[2], bits);
  b.write(o[0], b.ir.CreateSelect(choice, x, y));
}

}  // namespace

void lower_selp(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 4) return b.refuse("operands");
  select(b, i, i.type(), b.read_predicate(i.operands[3]));
}

// slct: a where c >= 0, else b; b too where c is NaN.
void lower_slct(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 4 || i.types.size() < 2) return b.refuse("operands");
  Type type = i.types[1];
  Value* choice;
  if (type == Type::f32)
    choice = b.ir.CreateFCmpOGE(read_flushed(b, i, i.operands[3], type), llvm::ConstantFP::get(b.f32(), 0.0));
  else
    choice = b.ir.CreateICmpSGE(b.read(i.operands[3], 32), b.constant(32, 0));
  select(b, i, i.type(), choice);
}

void lower_testp(Builder& b, const ptx::Instruction& i) {
  auto& ir = b.ir;
  Type type = i.type();
  Value* v = b.read_float(i.operands[1], type);
  llvm::Type* t = v->getType();
  Value* magnitude = ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
  Value* infinity = llvm::ConstantFP::getInfinity(t);
  Value* least = llvm::ConstantFP::get(t, type == Type::f64 ? 0x1p-1022 : 0x1p-126);
  Value* r;
  if (i.has(Modifier::finite))
    r = ir.CreateFCmpOLT(magnitude, infinity);
  else if (i.has(Modifier::infinite))
    r = ir.CreateFCmpOEQ(magnitude, infinity);
  else if (i.has(Modifier::number))
    r = ir.CreateFCmpORD(v, v);
  else if (i.has(Modifier::notanumber))
    r = ir.CreateFCmpUNO(v, v);
  else if (i.has(Modifier::normal)) {  // zeros count as normal on GPUs
    Value* zero = ir.CreateFCmpOEQ(magnitude, llvm::ConstantFP::get(t, 0.0));
    r = ir.CreateAnd(ir.CreateOr(zero, ir.CreateFCmpOGE(magnitude, least)), ir.CreateFCmpOLT(magnitude, infinity));
  } else
    r = ir.CreateAnd(ir.CreateFCmpOLT(magnitude, least), ir.CreateFCmpOGT(magnitude, llvm::ConstantFP::get(t, 0.0)));
  b.write(i.operands[0], r);
}

// copysign d, a, b: the sign of a on b.
void lower_copysign(Builder& b, const ptx::Instruction& i) {
  unsigned bits = ptx::bits(i.type());
  std::uint64_t sign = std::uint64_t(1) << (bits - 1);
  Value *x = b.read(i.operands[1], bits), *y = b.read(i.operands[2], bits);
  b.write(i.operands[0],
          b.ir.CreateOr(b.ir.CreateAnd(x, b.constant(bits, sign)), b.ir.CreateAnd(y, b.constant(bits, ~sign))));
}

}  // namespace deadheat::engine
