// Scalar video instructions (PTX ISA 9.7.17.1): operands are words, or bytes and halves of them, taken to 34 bits or
// more; the result is clamped, then added to c or merged into it.
#include <optional>

#include "replay/engine/builder.h"
#include "replay/engine/lower.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

namespace {

constexpr unsigned wide = 128;

// What a selector (.b0 to .b3, .h0, .h1) chooses: bits, and from where.
struct Part {
  unsigned bits = 32, at = 0;
};
std::optional<Part> part_of(const Operand& o) {
  std::size_t dot = o.text.find('.');
  if (dot == std::string_view::npos || o.kind != Operand::Kind::reg) return Part{};
  std::string_view s = o.text.substr(dot + 1);
  if (s.size() != 2 || s[1] < '0') return std::nullopt;
  unsigned n = unsigned(s[1] - '0');
  if (s[0] == 'b' && n < 4) return Part{8, 8 * n};
  if (s[0] == 'h' && n < 2) return Part{16, 16 * n};
  return std::nullopt;
}

Value* clamp(Builder& b, Value* v, bool is_signed, unsigned bits) {
  auto limit = [&](const llvm::APInt& n) { return llvm::ConstantInt::get(b.context(), n); };
  llvm::APInt low = is_signed ? llvm::APInt::getSignedMinValue(bits).sext(wide) : llvm::APInt(wide, 0);
  llvm::APInt high =
      is_signed ? llvm::APInt::getSignedMaxValue(bits).sext(wide) : llvm::APInt::getMaxValue(bits).zext(wide);
  v = b.ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, limit(low));
  return b.ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, limit(high));
}

}  // namespace

void lower_scalar_video(Builder& b, const ptx::Instruction& i) {
  auto& ir = b.ir;
  const auto& o = i.operands;
  bool set = i.opcode == Opcode::vset, multiply = i.opcode == Opcode::vmad;
  std::size_t first = set ? 0 : 1;  // vset names the operands' types only
  if (o.size() < 3 || (multiply && o.size() < 4) || i.types.size() < first + 2) return b.refuse("operands");
  for (const Operand& operand : o)
    if (operand.negated || !part_of(operand)) return b.refuse("operand");
  auto is_signed = [](Type t) { return t == Type::s32; };
  auto take = [&](const Operand& operand, Type type) {
    Part p = *part_of(operand);
    Operand whole = operand;
    Value* v = ir.CreateTrunc(ir.CreateLShr(b.read(whole, 32), p.at), b.i(p.bits));
    return is_signed(type) ? ir.CreateSExt(v, b.i(wide)) : ir.CreateZExt(v, b.i(wide));
  };
  Type a_type = i.types[first], b_type = i.types[first + 1];
  bool result_signed = set ? false : is_signed(i.types[0]);
  // Where GPUs depart from the manual: what ptxas makes of these on sm_90 does not clamp or compare as it says.
  bool sat = i.has(Modifier::sat), scaled = i.has(Modifier::shr7) || i.has(Modifier::shr15);
  bool merges = part_of(o[0])->bits < 32;
  bool departs = i.has(Modifier::po) || i.has(Modifier::min) || i.has(Modifier::max);
  if (multiply)
    departs |= (sat || scaled) && !is_signed(a_type) && !is_signed(b_type);
  else
    departs |= sat && (!result_signed || merges || i.opcode == Opcode::vshl);
  if (departs) return b.refuse("not supported by the embedded device");
  Value *x = take(o[1], a_type), *y = take(o[2], b_type), *r = nullptr;
  auto pick = [&](llvm::Intrinsic::ID id, Value* p, Value* q) { return ir.CreateBinaryIntrinsic(id, p, q); };
  switch (i.opcode) {
    case Opcode::vadd: r = ir.CreateAdd(x, y); break;
    case Opcode::vsub: r = ir.CreateSub(x, y); break;
    case Opcode::vabsdiff: r = pick(llvm::Intrinsic::abs, ir.CreateSub(x, y), b.constant(1, 0)); break;
    case Opcode::vmin: r = pick(llvm::Intrinsic::smin, x, y); break;
    case Opcode::vmax: r = pick(llvm::Intrinsic::smax, x, y); break;
    case Opcode::vshl:
    case Opcode::vshr: {
      y = i.has(Modifier::clamp) ? pick(llvm::Intrinsic::umin, y, b.constant(wide, 32))
                                 : ir.CreateAnd(y, b.constant(wide, 31));
      r = i.opcode == Opcode::vshl ? ir.CreateShl(x, y) : ir.CreateAShr(x, y);
      break;
    }
    case Opcode::vset: {
      Value* is = i.has(Modifier::eq)   ? ir.CreateICmpEQ(x, y)
                  : i.has(Modifier::ne) ? ir.CreateICmpNE(x, y)
                  : i.has(Modifier::lt) ? ir.CreateICmpSLT(x, y)
                  : i.has(Modifier::le) ? ir.CreateICmpSLE(x, y)
                  : i.has(Modifier::gt) ? ir.CreateICmpSGT(x, y)
                                        : ir.CreateICmpSGE(x, y);
      r = ir.CreateZExt(is, b.i(wide));
      break;
    }
    case Opcode::vmad: {
      bool any_signed = is_signed(a_type) || is_signed(b_type);
      Value* c = b.read(o[3], 32);
      r = ir.CreateAdd(ir.CreateMul(x, y), any_signed ? ir.CreateSExt(c, b.i(wide)) : ir.CreateZExt(c, b.i(wide)));
      if (i.has(Modifier::shr7)) r = ir.CreateAShr(r, 7);
      if (i.has(Modifier::shr15)) r = ir.CreateAShr(r, 15);
      if (sat) r = clamp(b, r, any_signed, 32);
      return b.write(o[0], ir.CreateTrunc(r, b.i(32)));
    }
    default: return b.refuse("not supported");
  }
  Part to = *part_of(o[0]);
  if (sat) r = clamp(b, r, result_signed, to.bits);
  Value* word = ir.CreateTrunc(r, b.i(32));
  if (to.bits == 32 && o.size() == 3) return b.write(o[0], word);
  if (o.size() < 4) return b.refuse("operands");
  Value* c = b.read(o[3], 32);
  if (to.bits < 32) {  // merged into c
    std::uint32_t mask = ((1u << to.bits) - 1) << to.at;
    Value* kept = ir.CreateAnd(c, b.constant(32, std::uint32_t(~mask)));
    word = ir.CreateOr(kept, ir.CreateAnd(ir.CreateShl(word, to.at), b.constant(32, mask)));
  } else if (i.has(Modifier::add)) {
    word = ir.CreateAdd(word, c);
  } else {
    return b.refuse("operation");
  }
  b.write(o[0], word);
}

}  // namespace deadheat::engine
