// Declarations and their initializers (PTX ISA 5.4), constant expressions (PTX ISA 4.5).
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "tracer/ptx/names.h"
#include "tracer/ptx/parser.h"

namespace deadheat::ptx {
namespace {

constexpr std::uint64_t max_array_bytes = std::uint64_t(1) << 48;

std::uint64_t element_bytes(const Variable& variable) { return (bits(variable.type) + 7) / 8; }

bool is_opaque(Type type) { return type == Type::texref || type == Type::samplerref || type == Type::surfref; }

}  // namespace

// Everything before the name: .space .align 4 .v2 .type .ptr .global .align 4 .attribute(.managed), in any order.
bool Parser::parse_variable_prefix(Variable& variable, bool& in_register) {
  bool typed = false;
  for (; at(Lexeme::Kind::dotted);) {
    std::string_view text = word().substr(1);
    ++next_;
    if (std::optional<Space> space = find_space(text)) {
      (variable.pointer ? variable.pointee_space : variable.space) = *space;
    } else if (std::optional<Type> type = find_type(text)) {
      variable.type = *type;
      variable.opaque_reference = is_opaque(*type);
      typed = true;
    } else if (text == "align") {
      if (!parse_count(variable.pointer ? variable.pointee_align : variable.align)) return false;
    } else if (text == "reg") {
      in_register = true;
    } else if (text == "ptr") {
      variable.pointer = true;
    } else if (text == "v2" || text == "v4" || text == "v8") {
      variable.vector = std::uint32_t(text[1] - '0');
    } else if (text == "tex") {
      variable.space = Space::global;
      variable.opaque_reference = true;
    } else if (text == "attribute") {
      if (!expect('(')) return false;
      for (int depth = 1; depth > 0; ++next_) {
        if (at(Lexeme::Kind::end) || at(';')) return fail("')'");
        if (at_word(".managed")) variable.managed = true;
        depth += at('(') ? 1 : at(')') ? -1 : 0;
      }
    } else {
      return fail_at(next_ - 1, "a type");
    }
  }
  if (!typed) return fail("a type");
  if (in_register && variable.vector > 4) return fail_at(next_ - 1, "a vector of two or four registers"); // 5.4.2
  if (variable.align == 0)
    variable.align = std::uint32_t(std::max<std::uint64_t>(1, element_bytes(variable) * variable.vector));
  return true;
}

// name [dimension]…
bool Parser::parse_declarator(Variable& variable) {
  if (!at(Lexeme::Kind::identifier)) return fail("a name");
  variable.name = word();
  ++next_;
  variable.dimensions.clear();
  std::uint64_t size = element_bytes(variable) * variable.vector;
  while (accept('[')) {
    std::uint64_t dimension = 0;
    std::size_t place = next_;
    if (!at(']')) {
      if (!parse_integer(dimension)) return false;
      if (dimension != 0 && size > max_array_bytes / dimension)
        return fail_at(place, "an array of less than 2^48 bytes");
    }
    size *= dimension;
    if (variable.dimensions.size() == 16) return fail_at(place, "at most 16 dimensions");
    variable.dimensions.push_back(dimension);
    if (!expect(']')) return false;
  }
  variable.size = size;
  return true;
}

bool Parser::parse_variables(Variable::Linkage linkage, std::vector<Variable>& variables) {
  Variable shared_prefix;
  shared_prefix.linkage = linkage;
  bool in_register = false;
  declared_names_.clear();
  if (!parse_variable_prefix(shared_prefix, in_register)) return false;
  do {
    Variable variable = shared_prefix;
    std::string_view name = word();
    if (!parse_declarator(variable)) return false;
    declared_names_.push_back(name);
    if (accept('<')) {  // .param .b32 p<4>: p0 … p3 (PTX ISA 5.4.6)
      std::uint32_t count = 0;
      if (!parse_count(count) || !expect('>')) return false;
      if (count > 4096) return fail_at(next_ - 2, "at most 4096 variables");
      declared_names_.pop_back();
      for (std::uint32_t i = 0; i < count; ++i) {
        variable.name = std::string(name) + std::to_string(i);
        declared_names_.push_back(names_->emplace_back(variable.name));
        variables.push_back(variable);
      }
      continue;
    }
    if (accept('=') && !parse_initializer(variable)) return false;
    variables.push_back(std::move(variable));
  } while (accept(','));
  return expect(';');
}

bool Parser::parse_initializer(Variable& variable) {
  if (variable.opaque_reference && at('{')) return skip_balanced();  // { addr_mode_0 = wrap, … }
  if (element_bytes(variable) == 0) return fail("no initializer of this type");
  std::vector<std::uint8_t> bytes;
  bool open_ended = !variable.dimensions.empty() && variable.dimensions[0] == 0;
  if (at(Lexeme::Kind::string)) {
    std::string_view text = word();
    text = text.substr(1, text.size() - 2);
    if (!open_ended && text.size() > variable.size) return fail("a shorter string");
    bytes.assign(text.begin(), text.end());
    ++next_;
  } else if (at('{')) {
    if (!parse_initializer_list(variable, bytes, 0, 0)) return false;
  } else if (!parse_initializer_value(variable, bytes, 0)) {
    return false;
  }
  if (open_ended) {
    std::uint64_t stride = element_bytes(variable) * variable.vector;
    for (std::size_t d = 1; d < variable.dimensions.size(); ++d) stride *= variable.dimensions[d];
    if (stride == 0) return fail("dimensions");
    variable.dimensions[0] = (bytes.size() + stride - 1) / stride;
    variable.size = variable.dimensions[0] * stride;
  }
  initializer_bytes_ += variable.size;
  if (variable.size > max_initializer_bytes || initializer_bytes_ > max_initializer_bytes) {
    return fail_at(next_ - 1, "initialized variables of at most 256 MiB together");
  }
  bytes.resize(variable.size);
  variable.initializer = std::move(bytes);
  return true;
}

// { … } of one dimension (the vector width is the innermost): a nested list takes a whole element of the dimension.
bool Parser::parse_initializer_list(Variable& variable, std::vector<std::uint8_t>& bytes, std::size_t dimension,
                                    std::uint64_t offset) {
  if (dimension > variable.dimensions.size() + 1) return fail("a value");
  std::uint64_t stride = element_bytes(variable) * (dimension <= variable.dimensions.size() ? variable.vector : 1);
  for (std::size_t d = dimension + 1; d < variable.dimensions.size(); ++d) stride *= variable.dimensions[d];
  ++next_;
  if (accept('}')) return true;
  do {
    if (at('}')) break;
    if (at('{')) {
      if (!parse_initializer_list(variable, bytes, dimension + 1, offset)) return false;
      offset += stride;
    } else {
      if (!parse_initializer_value(variable, bytes, offset)) return false;
      offset += element_bytes(variable);
    }
  } while (accept(','));
  return expect('}');
}

bool Parser::store(std::vector<std::uint8_t>& bytes, std::uint64_t offset, std::uint64_t value, unsigned width) {
  if (offset + width > bytes.size()) bytes.resize(offset + width);
  for (unsigned i = 0; i < width; ++i) bytes[offset + i] = std::uint8_t(i < 8 ? value >> (8 * i) : 0);
  return true;
}

bool Parser::parse_initializer_value(Variable& variable, std::vector<std::uint8_t>& bytes, std::uint64_t offset) {
  unsigned width = unsigned(element_bytes(variable));
  bool open_ended = !variable.dimensions.empty() && variable.dimensions[0] == 0;
  if (!open_ended && offset + width > variable.size) return fail("no more values than the array has elements");
  if (offset + width > max_initializer_bytes) return fail("initialized variables of at most 256 MiB together");
  Variable::Relocation relocation;
  relocation.offset = offset;
  relocation.bytes = width;
  std::size_t start = next_;
  if (at(Lexeme::Kind::number) && at('(', 1)) {  // 0xff00(symbol): bytes of the address (PTX ISA 5.4.4)
    Constant mask;
    if (!parse_number(mask)) return false;
    ++next_;
    if (!parse_symbol_value(variable, relocation) || !expect(')')) return false;
    relocation.mask_shift = mask.bits == 0 ? 0 : unsigned(std::countr_zero(mask.bits));
    unsigned kept = unsigned(std::popcount(mask.bits));
    if (kept == 0 || kept % 8 != 0 || kept / 8 > width || relocation.mask_shift % 8 != 0 ||
        mask.bits >> relocation.mask_shift != (kept == 64 ? ~0ull : (1ull << kept) - 1)) {
      return fail_at(start, "a mask of whole bytes");
    }
    relocation.bytes = kept / 8;
    variable.relocations.push_back(std::move(relocation));
    return store(bytes, offset, 0, width);
  }
  if (at(Lexeme::Kind::identifier) && !at_word("WARP_SZ")) {
    if (!parse_symbol_value(variable, relocation)) return false;
    variable.relocations.push_back(std::move(relocation));
    return store(bytes, offset, 0, width);
  }
  Constant value;
  if (!parse_constant(value)) return false;
  bool floating = value.kind == Constant::Kind::f32 || value.kind == Constant::Kind::f64;
  if (variable.type == Type::f32 && value.kind != Constant::Kind::f32) {
    double number = floating                            ? std::bit_cast<double>(value.bits)
                    : value.kind == Constant::Kind::s64 ? double(std::int64_t(value.bits))
                                                        : double(value.bits);
    value.bits = std::bit_cast<std::uint32_t>(float(number));
  } else if (variable.type == Type::f64 && value.kind != Constant::Kind::f64) {
    double number = floating                            ? double(std::bit_cast<float>(std::uint32_t(value.bits)))
                    : value.kind == Constant::Kind::s64 ? double(std::int64_t(value.bits))
                                                        : double(value.bits);
    value.bits = std::bit_cast<std::uint64_t>(number);
  }
  return store(bytes, offset, value.bits, width);
}

// name, name + 4, generic(name), generic(name) + 4, generic(name + 4)
bool Parser::parse_symbol_value(Variable&, Variable::Relocation& relocation) {
  auto addend = [&] {
    while (at('+') || at('-')) {
      bool minus = at('-');
      ++next_;
      Constant value;
      if (!parse_unary(value, 0)) return false;
      relocation.addend = std::int64_t(std::uint64_t(relocation.addend) + (minus ? 0 - value.bits : value.bits));
    }
    return true;
  };
  bool generic = at_word("generic") && at('(', 1);
  if (generic) next_ += 2;
  if (!at(Lexeme::Kind::identifier)) return fail("a symbol");
  relocation.symbol = word();
  relocation.generic = generic;
  ++next_;
  if (!addend()) return false;
  return !generic || (expect(')') && addend());
}

bool Parser::parse_count(std::uint32_t& value) {
  Constant constant;
  std::size_t start = next_;
  if (!at(Lexeme::Kind::number)) return fail("a number");
  if (!parse_number(constant)) return false;
  if (constant.kind == Constant::Kind::f32 || constant.kind == Constant::Kind::f64 || constant.bits > UINT32_MAX) {
    return fail_at(start, "a whole number below 2^32");
  }
  value = std::uint32_t(constant.bits);
  return true;
}

bool Parser::parse_integer(std::uint64_t& value) {
  Constant constant;
  std::size_t start = next_;
  if (!parse_constant(constant)) return false;
  if (constant.kind == Constant::Kind::f32 || constant.kind == Constant::Kind::f64) return fail_at(start, "an integer");
  value = constant.bits;
  return true;
}

// 42, 0x2a, 052, 0b101, each with U; 0f3F800000, 0d…; 1.5e-3 (PTX ISA 4.5.1, 4.5.2)
bool Parser::parse_number(Constant& constant) {
  std::string_view text = word();
  const char* end = text.data() + text.size();
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
    bool single = text[1] == 'f' || text[1] == 'F';
    auto [stop, error] = std::from_chars(text.data() + 2, end, constant.bits, 16);
    if (error != std::errc() || stop != end || text.size() != (single ? 10u : 18u)) {
      return fail(single ? "0f and 8 hexadecimal digits" : "0d and 16 hexadecimal digits");
    }
    constant.kind = single ? Constant::Kind::f32 : Constant::Kind::f64;
    ++next_;
    return true;
  }
  bool hexadecimal = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  if (!hexadecimal && text.find_first_of(".eE") != std::string_view::npos) {
    double value = 0;
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if ((error != std::errc() && error != std::errc::result_out_of_range) || stop != end) return fail("a number");
    constant = {Constant::Kind::f64, std::bit_cast<std::uint64_t>(value)};
    ++next_;
    return true;
  }
  bool is_unsigned = text.back() == 'U';
  std::string_view digits = is_unsigned ? text.substr(0, text.size() - 1) : text;
  int base = 10;
  if (hexadecimal) {
    base = 16;
    digits.remove_prefix(2);
  } else if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'b' || digits[1] == 'B')) {
    base = 2;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
  }
  auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), constant.bits, base);
  if (error == std::errc::result_out_of_range) return fail("a number below 2^64");
  if (error != std::errc() || stop != digits.data() + digits.size()) return fail("a number");
  constant.kind = is_unsigned || constant.bits >> 63 ? Constant::Kind::u64 : Constant::Kind::s64;
  ++next_;
  return true;
}

bool Parser::parse_unary(Constant& value, int depth) {
  if (depth > max_expression_depth) return fail("a less deeply nested expression");
  if (at(Lexeme::Kind::number)) return parse_number(value);
  if (accept("WARP_SZ")) {  // PTX ISA 10: a run-time immediate, 32 on every device
    value = {Constant::Kind::s64, 32};
    return true;
  }
  if (at('(')) {
    ++next_;
    if (at_word(".s64") || at_word(".u64")) {  // cast
      Constant::Kind kind = at_word(".s64") ? Constant::Kind::s64 : Constant::Kind::u64;
      ++next_;
      if (!expect(')') || !parse_unary(value, depth + 1)) return false;
      value.kind = kind;
      return true;
    }
    return parse_constant(value, depth + 1) && expect(')');
  }
  if (at('+') || at('-') || at('~') || at('!')) {
    char op = peek().mark;
    ++next_;
    std::size_t operand = next_;
    if (!parse_unary(value, depth + 1)) return false;
    bool floating = value.kind == Constant::Kind::f32 || value.kind == Constant::Kind::f64;
    if (floating && (op == '~' || op == '!')) return fail_at(operand, "an integer");
    switch (op) {
      case '-':
        if (value.kind == Constant::Kind::f32) {
          value.bits ^= 0x80000000u;
        } else if (value.kind == Constant::Kind::f64) {
          value.bits ^= std::uint64_t(1) << 63;
        } else {
          value.bits = 0 - value.bits;
        }
        break;
      case '~': value.bits = ~value.bits; break;
      case '!': value = {Constant::Kind::s64, value.bits == 0}; break;
      default: break;
    }
    return true;
  }
  return fail("a number");
}

namespace {

struct BinaryOperator {
  std::string_view text;
  int level;  // binds tighter the higher
};
// Longer ones first.
constexpr BinaryOperator binary_operators[] = {
    {"||", 1}, {"&&", 2}, {"==", 6}, {"!=", 6}, {"<=", 7}, {">=", 7}, {"<<", 8}, {">>", 8}, {"|", 3},
    {"^", 4},  {"&", 5},  {"<", 7},  {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10},
};

std::optional<std::uint64_t> compute(std::string_view op, std::uint64_t a, std::uint64_t b, bool is_unsigned) {
  std::int64_t sa = std::int64_t(a), sb = std::int64_t(b);
  if (op == "||") return a || b;
  if (op == "&&") return a && b;
  if (op == "|") return a | b;
  if (op == "^") return a ^ b;
  if (op == "&") return a & b;
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return is_unsigned ? a < b : sa < sb;
  if (op == "<=") return is_unsigned ? a <= b : sa <= sb;
  if (op == ">") return is_unsigned ? a > b : sa > sb;
  if (op == ">=") return is_unsigned ? a >= b : sa >= sb;
  if (op == "<<") return b > 63 ? 0 : a << b;
  if (op == ">>") return is_unsigned ? (b > 63 ? 0 : a >> b) : std::uint64_t(sa >> std::min<std::uint64_t>(b, 63));
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (b == 0) return std::nullopt;
  if (!is_unsigned && sb == -1) return op == "/" ? 0 - a : 0;  // no trap on the most negative number
  if (op == "/") return is_unsigned ? a / b : std::uint64_t(sa / sb);
  return is_unsigned ? a % b : std::uint64_t(sa % sb);
}

}  // namespace

bool Parser::parse_binary(Constant& left, int level, int depth) {
  for (;;) {
    const BinaryOperator* found = nullptr;
    if (!at(Lexeme::Kind::mark)) return true;
    for (const BinaryOperator& op : binary_operators) {
      if (!at(op.text[0])) continue;
      if (op.text.size() == 2 && (!at(op.text[1], 1) || peek(1).begin != peek().end)) continue;
      found = &op;
      break;
    }
    if (!found || found->level < level) return true;
    std::size_t place = next_;
    next_ += found->text.size();
    Constant right;
    if (!parse_unary(right, depth + 1) || !parse_binary(right, found->level + 1, depth + 1)) return false;
    if (left.kind > Constant::Kind::u64 || right.kind > Constant::Kind::u64) {
      return fail_at(place, "integers around an operator");
    }
    bool shift = found->text == "<<" || found->text == ">>";
    bool is_unsigned = left.kind == Constant::Kind::u64 || (!shift && right.kind == Constant::Kind::u64);
    std::optional<std::uint64_t> value = compute(found->text, left.bits, right.bits, is_unsigned);
    if (!value) return fail_at(place, "a divisor other than 0");
    bool logical = found->level <= 2 || found->level == 6 || found->level == 7;
    left = {logical || !is_unsigned ? Constant::Kind::s64 : Constant::Kind::u64, *value};
  }
}

bool Parser::parse_constant(Constant& constant, int depth) {
  if (depth > max_expression_depth) return fail("a less deeply nested expression");
  if (!parse_unary(constant, depth + 1) || !parse_binary(constant, 1, depth + 1)) return false;
  if (at('?')) {
    ++next_;
    Constant yes, no;
    if (!parse_constant(yes, depth + 1) || !expect(':') || !parse_constant(no, depth + 1)) return false;
    constant = constant.bits != 0 ? yes : no;
  }
  return true;
}

}  // namespace deadheat::ptx
