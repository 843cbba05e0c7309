#include "tracer/ptx/flag_tests.h"

#include "tracer/ptx/operands.h"
#include "tracer/ptx/value_flow.h"
#include "tracer/ptx/value_types.h"

namespace deadheat::ptx {

namespace {

using Says = FlagTests::Says;

using Elements = FlagTests::Elements;

// Of one of two cases, it is not known which: nothing, but where there is only one.
Elements one_of(Elements a, Elements b) { return a == FlagTests::impossible ? b : b == FlagTests::impossible ? a : 0; }
// Of a value that may be the one or the other.
Says either(const Says& a, const Says& b) {
  return {a.from | b.from, one_of(a.zero, b.zero), one_of(a.other, b.other), 0, a.element == b.element ? a.element : 0};
}
// Of one that is zero where both are.
Says union_of(const Says& a, const Says& b) {
  return {a.from | b.from, a.zero | b.zero, one_of(a.other, b.other), a.zero_somewhere | b.zero_somewhere, 0};
}

bool is_zero(const Operand& operand) { return operand.kind == Operand::Kind::integer && operand.bits == 0; }
bool is_integer(Type type) { return type != Type::none && type != Type::pred && !is_float(type); }
bool widens(const Instruction& i) {
  return i.types.size() == 2 && is_integer(i.types[0]) && is_integer(i.types[1]) &&
         bits(i.types[0]) >= bits(i.types[1]);
}

} // namespace

RegisterSet FlagTests::by_lane(const Function& function) {
  std::vector<RegisterId> lanes;
  for (const Statement& statement : function.body) {
    const Instruction* i = statement.instruction();
    if (!i || i->opcode != Opcode::mov || i->operands.size() != 2 || i->operands[1].kind != Operand::Kind::special)
      continue;
    const std::string_view name = i->operands[1].text;
    if (!name.starts_with("%tid") && !name.starts_with("%laneid")) continue;
    for (const RegisterId r : register_use(*i).writes) lanes.push_back(r);
  }
  return ValueFlow(function).from(lanes, ValueFlow::Through::registers).registers;
}

FlagTests::Registers FlagTests::read(const Instruction& load) {
  Registers registers;
  Elements element = 1;
  for (const Operand& operand : load.operands[0].elements) {
    if (operand.kind == Operand::Kind::reg) registers[operand.reg] = {element, 0, 0, 0, element};
    element <<= 1;
  }
  return registers;
}

Says FlagTests::of(const Operand& operand, const Registers& registers) {
  if (operand.kind != Operand::Kind::reg) return {};
  const auto known = registers.find(operand.reg);
  if (known == registers.end()) return {};
  return operand.negated ? negation(known->second) : known->second;
}

bool FlagTests::awaited(Elements element, const Operand& operand, const Registers& registers) {
  if (!element) return false;
  const bool number = operand.kind == Operand::Kind::integer;
  if (!number && (operand.kind != Operand::Kind::reg || registers.count(operand.reg) || unsteady_.count(operand.reg)))
    return false;
  awaited_[element].insert({!number, number ? operand.bits : operand.reg});
  return true;
}

std::set<RegisterId> FlagTests::compared() const {
  std::set<RegisterId> found;
  for (const auto& [element, values] : awaited_)
    for (const auto& [is_register, value] : values)
      if (is_register) found.insert(RegisterId(value));
  return found;
}

FlagTests::Elements FlagTests::ambiguous() const {
  Elements found = 0;
  for (const auto& [element, values] : awaited_)
    if (values.size() > 1) found |= element;
  return found;
}

// Of one that is zero where either is.
Says FlagTests::both(const Operand& a, const Says& one, const Operand& b, const Says& other) const {
  Says says{one.from | other.from, one_of(one.zero, other.zero), one.other | other.other, 0, 0};
  if (lanes_differ_in(a, one) && other.zero != impossible) says.zero_somewhere |= other.zero | other.zero_somewhere;
  if (lanes_differ_in(b, other) && one.zero != impossible) says.zero_somewhere |= one.zero | one.zero_somewhere;
  return says;
}

// setp, its first result.
Says FlagTests::compare(const Instruction& i, const Registers& registers) {
  const Operand &a = i.operands[1], &b = i.operands[2];
  const Says left = of(a, registers), right = of(b, registers);
  Says says{left.from | right.from, 0, 0, 0, 0};
  if (is_integer(i.type()) && (i.has(Modifier::eq) || i.has(Modifier::ne))) {
    if (awaited(left.element, b, registers)) says.other |= left.element;
    if (awaited(right.element, a, registers)) says.other |= right.element;
    if (is_zero(b)) {
      says.other |= left.zero;
      says.zero |= left.other;
    }
    if (i.has(Modifier::ne)) says = negation(says);
    if (is_zero(b) && i.has(Modifier::ne)) says.zero_somewhere = left.zero_somewhere;
  }
  if (i.operands.size() < 4) return says;
  const Says with = of(i.operands[3], registers);
  if (i.has(Modifier::and_)) return both(i.operands[0], says, i.operands[3], with);
  if (i.has(Modifier::or_)) return union_of(says, with);
  return {says.from | with.from, 0, 0, 0, 0};
}

Says FlagTests::result(const Instruction& i, const Registers& registers) {
  Says says;
  for (const RegisterId r : register_use(i).reads)
    if (const auto known = registers.find(r); known != registers.end()) says.from |= known->second.from;
  const std::size_t operands = i.operands.size();
  const auto source = [&](std::size_t n) { return of(i.operands[n], registers); };
  switch (i.opcode) {
    case Opcode::setp: return operands >= 3 ? compare(i, registers) : says;
    case Opcode::or_: return operands == 3 ? union_of(source(1), source(2)) : says;
    case Opcode::and_: return operands == 3 ? both(i.operands[1], source(1), i.operands[2], source(2)) : says;
    case Opcode::not_: return operands == 2 && i.type() == Type::pred ? negation(source(1)) : says;
    case Opcode::mov: return operands == 2 && i.operands[1].kind == Operand::Kind::reg ? source(1) : says;
    case Opcode::cvt: return operands == 2 && widens(i) ? source(1) : says;
    case Opcode::sub:
    case Opcode::xor_: // zero where they are equal
      if (operands != 3 || !is_integer(i.type())) return says;
      if (awaited(source(1).element, i.operands[2], registers)) says.zero |= source(1).element;
      if (awaited(source(2).element, i.operands[1], registers)) says.zero |= source(2).element;
      return says;
    case Opcode::selp: {
      if (operands != 4) return says;
      const Operand &a = i.operands[1], &b = i.operands[2];
      if (!source(3).from) return either(source(1), source(2));
      if (a.kind != Operand::Kind::integer || b.kind != Operand::Kind::integer || is_zero(a) == is_zero(b)) return says;
      return is_zero(b) ? source(3) : negation(source(3));
    }
    case Opcode::vote: // of the lanes that wait together
      if (operands < 2) return says;
      if (i.has(Modifier::any) || i.has(Modifier::ballot)) says.zero = source(1).zero | source(1).zero_somewhere;
      if (i.has(Modifier::all)) says.other = source(1).other;
      return says;
    case Opcode::bar:
    case Opcode::barrier: // of the block's threads
      if (operands < 3 || !i.has(Modifier::red) || i.has(Modifier::popc)) return says;
      if (i.has(Modifier::or_)) says.zero = source(operands - 1).zero | source(operands - 1).zero_somewhere;
      if (i.has(Modifier::and_)) says.other = source(operands - 1).other;
      return says;
    case Opcode::shfl: // another lane's, of the same read
      if (operands >= 2) says.element = source(1).element;
      return says;
    default: return says;
  }
}

void FlagTests::execute(const Instruction& i, Registers& registers) {
  const RegisterUse use = register_use(i);
  if (use.writes.empty()) return;
  const Says first = result(i, registers);
  for (std::size_t n = 0; n < use.writes.size(); ++n) {
    const RegisterId r = use.writes[n];
    Says says = first;
    if (n > 0) // of setp with two operands what it is not
      says = i.opcode == Opcode::setp && i.operands.size() == 3 ? negation(first) : Says{first.from, 0, 0, 0, 0};
    if (i.guard) {
      const auto before = registers.find(r), guard = registers.find(i.guard->reg);
      says = either(says, before == registers.end() ? Says{} : before->second);
      if (guard != registers.end()) says.from |= guard->second.from;
    }
    if (says.from)
      registers[r] = says;
    else
      registers.erase(r);
  }
}

} // namespace deadheat::ptx
