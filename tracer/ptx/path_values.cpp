#include "tracer/ptx/path_values.h"

#include <algorithm>

#include "tracer/ptx/operands.h"

namespace deadheat::ptx {

namespace {

bool is_integer(Type type) { return type >= Type::b8 && type <= Type::s64; }

// The variable that an access names; empty: it goes through a register.
std::string_view variable_of(const Instruction& i) {
  for (const Operand& o : i.operands)
    if (o.kind == Operand::Kind::address && !o.elements.empty() && o.elements[0].kind == Operand::Kind::symbol)
      return o.elements[0].text;
  return {};
}

bool changes(std::string_view special) {
  return special.starts_with("%clock") || special.starts_with("%globaltimer") || special == "%smid" ||
         special == "%warpid";
}

} // namespace

PathValues::PathValues(const Function& function, const std::vector<RegisterId>& followed)
    : function_(function), place_(function.registers.size(), not_followed), followed_(followed) {
  for (std::uint32_t n = 0; n < followed.size(); ++n) place_[followed[n]] = n;
  for (const Statement& statement : function.body) {
    const Instruction* i = statement.instruction();
    if (i && (i->opcode == Opcode::st || i->opcode == Opcode::atom || i->opcode == Opcode::red ||
              i->opcode == Opcode::discard))
      written_.insert(variable_of(*i));
  }
  written_.erase(std::string_view());
}

bool PathValues::is_undetermined(const Instruction& i) const {
  using M = Modifier;
  switch (i.opcode) {
    case Opcode::unknown:
    case Opcode::atom:
    case Opcode::call:
    case Opcode::mbarrier:
    case Opcode::activemask:
    case Opcode::elect:
    case Opcode::addc:
    case Opcode::subc:
    case Opcode::madc: return true;
    case Opcode::ld:
      return i.has(M::volatile_) || i.has(M::relaxed) || i.has(M::acquire) || i.has(M::mmio) ||
             written_.count(variable_of(i));
    default: return false;
  }
}

PathValues::Registers PathValues::initial() {
  Registers registers;
  for (const RegisterId r : followed_) registers.push_back(number({of_register, r}, {}));
  return registers;
}

void PathValues::execute(std::uint32_t statement, unsigned lap, unsigned choice, Registers& registers) {
  const Instruction& i = *function_.body[statement].instruction();
  const std::vector<RegisterId> writes = register_use(i).writes;
  if (std::none_of(writes.begin(), writes.end(), [&](RegisterId r) { return follows(r); })) return;
  const Value all = result(i, statement, lap, choice, registers);
  for (std::size_t n = 0; n < writes.size(); ++n) {
    if (!follows(writes[n])) continue;
    registers[place_[writes[n]]] = writes.size() == 1 ? all : number({part, n}, {all});
  }
}

void PathValues::read(std::uint32_t statement, Registers& registers) {
  const std::vector<RegisterId> writes = register_use(*function_.body[statement].instruction()).writes;
  for (std::size_t n = 0; n < writes.size(); ++n)
    if (follows(writes[n])) registers[place_[writes[n]]] = number({of_read, statement, n}, {});
}

PathValues::Value PathValues::address(std::uint32_t statement, const Registers& registers) {
  for (const Operand& o : function_.body[statement].instruction()->operands)
    if (o.kind == Operand::Kind::address) return operand(o, registers, statement, 0);
  return number({fresh, statement, 0}, {});
}

void PathValues::widen(Registers& registers, const Registers& other) {
  for (std::size_t n = 0; n < registers.size(); ++n)
    if (registers[n] != other[n]) registers[n] = number({unknown}, {});
}

PathValues::Value PathValues::number(std::vector<std::uint64_t> key, const std::vector<Value>& operands) {
  Known known;
  known.depends_on_read = key[0] == of_read;
  if (key[0] == unknown) known.depth = deepest + 1;
  for (const Value v : operands) {
    known.depends_on_read |= known_[v].depends_on_read;
    known.depth = std::max(known.depth, known_[v].depth + 1);
  }
  if (known.depth > deepest && key[0] != unknown) return number({unknown}, {});
  key.insert(key.end(), operands.begin(), operands.end());
  const auto [at, added] = numbers_.try_emplace(std::move(key), Value(known_.size()));
  if (added) {
    known.base = at->second;
    known_.push_back(known);
    if (at->first[0] == constant) constants_[at->second] = at->first[1];
  }
  return at->second;
}

PathValues::Value PathValues::plus(Value v, std::int64_t offset) {
  if (std::uint64_t bits; is_constant(v, bits)) return constant_of(bits + std::uint64_t(offset));
  const Value base = known_[v].base;
  const auto all = std::int64_t(std::uint64_t(known_[v].offset) + std::uint64_t(offset));
  if (all == 0) return base;
  const unsigned depth = known_[v].depth + 1; // each turn of a loop adds something
  if (depth > deepest) return number({unknown}, {});
  const std::size_t before = known_.size();
  const Value made = number({sum, std::uint64_t(all)}, {base});
  if (made == before) {
    known_[made].base = base;
    known_[made].offset = all;
    known_[made].depth = depth;
  }
  return made;
}

bool PathValues::is_constant(Value v, std::uint64_t& bits) const {
  const auto found = constants_.find(v);
  if (found == constants_.end()) return false;
  bits = found->second;
  return true;
}

std::uint64_t PathValues::text_number(std::string_view text) {
  if (const auto found = texts_.find(text); found != texts_.end()) return found->second;
  return texts_.emplace(std::string(text), texts_.size()).first->second;
}

PathValues::Value PathValues::operand(const Operand& o, const Registers& registers, std::uint32_t statement,
                                      unsigned lap) {
  using K = Operand::Kind;
  Value value = 0;
  switch (o.kind) {
    case K::reg: value = follows(o.reg) ? registers[place_[o.reg]] : number({of_register, o.reg}, {}); break;
    case K::integer: value = constant_of(o.bits); break;
    case K::special:
      value = changes(o.text) ? number({fresh, statement, lap}, {}) : number({text, text_number(o.text)}, {});
      break;
    case K::symbol: value = plus(number({text, text_number(o.text)}, {}), o.offset); break;
    case K::f32:
    case K::f64: value = number({floating, o.bits, std::uint64_t(o.kind)}, {}); break;
    case K::address:
    case K::vector:
    case K::pair:
    case K::list: {
      std::vector<Value> elements;
      for (const Operand& element : o.elements) elements.push_back(operand(element, registers, statement, lap));
      value = elements.size() == 1 ? elements[0] : number({group, std::uint64_t(o.kind)}, elements);
      if (o.kind == K::address) value = plus(value, o.offset);
      break;
    }
    default: value = number({text, text_number(o.text)}, {}); break;
  }
  return o.negated ? number({negation}, {value}) : value;
}

PathValues::Value PathValues::result(const Instruction& i, std::uint32_t statement, unsigned lap, unsigned choice,
                                     const Registers& registers) {
  if (is_undetermined(i)) return number({fresh, statement, lap}, {});
  const std::size_t from = destination_count(i);
  std::vector<Value> operands;
  for (std::size_t n = from; n < i.operands.size(); ++n)
    operands.push_back(operand(i.operands[n], registers, statement, lap));
  if (reads_destination(i)) operands.push_back(operand(i.operands[0], registers, statement, lap));
  if (i.opcode == Opcode::selp && operands.size() == 3) return operands[choice];
  const bool one = operands.size() == 1;
  if (one && (i.opcode == Opcode::mov || i.opcode == Opcode::cvta) && i.types.size() == 1) return operands[0];
  if (operands.size() == 2 && i.modifiers.empty() && is_integer(i.type())) {
    std::uint64_t bits = 0;
    if (i.opcode == Opcode::add && is_constant(operands[1], bits)) return plus(operands[0], std::int64_t(bits));
    if (i.opcode == Opcode::add && is_constant(operands[0], bits)) return plus(operands[1], std::int64_t(bits));
    if (i.opcode == Opcode::sub && is_constant(operands[1], bits)) return plus(operands[0], -std::int64_t(bits));
  }
  const auto [opcode, added] = opcodes_.try_emplace(statement, 0);
  if (added) opcode->second = text_number(i.full_opcode());
  return number({operation, opcode->second, operands.size()}, operands);
}

} // namespace deadheat::ptx
