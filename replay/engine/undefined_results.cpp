// Undefined bits of what instructions compute, from those of their operands.
#include "replay/engine/undefined.h"

#include "replay/engine/lower.h"
#include "tracer/ptx/operands.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;

Value* Undefined::all_or_none(Value* some, unsigned width) { return some ? b_.ir.CreateSExt(some, b_.i(width)) : some; }

Value* Undefined::whole(const ptx::Instruction& i, unsigned width) {
  Value* some = nullptr;
  for (std::size_t n = ptx::destination_count(i); n < i.operands.size(); ++n)
    if (Value* v = any(i.operands[n])) some = some ? b_.ir.CreateOr(some, v) : v;
  return all_or_none(some, width);
}

// Lanes of 16 bits that have nothing to do with each other.
Value* Undefined::halves(const ptx::Instruction& i) {
  auto& ir = b_.ir;
  Value* all = nullptr;
  for (std::size_t n = ptx::destination_count(i); n < i.operands.size(); ++n)
    if (Value* v = bits(i.operands[n], 32)) all = all ? ir.CreateOr(all, v) : v;
  if (!all) return nullptr;
  Value* low = ir.CreateSExt(ir.CreateICmpNE(ir.CreateTrunc(all, b_.i(16)), b_.constant(16, 0)), b_.i(16));
  Value* high = ir.CreateSExt(ir.CreateICmpUGT(all, b_.constant(32, 0xffff)), b_.i(16));
  return ir.CreateOr(ir.CreateZExt(low, b_.i(32)), ir.CreateShl(ir.CreateZExt(high, b_.i(32)), 16));
}

// and, or, xor, not, lop3: a bit that the other operand decides is defined.
Value* Undefined::bitwise(const ptx::Instruction& i, unsigned width) {
  auto& ir = b_.ir;
  const auto& o = i.operands;
  Value* all = nullptr;
  auto add = [&](Value* v) { all = all ? ir.CreateOr(all, v) : v; };
  const bool masks = i.opcode == Opcode::and_ || i.opcode == Opcode::or_;
  if (!masks || o.size() < 3) {
    for (std::size_t n = 1; n < o.size(); ++n)
      if (Value* v = bits(o[n], width)) add(v);
    return all;
  }
  Value *x = bits(o[1], width), *y = bits(o[2], width);
  auto matters = [&](const Operand& other) { // where the other operand leaves the bit open
    Value* v = b_.read(other, width);
    return i.opcode == Opcode::and_ ? v : ir.CreateNot(v);
  };
  if (x) add(ir.CreateAnd(x, matters(o[2])));
  if (y) add(ir.CreateAnd(y, matters(o[1])));
  if (x && y) add(ir.CreateAnd(x, y));
  return all;
}

// Shifts and fields at places that the program names; elsewhere all of the result is undefined if anything is.
Value* Undefined::extracted(const ptx::Instruction& i, unsigned width) {
  auto& ir = b_.ir;
  const auto& o = i.operands;
  auto is_constant = [&](std::size_t n) { return n < o.size() && o[n].kind == Operand::Kind::integer; };
  auto mask = [&](unsigned count) { return count >= width ? ~std::uint64_t(0) : (std::uint64_t(1) << count) - 1; };
  const bool sign = is_signed(i.type());
  switch (i.opcode) {
    case Opcode::shl:
    case Opcode::shr: {
      Value* v = bits(o[1], width);
      if (Value* amount = any(o[2])) {
        v = v ? ir.CreateICmpNE(v, b_.constant(width, 0)) : nullptr;
        return all_or_none(v ? ir.CreateOr(v, amount) : amount, width);
      }
      if (!v) return nullptr;
      Value* amount = b_.read(o[2], 32);
      Value* within = ir.CreateICmpULT(amount, b_.constant(32, width));
      Value* by = ir.CreateZExtOrTrunc(ir.CreateSelect(within, amount, b_.constant(32, width - 1)), b_.i(width));
      if (i.opcode == Opcode::shr && sign) return ir.CreateAShr(v, by);
      v = i.opcode == Opcode::shl ? ir.CreateShl(v, by) : ir.CreateLShr(v, by);
      return ir.CreateSelect(within, v, b_.constant(width, 0));
    }
    case Opcode::bfe: {
      if (!is_constant(2) || !is_constant(3)) break;
      Value* v = bits(o[1], width);
      const unsigned at = unsigned(o[2].bits & 0xff), count = unsigned(o[3].bits & 0xff);
      if (!v || at >= width || at + count > width || count == 0) break;
      if (!sign) return ir.CreateAnd(ir.CreateLShr(v, at), b_.constant(width, mask(count)));
      return ir.CreateAShr(ir.CreateShl(v, width - at - count), width - count);
    }
    case Opcode::bfi: {
      if (!is_constant(3) || !is_constant(4)) break;
      const unsigned at = unsigned(o[3].bits & 0xff), count = unsigned(o[4].bits & 0xff);
      if (at >= width || at + count > width) break;
      const std::uint64_t field = mask(count) << at;
      Value *inserted = bits(o[1], width), *into = bits(o[2], width);
      if (inserted) inserted = ir.CreateAnd(ir.CreateShl(inserted, at), b_.constant(width, field));
      if (into) into = ir.CreateAnd(into, b_.constant(width, ~field));
      return inserted && into ? ir.CreateOr(inserted, into) : inserted ? inserted : into;
    }
    case Opcode::prmt: {
      const bool generic = !i.has(Modifier::f4e) && !i.has(Modifier::b4e) && !i.has(Modifier::rc8) &&
                           !i.has(Modifier::ecl) && !i.has(Modifier::ecr) && !i.has(Modifier::rc16);
      if (!generic || !is_constant(3)) break;
      Value *low = bits(o[1], 32), *high = bits(o[2], 32);
      if (!low && !high) return nullptr;
      Value* both = b_.constant(64, 0);
      if (low) both = ir.CreateZExt(low, b_.i(64));
      if (high) both = ir.CreateOr(both, ir.CreateShl(ir.CreateZExt(high, b_.i(64)), 32));
      Value* all = b_.constant(32, 0);
      for (unsigned n = 0; n < 4; ++n) {
        const unsigned selector = unsigned(o[3].bits >> 4 * n & 15);
        Value* byte = ir.CreateTrunc(ir.CreateLShr(both, 8 * (selector & 7)), b_.i(8));
        if (selector & 8) byte = ir.CreateAShr(byte, 7); // its sign, eight times
        all = ir.CreateOr(all, ir.CreateShl(ir.CreateZExt(byte, b_.i(32)), 8 * n));
      }
      return all;
    }
    default: break;
  }
  return whole(i, width);
}

// selp takes one of its values; setp and set compare, and combine with a predicate.
Value* Undefined::compared(const ptx::Instruction& i) {
  auto& ir = b_.ir;
  const auto& o = i.operands;
  Value *x = any(o[1]), *y = any(o[2]);
  Value* either = x && y ? ir.CreateOr(x, y) : x ? x : y;
  const bool combined = i.has(Modifier::and_) || i.has(Modifier::or_);
  if (!either || !combined || o.size() < 4) {
    Value* third = o.size() > 3 ? any(o[3]) : nullptr;
    return either && third ? ir.CreateOr(either, third) : either ? either : third;
  }
  Value* c = b_.read_predicate(o[3]);
  Value* open = i.has(Modifier::and_) ? c : ir.CreateNot(c);
  Value* third = any(o[3]);
  if (!third) return ir.CreateAnd(either, open);
  return ir.CreateOr(ir.CreateAnd(either, open), third);
}

Value* Undefined::result(const ptx::Instruction& i) {
  auto& ir = b_.ir;
  const auto& o = i.operands;
  const unsigned width = i.type() == ptx::Type::pred ? 1 : std::max(ptx::bits(i.type()), 1u);
  switch (i.opcode) {
    case Opcode::mov: return bits(o[1], width);
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::not_:
    case Opcode::lop3: return bitwise(i, width);
    case Opcode::shl:
    case Opcode::shr:
    case Opcode::bfe:
    case Opcode::bfi:
    case Opcode::prmt: return extracted(i, width);
    case Opcode::selp: {
      Value *x = bits(o[1], width), *y = bits(o[2], width), *p = any(o[3]);
      Value* v = nullptr;
      if (x || y) {
        Value* none = b_.constant(width, 0);
        v = ir.CreateSelect(b_.read_predicate(o[3]), x ? x : none, y ? y : none);
      }
      if (!p) return v;
      Value* all = all_or_none(p, width);
      return v ? ir.CreateOr(v, all) : all;
    }
    case Opcode::setp: return compared(i);
    case Opcode::cvt: {
      if (undefined_flow(i) != UndefinedFlow::bits || i.types.size() < 2) return whole(i, width);
      const unsigned from = ptx::bits(i.types[1]);
      Value* v = bits(o[1], from);
      if (!v) return nullptr;
      return is_signed(i.types[1]) ? ir.CreateSExtOrTrunc(v, b_.i(width)) : ir.CreateZExtOrTrunc(v, b_.i(width));
    }
    default: break;
  }
  if (undefined_flow(i) == UndefinedFlow::halves) return halves(i);
  return whole(i, width);
}

} // namespace deadheat::engine
