#include "replay/engine/precision_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tracer/ptx/operands.h"

namespace deadheat::engine {

using ptx::Instruction;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

FloatKind float_kind(Type type) {
  switch (type) {
    case Type::f16:
    case Type::f16x2: return FloatKind::f16;
    case Type::bf16:
    case Type::bf16x2: return FloatKind::bf16;
    case Type::tf32:
    case Type::f32:
    case Type::f32x2: return FloatKind::f32;
    case Type::f64: return FloatKind::f64;
    default: return FloatKind::none;
  }
}

namespace {

bool is_pair(Type type) { return type == Type::f16x2 || type == Type::bf16x2 || type == Type::f32x2; }
bool is_integer(Type type) {
  return (type >= Type::b8 && type <= Type::b64) || (type >= Type::u8 && type <= Type::s64);
}
bool is_matrix(Opcode opcode) {
  return opcode == Opcode::mma || opcode == Opcode::wmma || opcode == Opcode::ldmatrix || opcode == Opcode::stmatrix ||
         opcode == Opcode::movmatrix;
}
bool is_signed_integer(Type type) { return type >= Type::s8 && type <= Type::s64; }

struct Line {
  Opcode opcode;
  ShadowOp op;
};
constexpr Line arithmetic[] = {
    {Opcode::add, ShadowOp::add},   {Opcode::sub, ShadowOp::sub},     {Opcode::mul, ShadowOp::mul},
    {Opcode::div, ShadowOp::div},   {Opcode::fma, ShadowOp::fma},     {Opcode::mad, ShadowOp::fma},
    {Opcode::min, ShadowOp::min},   {Opcode::max, ShadowOp::max},     {Opcode::neg, ShadowOp::neg},
    {Opcode::abs, ShadowOp::abs},   {Opcode::rcp, ShadowOp::rcp},     {Opcode::copysign, ShadowOp::copysign},
    {Opcode::sqrt, ShadowOp::sqrt}, {Opcode::rsqrt, ShadowOp::rsqrt}, {Opcode::ex2, ShadowOp::ex2},
    {Opcode::lg2, ShadowOp::lg2},   {Opcode::sin, ShadowOp::sin},     {Opcode::cos, ShadowOp::cos},
    {Opcode::tanh, ShadowOp::tanh},
};

// Adding 1.5 * 2^23 and taking it away again is how fast code rounds to an integer, whose bits it then uses.
bool leaves_no_fraction(const Operand& o, FloatKind kind) {
  if (o.kind != Operand::Kind::f32 && o.kind != Operand::Kind::f64 && o.kind != Operand::Kind::integer) return false;
  const FloatKind written = o.kind == Operand::Kind::f32   ? FloatKind::f32
                            : o.kind == Operand::Kind::f64 ? FloatKind::f64
                                                           : kind;
  const double value = widened(written, o.bits);
  return value - value == 0 && ulp_of(kind, value) >= 1;
}

ShadowUse use_of(const Instruction& i, ShadowStep step, const Operand& to, std::size_t first, std::size_t count,
                 unsigned bits) {
  ShadowUse use{step, &to, {}};
  for (std::size_t n = first; n < first + count && n < i.operands.size(); ++n)
    use.from.push_back({&i.operands[n], bits});
  use.step.sources = std::uint8_t(use.from.size());
  return use;
}

bool is_directed(const Instruction& i) { return i.has(Modifier::rz) || i.has(Modifier::rm) || i.has(Modifier::rp); }

ShadowUse arithmetic_use(const Instruction& i, ShadowOp op) {
  ShadowStep step;
  step.op = op;
  step.to = float_kind(i.types[0]);
  step.from = i.types.size() > 1 ? float_kind(i.types[1]) : step.to;
  step.mixed = step.from != step.to;
  step.lanes = is_pair(i.types[0]) ? 2 : 1;
  step.saturate = i.has(Modifier::sat);
  step.relu = i.has(Modifier::relu);
  step.propagate_nan = i.has(Modifier::nan) || i.has(Modifier::NaN);
  step.xorsign = i.has(Modifier::xorsign);
  step.directed = is_directed(i);
  step.absolute = (op == ShadowOp::min || op == ShadowOp::max) && i.has(Modifier::abs);
  ShadowUse use = use_of(i, step, i.operands[0], 1, most_shadow_sources, ptx::bits(i.types[0]));
  if (step.mixed)
    for (std::size_t n = 0; n + 1 < use.from.size(); ++n) use.from[n].bits = ptx::bits(i.types[1]);
  return use;
}

// Everything else: counted, unless it decides something by the value (a comparison, a rounding to an integer).
ShadowUse restart(const Instruction& i, const Operand& to, bool counts) {
  ShadowStep step;
  step.counts = counts;
  return use_of(i, step, to, 1, counts ? most_shadow_sources : 0, 64);
}

ShadowUse conversion(const Instruction& i) {
  const Operand& to = i.operands[0];
  if (i.types.size() < 2 || i.operands.size() < 2 || i.has(Modifier::pack)) return restart(i, to, true);
  const Type into = i.types[0], from = i.types[1];
  ShadowStep step;
  step.to = float_kind(into);
  step.from = float_kind(from);
  step.saturate = i.has(Modifier::sat);
  step.relu = i.has(Modifier::relu);
  step.directed = is_directed(i);
  if (is_pair(into) && from == Type::f32 && i.operands.size() > 2) {
    step.op = ShadowOp::convert;
    step.lanes = 2;
    step.crossed = true;
    return use_of(i, step, to, 1, 2, 32);
  }
  if (is_pair(into) || is_pair(from)) return restart(i, to, true);
  if (step.to != FloatKind::none && step.from != FloatKind::none) {
    for (Modifier m : {Modifier::rni, Modifier::rzi, Modifier::rmi, Modifier::rpi})
      if (i.has(m)) return restart(i, to, false);
    step.op = ShadowOp::convert;
    return use_of(i, step, to, 1, 1, ptx::bits(from));
  }
  if (step.to != FloatKind::none && is_integer(from)) {
    step.op = is_signed_integer(from) ? ShadowOp::from_signed : ShadowOp::from_unsigned;
    step.width = std::uint8_t(ptx::bits(from));
    return use_of(i, step, to, 1, 1, ptx::bits(from));
  }
  if (is_integer(into) && is_integer(from)) {
    const unsigned width = std::min(ptx::bits(into), ptx::bits(from));
    const bool extends = ptx::bits(into) > ptx::bits(from) && is_signed_integer(from);
    if (extends || i.has(Modifier::sat) || width < 16) return restart(i, to, true);
    step.op = ShadowOp::part;
    step.width = std::uint8_t(width);
    return use_of(i, step, to, 1, 1, ptx::bits(from));
  }
  return restart(i, to, !is_integer(into)); // to an integer: a decision
}

std::vector<ShadowUse> moves(const Instruction& i) {
  std::vector<ShadowUse> uses;
  const Operand &to = i.operands[0], &from = i.operands[1];
  const unsigned width = ptx::bits(i.type());
  ShadowStep step;
  step.op = ShadowOp::copy;
  if (to.kind == Operand::Kind::vector) {
    const unsigned each = to.elements.empty() ? 0 : width / unsigned(to.elements.size());
    for (std::size_t n = 0; n < to.elements.size(); ++n) {
      if (to.elements[n].kind != Operand::Kind::reg) continue;
      ShadowUse use{step, &to.elements[n], {}};
      if (from.kind == Operand::Kind::vector && n < from.elements.size()) {
        use.from.push_back({&from.elements[n], width});
      } else {
        use.step.op = ShadowOp::part;
        use.step.width = std::uint8_t(each);
        use.step.at = std::uint8_t(each * n);
        use.from.push_back({&from, width});
      }
      use.step.sources = 1;
      uses.push_back(std::move(use));
    }
    return uses;
  }
  if (to.kind != Operand::Kind::reg) return uses;
  if (from.kind == Operand::Kind::vector && !from.elements.empty()) {
    const unsigned each = width / unsigned(from.elements.size());
    ShadowUse use{step, &to, {}};
    use.step.op = ShadowOp::pack;
    use.step.width = std::uint8_t(each);
    for (const Operand& element : from.elements)
      if (use.from.size() < most_shadow_sources) use.from.push_back({&element, each});
    use.step.sources = std::uint8_t(use.from.size());
    uses.push_back(std::move(use));
  } else {
    uses.push_back(use_of(i, step, to, 1, 1, width));
  }
  return uses;
}

// Logic, shifts and permutations of bits.
const ShadowUse* bits_use(const Instruction& i, ShadowUse& use) {
  ShadowStep step;
  const unsigned width = ptx::bits(i.type());
  switch (i.opcode) {
    case Opcode::and_: step.op = ShadowOp::logic_and; break;
    case Opcode::or_: step.op = ShadowOp::logic_or; break;
    case Opcode::xor_: step.op = ShadowOp::logic_xor; break;
    case Opcode::shl: step.op = ShadowOp::shift_left; break;
    case Opcode::shr:
      if (is_signed_integer(i.type())) return nullptr;
      step.op = ShadowOp::shift_right;
      break;
    case Opcode::prmt:
      for (Modifier m : {Modifier::f4e, Modifier::b4e, Modifier::rc8, Modifier::ecl, Modifier::ecr, Modifier::rc16})
        if (i.has(m)) return nullptr;
      step.op = ShadowOp::permute;
      break;
    default: return nullptr;
  }
  if (width < 16 || width > 64 || i.type() == Type::pred) return nullptr;
  step.width = std::uint8_t(width);
  use = use_of(i, step, i.operands[0], 1, 3, width);
  return &use;
}

} // namespace

bool moves_shadows(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::ld:
    case Opcode::ldu:
    case Opcode::st:
    case Opcode::atom:
    case Opcode::red:
    case Opcode::shfl:
    case Opcode::mma:
    case Opcode::wmma:
    case Opcode::ldmatrix:
    case Opcode::stmatrix:
    case Opcode::movmatrix:
    case Opcode::call: return true;
    default: return false;
  }
}

std::vector<ShadowUse> shadow_uses(const Instruction& i) {
  if (moves_shadows(i) || ptx::destination_count(i) == 0) return {};
  const Operand& to = i.operands[0];
  const bool floats = !i.types.empty() && float_kind(i.types[0]) != FloatKind::none;
  if (to.kind == Operand::Kind::reg && floats)
    for (const Line& line : arithmetic)
      if (line.opcode == i.opcode) return {arithmetic_use(i, line.op)};
  if (i.opcode == Opcode::mov && i.operands.size() > 1) return moves(i);
  if (to.kind == Operand::Kind::reg) {
    if (i.opcode == Opcode::cvt) return {conversion(i)};
    if (i.opcode == Opcode::selp && i.operands.size() > 3) {
      ShadowStep step;
      step.op = ShadowOp::select;
      return {use_of(i, step, to, 1, 3, ptx::bits(i.type()))};
    }
    ShadowUse use;
    if (bits_use(i, use)) return {use};
  }
  std::vector<ShadowUse> all;
  const bool decides = i.opcode == Opcode::set || i.opcode == Opcode::setp || i.opcode == Opcode::testp;
  auto each = [&](const auto& self, const Operand& o) -> void {
    if (o.kind == Operand::Kind::reg) all.push_back(restart(i, o, !decides));
    for (const Operand& element : o.elements) self(self, element);
  };
  each(each, to);
  return all;
}

std::vector<const Operand*> constant_registers(const ptx::Function& function) {
  std::vector<const Operand*> constants(function.registers.size(), nullptr);
  std::vector<bool> written(function.registers.size(), false);
  ptx::RegisterUse registers;
  for (const ptx::Statement& statement : function.body) {
    const Instruction* i = statement.instruction();
    if (!i) continue;
    ptx::register_use(*i, registers);
    const bool constant = i->opcode == Opcode::mov && !i->guard && i->operands.size() == 2 &&
                          i->operands[0].kind == Operand::Kind::reg &&
                          (i->operands[1].kind == Operand::Kind::f32 || i->operands[1].kind == Operand::Kind::f64 ||
                           i->operands[1].kind == Operand::Kind::integer);
    for (const ptx::RegisterId r : registers.writes) {
      constants[r] = constant && !written[r] ? &i->operands[1] : nullptr;
      written[r] = true;
    }
  }
  return constants;
}

void note_constants(ShadowUse& use, const std::vector<const Operand*>& constants) {
  const ShadowOp op = use.step.op;
  if (op != ShadowOp::add && op != ShadowOp::sub && op != ShadowOp::fma) return;
  for (std::size_t n = op == ShadowOp::fma ? 2 : 0; n < use.from.size(); ++n) {
    const Operand* o = use.from[n].operand;
    if (o->kind == Operand::Kind::reg) o = constants[o->reg];
    use.step.rounds |= o && leaves_no_fraction(*o, use.step.to);
  }
}

ShadowStep atomic_step(const Instruction& i) {
  ShadowStep step;
  step.to = step.from = float_kind(i.type());
  step.lanes = is_pair(i.type()) ? 2 : 1;
  step.width = std::uint8_t(ptx::bits(i.type()));
  step.sources = 2;
  const bool floats = step.to != FloatKind::none;
  if (i.has(Modifier::exch))
    step.op = ShadowOp::copy;
  else if (i.has(Modifier::cas))
    step.op = ShadowOp::select;
  else if (floats && i.has(Modifier::add))
    step.op = ShadowOp::add;
  else if (floats && i.has(Modifier::min))
    step.op = ShadowOp::min;
  else if (floats && i.has(Modifier::max))
    step.op = ShadowOp::max;
  return step;
}

std::vector<bool> plan_precision(const ptx::Function& function) {
  std::vector<bool> may(function.registers.size(), false), wanted = may;
  auto carries = [&](ptx::RegisterId r) {
    const Type type = function.registers[r].type;
    return type != Type::pred && ptx::bits(type) >= 16 && ptx::bits(type) <= 64;
  };
  bool changed = true;
  auto raise = [&](std::vector<bool>& set, const Operand& o, const auto& self) -> void {
    if (o.kind == Operand::Kind::reg && carries(o.reg) && !set[o.reg]) set[o.reg] = changed = true;
    if (o.kind != Operand::Kind::address)
      for (const Operand& element : o.elements) self(set, element, self);
  };
  auto any = [&](const std::vector<bool>& set, const Operand& o, const auto& self) -> bool {
    if (o.kind == Operand::Kind::reg && set[o.reg]) return true;
    return o.kind != Operand::Kind::address &&
           std::any_of(o.elements.begin(), o.elements.end(), [&](const Operand& e) { return self(set, e, self); });
  };
  struct Known {
    const Instruction* instruction;
    std::vector<ShadowUse> uses;
  };
  std::vector<Known> all;
  for (const ptx::Statement& statement : function.body)
    if (const Instruction* i = statement.instruction(); i && !i->operands.empty()) all.push_back({i, shadow_uses(*i)});
  while (std::exchange(changed, false))
    for (const Known& known : all) {
      const Instruction& i = *known.instruction;
      for (const ShadowUse& use : known.uses) {
        const bool makes = use.step.to != FloatKind::none;
        const bool moved = use.step.op != ShadowOp::restart &&
                           std::any_of(use.from.begin(), use.from.end(),
                                       [&](const ShadowUse::Source& s) { return any(may, *s.operand, any); });
        if (makes || moved) raise(may, *use.to, raise);
      }
      const bool kernel_parameter =
          function.entry && (i.has(Modifier::param) || i.has(Modifier::param_entry)); // nobody stores there
      const bool loads = (i.opcode == Opcode::ld || i.opcode == Opcode::ldu) && !i.has(Modifier::const_);
      if ((loads &&
           !(kernel_parameter && i.operands[1].kind == Operand::Kind::address &&
             i.operands[1].elements[0].kind == Operand::Kind::symbol && i.operands[1].elements[0].variable < 0)) ||
          i.opcode == Opcode::atom || i.opcode == Opcode::call || is_matrix(i.opcode))
        raise(may, i.operands[0], raise);
      if (i.opcode == Opcode::shfl && any(may, i.operands[1], any)) raise(may, i.operands[0], raise);
    }
  changed = true;
  while (std::exchange(changed, false))
    for (const Known& known : all) {
      const Instruction& i = *known.instruction;
      for (const ShadowUse& use : known.uses)
        if (use.step.op != ShadowOp::restart && any(wanted, *use.to, any))
          for (const ShadowUse::Source& s : use.from) raise(wanted, *s.operand, raise);
      switch (i.opcode) {
        case Opcode::st:
        case Opcode::red:
        case Opcode::atom:
        case Opcode::call:
          for (std::size_t n = i.opcode == Opcode::atom || i.opcode == Opcode::call ? 1 : 0; n < i.operands.size(); ++n)
            raise(wanted, i.operands[n], raise);
          break;
        case Opcode::shfl:
          if (any(wanted, i.operands[0], any)) raise(wanted, i.operands[1], raise);
          break;
        default:
          if (is_matrix(i.opcode))
            for (std::size_t n = ptx::destination_count(i); n < i.operands.size(); ++n)
              raise(wanted, i.operands[n], raise);
          break;
      }
    }
  for (std::size_t r = 0; r < may.size(); ++r) wanted[r] = wanted[r] && may[r];
  return wanted;
}

} // namespace deadheat::engine
