#include "tracer/ptx/value_types.h"

#include <algorithm>
#include <array>
#include <utility>

namespace deadheat::ptx {
namespace {

bool is_integer(Type type) { return type >= Type::u8 && type <= Type::s64; }

Type packed(Type type) {  // two of it in a register
  switch (type) {
    case Type::f16: return Type::f16x2;
    case Type::bf16: return Type::bf16x2;
    case Type::f32: return Type::f32x2;
    default: return Type::none;
  }
}
Type half_of(Type type) {
  switch (type) {
    case Type::f16x2: return Type::f16;
    case Type::bf16x2: return Type::bf16;
    case Type::f32x2: return Type::f32;
    default: return Type::none;
  }
}

// How an opcode's types apply to its operands.
enum class Typing : std::uint8_t {
  none,
  uniform,  // every operand has the first type
  move,     // operands hold one value: connected; the first type votes
  select,   // the same, without the last operand (a predicate)
  convert,  // result first type, sources second
  compare,  // result a predicate, sources first type
  set,      // result first type, sources second
  load,     // first operand has the first type
  store,    // second operand has the first type
  atomic,   // every register outside the address has the first type, connected
  shuffle,  // first two operands connected, first type votes
  matrix    // fragments d, a, b, c with the types in that order
};
struct TypingRow {
  Opcode opcode;
  Typing typing;
};
constexpr TypingRow typing_rows[] = {
    {Opcode::abs, Typing::uniform},      {Opcode::add, Typing::uniform},   {Opcode::atom, Typing::atomic},
    {Opcode::copysign, Typing::uniform}, {Opcode::cos, Typing::uniform},   {Opcode::cvt, Typing::convert},
    {Opcode::div, Typing::uniform},      {Opcode::ex2, Typing::uniform},   {Opcode::fma, Typing::uniform},
    {Opcode::ld, Typing::load},          {Opcode::ldu, Typing::load},      {Opcode::lg2, Typing::uniform},
    {Opcode::mad, Typing::uniform},      {Opcode::max, Typing::uniform},   {Opcode::min, Typing::uniform},
    {Opcode::mma, Typing::matrix},       {Opcode::mov, Typing::move},      {Opcode::mul, Typing::uniform},
    {Opcode::neg, Typing::uniform},      {Opcode::rcp, Typing::uniform},   {Opcode::red, Typing::atomic},
    {Opcode::rem, Typing::uniform},      {Opcode::rsqrt, Typing::uniform}, {Opcode::selp, Typing::select},
    {Opcode::set, Typing::set},          {Opcode::setp, Typing::compare},  {Opcode::shfl, Typing::shuffle},
    {Opcode::sin, Typing::uniform},      {Opcode::sqrt, Typing::uniform},  {Opcode::st, Typing::store},
    {Opcode::sub, Typing::uniform},      {Opcode::tanh, Typing::uniform},  {Opcode::wgmma, Typing::matrix},
    {Opcode::wmma, Typing::matrix},
};

Typing typing_of(Opcode opcode) {
  static const auto table = [] {
    std::array<Typing, 1024> by_opcode;
    by_opcode.fill(Typing::none);
    for (const TypingRow& row : typing_rows) by_opcode[std::size_t(row.opcode)] = row.typing;
    return by_opcode;
  }();
  return table[std::size_t(opcode)];
}

}  // namespace

bool is_float(Type type) { return type >= Type::f16 && type <= Type::f64; }

RegisterId ValueTypes::find(RegisterId r) const {
  while (parent_[r] != r) {
    parent_[r] = parent_[parent_[r]];
    r = parent_[r];
  }
  return r;
}

void ValueTypes::unite(const Operand& a, const Operand& b) {
  if (a.kind != Operand::Kind::reg || b.kind != Operand::Kind::reg) return;
  RegisterId x = find(a.reg), y = find(b.reg);
  if (x == y) return;
  parent_[y] = x;
  Votes moved = std::exchange(votes_[y], Votes{});
  vote(x, moved.floating);
  vote(x, moved.integer);
  votes_[x].floats_differ |= moved.floats_differ;
  votes_[x].integers_differ |= moved.integers_differ;
}

void ValueTypes::vote(RegisterId r, Type type) {
  Votes& votes = votes_[find(r)];
  if (is_float(type)) {
    votes.floats_differ |= votes.floating != Type::none && votes.floating != type;
    votes.floating = type;
  } else if (is_integer(type)) {
    votes.integers_differ |= votes.integer != Type::none && votes.integer != type;
    votes.integer = type;
  }
}

void ValueTypes::vote(const Operand& operand, Type type) {
  if (operand.kind == Operand::Kind::reg) vote(operand.reg, type);
  if (operand.kind == Operand::Kind::address) return;
  for (const Operand& element : operand.elements) vote(element, type);
}

void ValueTypes::vote_fragment(const Operand& operand, Type type) {
  if (type == Type::tf32) type = Type::f32;
  vote(operand, bits(type) == 16 ? packed(type) : is_float(type) ? type : Type::none);
}

void ValueTypes::visit_packing(const Instruction& i) {
  const Operand* vector = nullptr;
  const Operand* whole = nullptr;
  for (const Operand& operand : i.operands) {
    if (operand.kind == Operand::Kind::vector && operand.elements.size() == 2) vector = &operand;
    if (operand.kind == Operand::Kind::reg) whole = &operand;
  }
  if (!vector || !whole) return;
  const Operand& low = vector->elements[0];
  const Operand& high = vector->elements[1];
  bool low_zero = low.kind == Operand::Kind::integer && low.bits == 0;
  if (high.kind != Operand::Kind::reg && low.kind != Operand::Kind::reg) return;
  Packing packing;
  packing.whole = whole->reg;
  packing.low = low.kind == Operand::Kind::reg ? low.reg : high.reg;
  packing.high = high.kind == Operand::Kind::reg ? high.reg : low.reg;
  packing.low_is_zero = low_zero;
  packings_.push_back(packing);
}

void ValueTypes::visit(const Instruction& i) {
  const std::vector<Operand>& o = i.operands;
  Type first = i.type();
  switch (typing_of(i.opcode)) {
    case Typing::none: break;
    case Typing::uniform:
      if (i.has(Modifier::wide)) break;  // the result is wider
      for (const Operand& operand : o) vote(operand, first);
      break;
    case Typing::move:
      if (o.size() != 2) break;
      if (o[0].kind == Operand::Kind::vector || o[1].kind == Operand::Kind::vector) {
        visit_packing(i);
        break;
      }
      unite(o[0], o[1]);
      vote(o[0], is_float(first) ? first : Type::none);
      break;
    case Typing::select:
      if (o.size() != 4) break;
      unite(o[0], o[1]);
      unite(o[0], o[2]);
      vote(o[0], is_float(first) ? first : Type::none);
      break;
    case Typing::convert:
    case Typing::set:
      if (i.types.size() < 2 || o.empty()) break;
      vote(o[0], first);
      for (std::size_t k = 1; k < o.size(); ++k) vote(o[k], i.types[1]);
      break;
    case Typing::compare:
      for (std::size_t k = 1; k < o.size() && k < 3; ++k) vote(o[k], first);
      break;
    case Typing::load:
      if (!o.empty() && is_float(first)) vote(o[0], first);
      break;
    case Typing::store:
      if (o.size() > 1 && is_float(first)) vote(o[1], first);
      break;
    case Typing::atomic:
      for (const Operand& operand : o) {
        if (operand.kind == Operand::Kind::address) continue;
        vote(operand, first);
        if (o[0].kind == Operand::Kind::reg) unite(o[0], operand);
      }
      break;
    case Typing::shuffle:
      if (o.size() < 2) break;
      unite(o[0].kind == Operand::Kind::pair ? o[0].elements[0] : o[0], o[1]);
      break;
    case Typing::matrix: {
      bool whole = i.types.size() >= 4 && o.size() >= 4;  // d, a, b, c
      if (i.has(Modifier::load) && !o.empty()) vote_fragment(o[0], first);
      if (i.has(Modifier::store) && o.size() > 1) vote_fragment(o[1], first);
      if (i.has(Modifier::load) || i.has(Modifier::store)) break;
      if (i.opcode == Opcode::wgmma) {
        if (i.has(Modifier::mma_async) && !o.empty()) vote_fragment(o[0], first);
      } else if (whole) {
        for (std::size_t k = 0; k < 4; ++k) vote_fragment(o[k], i.types[k]);
      } else if (i.types.size() == 2 && o.size() >= 4) {  // wmma.mma of f16: types of d and c
        vote_fragment(o[0], i.types[0]);
        vote_fragment(o[1], Type::f16);
        vote_fragment(o[2], Type::f16);
        vote_fragment(o[3], i.types[1]);
      }
      break;
    }
  }
}

// Between a register and its halves: {f16, f16} is f16x2 and the other way round; {0, x} that is an f32 has a bf16 in x
// (the widening of cuda_bf16.hpp).
bool ValueTypes::spread(const Packing& packing) {
  Type whole = of(packing.whole), low = of(packing.low), high = of(packing.high);
  if (packing.low_is_zero) {
    if (whole != Type::f32 || is_float(high)) return false;
    vote(packing.high, Type::bf16);
    return true;
  }
  bool changed = false;
  if (!is_float(whole)) {
    Type pair = packed(is_float(low) ? low : high);
    bool agree = !is_float(low) || !is_float(high) || low == high;
    if (pair != Type::none && agree && !votes_[find(packing.whole)].floats_differ) {
      vote(packing.whole, pair);
      changed = true;
    }
  } else if (Type half = half_of(whole); half != Type::none) {
    for (RegisterId r : {packing.low, packing.high}) {
      if (is_float(of(r)) || votes_[find(r)].floats_differ) continue;
      vote(r, half);
      changed = true;
    }
  }
  return changed;
}

ValueTypes::ValueTypes(const Function& function) {
  parent_.resize(function.registers.size());
  for (RegisterId r = 0; r < parent_.size(); ++r) parent_[r] = r;
  votes_.resize(parent_.size());
  for (RegisterId r = 0; r < parent_.size(); ++r) {
    if (is_float(function.registers[r].type)) vote(r, function.registers[r].type);
  }
  for (const Statement& statement : function.body) {
    if (const Instruction* i = statement.instruction()) visit(*i);
  }
  bool changed = true;
  for (int round = 0; round < 4 && changed; ++round) {
    changed = false;
    for (const Packing& packing : packings_) changed |= spread(packing);
  }
}

Type ValueTypes::of(RegisterId r) const {
  const Votes& votes = votes_[find(r)];
  if (votes.floating != Type::none) return votes.floats_differ ? Type::none : votes.floating;
  return votes.integers_differ ? Type::none : votes.integer;
}

} // namespace deadheat::ptx
