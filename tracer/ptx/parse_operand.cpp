// Operands (PTX ISA 6).
#include "tracer/ptx/parser.h"

namespace deadheat::ptx {

// Labels are operands of control flow only; elsewhere the same spelling is a symbol.
bool Parser::is_label_operand(const Instruction& instruction) const {
  if (instruction.opcode == Opcode::bra) return instruction.operands.empty();
  return instruction.opcode == Opcode::brx && instruction.operands.size() == 1;
}

bool Parser::parse_operand(Operand& operand, const Instruction& instruction, int depth) {
  using Kind = Operand::Kind;
  if (depth > max_list_depth) return fail("a less deeply nested operand");
  std::size_t first = next_;
  const Lexeme& lexeme = peek();
  if (lexeme.kind == Lexeme::Kind::identifier && depth == 0 && is_label_operand(instruction)) {
    operand.kind = Kind::label;
    operand.text = word();
    ++next_;
    return true;
  }
  if (at('{')) {
    operand.kind = Kind::vector;
    if (!parse_operand_list(operand, '}', instruction, depth)) return false;
  } else if (at('[')) {
    operand.kind = Kind::address;
    if (!parse_address(operand, instruction, depth)) return false;
  } else if (at('(') && instruction.opcode == Opcode::call) {
    operand.kind = Kind::list;
    if (!parse_operand_list(operand, ')', instruction, depth)) return false;
  } else if (lexeme.kind == Lexeme::Kind::identifier && !at_word("WARP_SZ")) {
    if (!parse_name(operand)) return false;
  } else if ((at('!') || at('-')) && at(Lexeme::Kind::identifier, 1) && word(1) != "WARP_SZ") {
    ++next_;
    if (!parse_name(operand)) return false;
    operand.negated = true;
  } else if (lexeme.kind == Lexeme::Kind::number || at('(') || at('-') || at('+') || at('~') || at('!') ||
             at_word("WARP_SZ")) {
    Constant constant;
    if (!parse_constant(constant)) return false;
    operand.bits = constant.bits;
    operand.kind = constant.kind == Constant::Kind::f32   ? Kind::f32
                   : constant.kind == Constant::Kind::f64 ? Kind::f64
                                                          : Kind::integer;
  } else {
    return fail("an operand");
  }
  if (operand.kind != Kind::symbol) operand.text = span(first, next_);
  if (at('|') && (operand.kind == Kind::reg || operand.kind == Kind::sink)) {
    ++next_;
    Operand pair, second;
    if (!parse_operand(second, instruction, depth + 1)) return false;
    pair.kind = Kind::pair;
    pair.text = span(first, next_);
    pair.elements.push_back(std::move(operand));
    pair.elements.push_back(std::move(second));
    operand = std::move(pair);
  }
  return true;
}

bool Parser::parse_operand_list(Operand& operand, char close, const Instruction& instruction, int depth) {
  ++next_;
  if (accept(close)) return true;
  do {
    if (!parse_operand(operand.elements.emplace_back(), instruction, depth + 1)) return false;
  } while (accept(','));
  return expect(close);
}

// [base], [base + offset], [tensor_map, {c0, c1}], [texture, sampler, {x, y}] (PTX ISA 6.4.1)
bool Parser::parse_address(Operand& operand, const Instruction& instruction, int depth) {
  ++next_;
  Operand& base = operand.elements.emplace_back();
  std::size_t first = next_;
  if (at(Lexeme::Kind::identifier) && !at_word("WARP_SZ")) {
    if (!parse_name(base)) return false;
    if (base.kind == Operand::Kind::symbol) {
      operand.offset = base.offset;
      base.offset = 0;
    } else {
      if (base.kind != Operand::Kind::reg) return fail_at(first, "an address");
      base.text = span(first, next_);
    }
    while (at('+') || at('-')) {
      bool minus = at('-');
      ++next_;
      Constant value;
      std::size_t place = next_;
      if (!parse_unary(value, 0) || !parse_binary(value, 10, 0)) return false;
      if (value.kind > Constant::Kind::u64) return fail_at(place, "an integer offset");
      operand.offset = std::int64_t(std::uint64_t(operand.offset) + (minus ? 0 - value.bits : value.bits));
    }
  } else {
    std::uint64_t value = 0;
    if (!parse_integer(value)) return false;
    base.kind = Operand::Kind::integer;
    base.bits = value;
    base.text = span(first, next_);
  }
  while (accept(',')) {
    if (!parse_operand(operand.elements.emplace_back(), instruction, depth + 1)) return false;
  }
  return expect(']');
}

// A register (with the component of a vector register or the selector of a video instruction), a variable, a special
// register, a symbol with its offset, or the sink.
bool Parser::parse_name(Operand& operand) {
  using Kind = Operand::Kind;
  std::size_t first = next_;
  std::string_view name = word();
  ++next_;
  if (name == "_") {
    operand.kind = Kind::sink;
    operand.text = name;
    return true;
  }
  ScopedName found = scopes_.find(name);
  bool suffix = at(Lexeme::Kind::dotted) && peek().trivia == peek().begin;
  if (found.kind == ScopedName::Kind::reg) {
    operand.kind = Kind::reg;
    operand.reg = found.id;
    if (found.vector == 1) {
      if (suffix) ++next_;  // a selector: .b0 … .h1
    } else if (suffix) {
      constexpr std::string_view components = "xyzwrgba";
      std::size_t component = word().size() == 2 ? components.find(word()[1]) : std::string_view::npos;
      if (component == std::string_view::npos || component % 4 >= found.vector) return fail("a vector component");
      operand.reg += std::uint32_t(component % 4);
      ++next_;
    } else {  // the whole vector register
      operand.kind = Kind::vector;
      for (std::uint8_t i = 0; i < found.vector; ++i) {
        Operand& element = operand.elements.emplace_back();
        element.kind = Kind::reg;
        element.reg = found.id + i;
      }
    }
    operand.text = span(first, next_);
    return true;
  }
  if (found.kind == ScopedName::Kind::none && name[0] == '%') {
    if (suffix) ++next_;
    operand.kind = Kind::special;
    operand.text = span(first, next_);
    return true;
  }
  operand.kind = Kind::symbol;
  operand.text = name;
  if (found.kind == ScopedName::Kind::variable) operand.variable = std::int32_t(found.id);
  while ((at('+') || at('-')) && (at(Lexeme::Kind::number, 1) || at('(', 1) || at('-', 1))) {
    bool minus = at('-');
    ++next_;
    Constant value;
    std::size_t place = next_;
    if (!parse_unary(value, 0) || !parse_binary(value, 10, 0)) return false;
    if (value.kind > Constant::Kind::u64) return fail_at(place, "an integer offset");
    operand.offset = std::int64_t(std::uint64_t(operand.offset) + (minus ? 0 - value.bits : value.bits));
  }
  return true;
}

// To the ',' or ';' that ends an operand of unknown form.
void Parser::skip_operand() {
  std::size_t depth = 0;
  for (; !at(Lexeme::Kind::end) && !at(';'); ++next_) {
    if (depth == 0 && at(',')) return;
    if (at('{') || at('[') || at('(')) ++depth;
    if ((at('}') || at(']') || at(')')) && depth > 0) --depth;
  }
}

}  // namespace deadheat::ptx
