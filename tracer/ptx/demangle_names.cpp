// Names, and what their templates are given.
#include <tuple>

#include "tracer/ptx/demangle.h"
#include "tracer/ptx/demangle_reader.h"

namespace deadheat::ptx {

namespace mangling {

std::string Reader::encoding(bool of_local) {
  Depth depth(*this);
  const Name name = this->name(true);
  if (failed_ || at_ == text_.size() || peek() == 'E' || peek() == '.') return name.text;
  Type result;
  if (name.returns) result = type();
  if (of_local) result = {};
  const std::string parameters = bare_function_type();
  std::string text = result.left.empty() ? "" : result.left + (result.wraps ? "" : " ");
  return bounded(text + name.text + "(" + parameters + ")" + name.qualifiers + result.right);
}

std::string Reader::bare_function_type() {
  if (take("v")) return "";
  std::string text;
  while (!failed_ && at_ < text_.size() && peek() != 'E' && !((peek() == 'R' || peek() == 'O') && peek(1) == 'E'))
    append(text, type().text());
  return text;
}

void Reader::append(std::string& list, const std::string& item) {
  if (item.empty()) return;
  list = bounded(list.empty() ? item : list + ", " + item);
}

Reader::Name Reader::name(bool of_encoding) {
  Depth depth(*this);
  if (failed_) return {};
  if (peek() == 'N') return nested_name(of_encoding);
  if (peek() == 'Z') return local_name();
  Name result;
  if (peek() == 'S' && peek(1) != 't') {
    result.text = substitution().text();
    if (peek() != 'I') return fail<Name>();
  } else {
    const std::string space = take("St") ? "std::" : "";
    result.last = unqualified(result);
    result.text = space + result.last;
    if (peek() != 'I') return result;
    remember({result.text});
  }
  result.text += template_arguments(of_encoding);
  result.returns = true;
  return result;
}

Reader::Name Reader::nested_name(bool of_encoding) {
  take("N");
  Name result;
  for (;;) {
    if (take("K"))
      result.qualifiers = " const" + result.qualifiers;
    else if (take("V"))
      result.qualifiers = " volatile" + result.qualifiers;
    else if (take("r"))
      result.qualifiers = " restrict" + result.qualifiers;
    else
      break;
  }
  if (take("R"))
    result.qualifiers += " &";
  else if (take("O"))
    result.qualifiers += " &&";
  bool added = false; // the last component is a candidate for substitution that the whole name is not
  while (!failed_ && !take("E")) {
    if (at_ == text_.size()) return fail<Name>();
    if (peek() == 'I') {
      if (result.text.empty()) return fail<Name>();
      result.text = bounded(result.text + template_arguments(of_encoding));
      result.returns = !constructor_;
    } else if (peek() == 'S' && peek(1) != 't' && result.text.empty()) {
      result.text = substitution().text();
      result.last = result.text.substr(result.text.rfind(':') + 1);
      added = false;
      continue;
    } else if (take("St")) {
      result.text = "std";
      continue;
    } else if (result.text.empty() && peek() == 'T') {
      result.text = template_parameter().text();
    } else if (result.text.empty() && peek() == 'D' && (peek(1) == 't' || peek(1) == 'T')) {
      result.text = type().text();
      continue;
    } else {
      constructor_ = false;
      result.returns = false;
      Name before = result;
      result.last = unqualified(before);
      result.text = bounded(result.text.empty() ? result.last : result.text + "::" + result.last);
      result.returns = false;
    }
    take("M"); // the initializer of a member
    remember({result.text});
    added = true;
  }
  if (result.text.empty()) return fail<Name>();
  if (added && !failed_) substitutions_.pop_back();
  constructor_ = false;
  return result;
}

Reader::Name Reader::local_name() {
  take("Z");
  const std::vector<Argument> outer = arguments_;
  const std::string function = encoding(true);
  if (!take("E")) return fail<Name>();
  Name result;
  if (take("s")) {
    result.text = function + "::string literal";
  } else {
    if (take("d")) {
      if (!take("_")) {
        (void)decimal();
        take("_");
      }
    }
    result = name(true);
    result.text = bounded(function + "::" + result.text);
  }
  discriminator();
  if (arguments_.empty()) arguments_ = outer;
  return result;
}

void Reader::discriminator() {
  if (take("__")) {
    (void)decimal();
    take("_");
  } else if (peek() == '_' && std::isdigit(static_cast<unsigned char>(peek(1)))) {
    at_ += 2;
  }
}

std::string Reader::source_name() {
  const std::size_t length = decimal();
  if (failed_ || length == 0 || length > text_.size() - at_) return fail();
  std::string name(text_.substr(at_, length));
  at_ += length;
  return name.starts_with("_GLOBAL__N") ? "(anonymous namespace)" : name;
}

std::string Reader::unqualified(const Name& before) {
  take("L");
  std::string result;
  if (digit()) {
    result = source_name();
  } else if ((peek() == 'C' && peek(1) >= '1' && peek(1) <= '5') ||
             (peek() == 'D' && peek(1) >= '0' && peek(1) <= '5')) { // a constructor or destructor
    if (before.last.empty()) return fail();
    result = (peek() == 'D' ? "~" : "") + before.last;
    at_ += 2;
    constructor_ = true;
  } else if (take("Ut")) {
    result = "{unnamed type#" + std::to_string(sequence(10) + 1) + "}";
  } else if (take("Ul")) {
    const bool outer = std::exchange(in_lambda_, true);
    const std::string parameters = bare_function_type();
    in_lambda_ = outer;
    if (!take("E")) return fail();
    result = "{lambda(" + parameters + ")#" + std::to_string(sequence(10) + 1) + "}";
  } else if (take("cv")) {
    constructor_ = true;
    result = "operator " + type().text();
  } else if (take("li")) {
    result = "operator\"\" " + source_name();
  } else if (const Operator* found = operator_name()) {
    result = "operator" + std::string(found->text);
  } else {
    return fail();
  }
  while (take("B")) result += "[abi:" + source_name() + "]";
  return result;
}

const Operator* Reader::operator_name() {
  for (const Operator& each : operators) {
    if (take(each.code)) return &each;
  }
  return nullptr;
}

Type Reader::substitution() {
  for (const Word& word : standard) {
    if (take(word.code)) return {std::string(word.text)};
  }
  if (!take("S")) return fail<Type>();
  const std::size_t index = sequence(36);
  if (failed_ || index >= substitutions_.size()) return fail<Type>();
  const Type& found = substitutions_[index];
  return found.parameter && !in_lambda_ ? template_argument(found.parameter - 1) : found;
}

std::string Reader::template_arguments(bool of_encoding) {
  Depth depth(*this);
  if (!take("I")) return fail();
  std::vector<Argument> all;
  while (!failed_ && !take("E")) all.push_back(argument());
  std::string list;
  for (const Argument& each : all) {
    for (const Type& item : each.items) append(list, item.text());
  }
  if (of_encoding && !in_lambda_) arguments_ = std::move(all);
  return bounded("<" + list + (list.ends_with(">") ? " >" : ">"));
}

Argument Reader::argument() {
  if (at_ >= text_.size()) return fail<Argument>();
  Argument result;
  if (take("J")) {
    result.pack = true;
    while (!failed_ && !take("E")) {
      Argument item = argument();
      for (Type& each : item.items) result.items.push_back(std::move(each));
    }
  } else if (take("X")) {
    result.items.push_back({expression()});
    if (!take("E")) failed_ = true;
  } else if (peek() == 'L') {
    result.items.push_back({literal()});
  } else {
    Type item = type();
    if (!item.left.empty()) result.items.push_back(std::move(item));
  }
  return result;
}

Type Reader::template_parameter() {
  if (!take("T")) return fail<Type>();
  const std::size_t index = sequence(10);
  if (failed_) return {};
  if (in_lambda_) return {"auto:" + std::to_string(index + 1), "", false, index + 1};
  return template_argument(index);
}

Type Reader::template_argument(std::size_t index) {
  if (index >= arguments_.size()) return fail<Type>();
  const Argument& found = arguments_[index];
  if (!found.pack) return found.items.empty() ? Type() : found.items.front();
  if (expanding_) {
    elements_ = found.items.size();
    return element_ < found.items.size() ? found.items[element_] : Type();
  }
  Type all;
  for (const Type& item : found.items) append(all.left, item.text());
  return all;
}

Type Reader::expansion() {
  const std::size_t begin = at_;
  const auto outer = std::tuple(expanding_, element_, elements_);
  expanding_ = true;
  elements_ = 1;
  Type all;
  std::size_t known = 0;
  for (element_ = 0; !failed_ && (element_ == 0 || element_ < elements_); ++element_) {
    at_ = begin;
    const Type one = type();
    if (element_ == 0) known = substitutions_.size();
    if (!failed_) substitutions_.resize(known);
    if (element_ < elements_) append(all.left, one.text());
  }
  std::tie(expanding_, element_, elements_) = outer;
  return all;
}

} // namespace mangling

std::optional<std::string> demangled_name(std::string_view mangled) { return mangling::Reader(mangled).mangled_name(); }

} // namespace deadheat::ptx
