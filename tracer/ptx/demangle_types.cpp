// Types, and expressions in them.
#include "tracer/ptx/demangle_reader.h"

namespace deadheat::ptx::mangling {

Type Reader::type() {
  Depth depth(*this);
  if (failed_ || at_ >= text_.size()) return fail<Type>();
  for (const Word& word : builtins) {
    if (take(word.code)) return {std::string(word.text)};
  }
  Type result;
  const char c = peek();
  if (c == 'P' || c == 'R' || c == 'O') {
    ++at_;
    result = pointer(type(), c == 'P' ? "*" : c == 'R' ? "&" : "&&");
  } else if (c == 'K' || c == 'V' || c == 'r') {
    std::string qualifiers;
    if (take("r")) qualifiers = " restrict";
    if (take("V")) qualifiers = " volatile" + qualifiers;
    if (take("K")) qualifiers = " const" + qualifiers;
    result = type();
    result.parameter = 0;
    (result.right.starts_with("(") ? result.right : result.left) += qualifiers;
  } else if (c == 'F') {
    result = function_type();
  } else if (c == 'A') {
    result = array_type();
  } else if (take("M")) {
    const std::string of = type().text();
    result = type();
    result.left += (result.wraps ? "(" : " ") + of + "::*";
    if (result.wraps) result.right = ")" + result.right;
    result.wraps = false;
  } else if (c == 'T') {
    result = template_parameter();
    if (peek() == 'I') { // a template's template parameter
      remember(result);
      result.left += template_arguments(false);
    }
  } else if (take("Dp")) {
    result = expansion();
  } else if (take("Dt") || take("DT")) {
    result.left = "decltype (" + expression() + ")";
    if (!take("E")) return fail<Type>();
  } else if (take("u")) {
    result.left = source_name();
  } else if (take("U")) {
    const std::string qualifier = source_name() + (peek() == 'I' ? template_arguments(false) : "");
    result = type();
    result.left += " " + qualifier;
  } else if (c == 'S' && peek(1) != 't') {
    result = substitution();
    if (peek() != 'I') return result; // is one already
    result.left += template_arguments(false);
  } else if (c == 'N' || c == 'Z' || c == 'S' || digit()) {
    result.left = name().text;
  } else {
    return fail<Type>();
  }
  remember(result);
  return result;
}

Type Reader::pointer(Type to, std::string_view sign) {
  const bool reference = sign[0] == '&';
  if (reference && to.left.ends_with("&") && !to.wraps) { // they collapse
    if (sign == "&" && to.left.ends_with("&&")) to.left.pop_back();
    return to;
  }
  if (to.left.empty()) return to; // of an empty pack
  if (to.wraps) {
    to.left += to.left.ends_with(" ") ? "(" : " (";
    to.right = ")" + to.right;
    to.wraps = false;
  }
  to.left += sign;
  to.parameter = 0;
  return to;
}

Type Reader::function_type() {
  take("F");
  take("Y");
  Type result = type();
  const std::string parameters = bare_function_type();
  const std::string reference = take("R") ? " &" : take("O") ? " &&" : "";
  if (!take("E")) return fail<Type>();
  return {bounded(result.left + " "), bounded("(" + parameters + ")" + reference + result.right), true};
}

Type Reader::array_type() {
  take("A");
  std::string size;
  if (digit())
    size = std::to_string(decimal());
  else if (peek() != '_')
    size = expression();
  if (!take("_")) return fail<Type>();
  Type element = type();
  const bool also = element.right.starts_with(" [");
  return {element.left, bounded(" [" + size + "]" + (also ? element.right.substr(1) : element.right)), true};
}

std::string Reader::literal() {
  take("L");
  if (take("_Z")) {
    std::string of = encoding();
    return take("E") ? of : fail();
  }
  const std::string of = type().text();
  if (of == "decltype(nullptr)") {
    take("0");
    return take("E") ? "nullptr" : fail();
  }
  const std::size_t end = text_.find('E', at_);
  if (end == std::string_view::npos) return fail();
  std::string value(text_.substr(at_, end - at_));
  at_ = end + 1;
  if (value.starts_with("n")) value[0] = '-';
  if (of == "bool" && (value == "0" || value == "1")) return value == "1" ? "true" : "false";
  constexpr Word suffixes[] = {{"int", ""},         {"unsigned int", "u"},
                               {"long", "l"},       {"unsigned long", "ul"},
                               {"long long", "ll"}, {"unsigned long long", "ull"}};
  for (const Word& word : suffixes) {
    if (of == word.code) return value + std::string(word.text);
  }
  return bounded("(" + of + ")" + value);
}

std::string Reader::list_until_end() {
  std::string list;
  while (!failed_ && !take("E")) append(list, expression());
  return list;
}

std::string Reader::expression() {
  Depth depth(*this);
  if (failed_ || at_ >= text_.size()) return fail();
  if (peek() == 'L') return literal();
  if (peek() == 'T') return template_parameter().text();
  if (take("fp") || take("fL")) {
    take("K");
    return "{parm#" + std::to_string(sequence(10) + 1) + "}";
  }
  if (take("gs")) return "::" + expression();
  if (take("sZ")) return "sizeof...(" + expression() + ")";
  if (take("sz")) return "sizeof (" + expression() + ")";
  if (take("st")) return "sizeof (" + type().text() + ")";
  if (take("at")) return "alignof (" + type().text() + ")";
  if (take("nx")) return "noexcept (" + expression() + ")";
  if (take("sp")) return expression() + "...";
  if (take("cl")) {
    const std::string function = expression();
    return bounded(function + "(" + list_until_end() + ")");
  }
  if (take("cv")) {
    const std::string to = type().text();
    if (take("_")) return bounded("(" + to + ")(" + list_until_end() + ")");
    return bounded("(" + to + ")(" + expression() + ")");
  }
  if (take("tl")) {
    const std::string of = type().text();
    return bounded(of + "{" + list_until_end() + "}");
  }
  if (take("il")) return bounded("{" + list_until_end() + "}");
  if (take("sr")) {
    std::string of;
    if (digit()) { // plain names, up to E: no candidates for substitution
      while (!failed_ && !take("E")) of += (of.empty() ? "" : "::") + member();
    } else {
      of = type().text();
    }
    return bounded(of + "::" + member());
  }
  if (take("dt")) {
    const std::string of = expression();
    return bounded(of + "." + expression());
  }
  if (take("qu")) {
    const std::string condition = expression(), yes = expression();
    return bounded("(" + condition + ")?(" + yes + ") : (" + expression() + ")");
  }
  if (take("on") || digit()) return member();
  const Operator* found = operator_name();
  if (!found || found->operands == 0) return fail();
  if (found->operands == 1) {
    take("_"); // ++ and -- in front
    return bounded(std::string(found->text) + "(" + expression() + ")");
  }
  const std::string first = expression();
  return bounded("(" + first + ")" + std::string(found->text) + "(" + expression() + ")");
}

std::string Reader::member() {
  const bool outer = std::exchange(constructor_, false);
  std::string text = unqualified({});
  constructor_ = outer;
  if (peek() == 'I') text += template_arguments(false);
  return bounded(text);
}

} // namespace deadheat::ptx::mangling
