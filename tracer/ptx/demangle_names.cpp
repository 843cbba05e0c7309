// A recursive-descent reader of the grammar in Itanium C++ ABI, section 5.1; productions are named as there.
// Substitutions hold text, so that one that stands for a reference to a generic lambda's parameter says auto where the
// runtime says the type.
#include <cctype>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "tracer/ptx/demangle.h"
#include "tracer/ptx/demangle_tables.h"

namespace deadheat::ptx {
namespace {

constexpr std::size_t most_of_text = 65536;
constexpr std::size_t most_of_all_text = 8 << 20; // of the candidates for substitution
constexpr int deepest = 256, most_steps = 200000;

// A type is written around what it is the type of: "int (&" … ") [4]".
struct Type {
  std::string left, right = {};
  bool wraps = false; // a pointer to it needs parentheses
  std::size_t parameter = 0; // of a generic lambda: which one, plus one
  std::string text() const { return left + right; }
};

struct Argument { // of a template: one, or the elements of a pack
  std::vector<Type> items;
  bool pack = false;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<std::string> mangled_name() {
    if (!take("_Z")) return std::nullopt;
    std::string result = encoding();
    if (failed_ || at_ != text_.size()) return std::nullopt;
    return result;
  }

 private:
  struct Name {
    std::string text;
    std::string last; // its last component's, without template arguments
    std::string qualifiers; // of the member function's object
    bool returns = false; // its function type begins with what it returns
  };

  // ---- text

  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool digit() const { return std::isdigit(static_cast<unsigned char>(peek())) != 0; }
  template <typename T = std::string>
  T fail() {
    failed_ = true;
    return {};
  }
  std::string bounded(std::string text) {
    if (text.size() > most_of_text) failed_ = true;
    return text;
  }
  std::size_t decimal() {
    std::size_t value = 0;
    if (!digit()) failed_ = true;
    while (digit() && value < text_.size()) value = value * 10 + std::size_t(text_[at_++] - '0');
    return value;
  }
  // <seq-id> _, <number> _: none is 0, 0 is 1, …
  std::size_t sequence(unsigned base) {
    if (take("_")) return 0;
    std::size_t value = 0;
    while (!failed_ && !take("_")) {
      const char c = peek();
      const bool letter = base == 36 && c >= 'A' && c <= 'Z';
      if (!digit() && !letter) return fail<std::size_t>();
      value = value * base + std::size_t(letter ? c - 'A' + 10 : c - '0');
      if (value > text_.size()) return fail<std::size_t>();
      ++at_;
    }
    return value + 1;
  }
  struct Depth {
    explicit Depth(Reader& reader) : of(reader) {
      if (++of.depth_ > deepest || ++of.steps_ > most_steps) of.failed_ = true;
    }
    ~Depth() { --of.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Reader& of;
  };

  void remember(Type type) {
    remembered_ += bounded(type.left).size() + type.right.size();
    if (remembered_ > most_of_all_text) failed_ = true;
    if (!failed_) substitutions_.push_back(std::move(type));
  }

  // ---- names

  std::string encoding(bool of_local = false) {
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

  std::string bare_function_type() { // up to the end, E, or a qualifier of the reference
    if (take("v")) return "";
    std::string text;
    while (!failed_ && at_ < text_.size() && peek() != 'E' && !((peek() == 'R' || peek() == 'O') && peek(1) == 'E'))
      append(text, type().text());
    return text;
  }
  void append(std::string& list, const std::string& item) { // packs may be empty
    if (item.empty()) return;
    list = bounded(list.empty() ? item : list + ", " + item);
  }

  Name name(bool of_encoding = false) {
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

  Name nested_name(bool of_encoding) {
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

  Name local_name() { // Z <function> E <entity>
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
  void discriminator() {
    if (take("__")) {
      (void)decimal();
      take("_");
    } else if (peek() == '_' && std::isdigit(static_cast<unsigned char>(peek(1)))) {
      at_ += 2;
    }
  }

  std::string source_name() {
    const std::size_t length = decimal();
    if (failed_ || length == 0 || length > text_.size() - at_) return fail();
    std::string name(text_.substr(at_, length));
    at_ += length;
    return name.starts_with("_GLOBAL__N") ? "(anonymous namespace)" : name;
  }

  // <unqualified-name>; `before`: the name that it continues.
  std::string unqualified(const Name& before) {
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
  const Operator* operator_name() {
    for (const Operator& each : operators) {
      if (take(each.code)) return &each;
    }
    return nullptr;
  }

  Type substitution() {
    for (const Word& word : standard) {
      if (take(word.code)) return {std::string(word.text)};
    }
    if (!take("S")) return fail<Type>();
    const std::size_t index = sequence(36);
    if (failed_ || index >= substitutions_.size()) return fail<Type>();
    const Type& found = substitutions_[index];
    return found.parameter && !in_lambda_ ? template_argument(found.parameter - 1) : found;
  }

  // ---- template arguments

  std::string template_arguments(bool of_encoding) {
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

  Argument argument() {
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

  Type template_parameter() {
    if (!take("T")) return fail<Type>();
    const std::size_t index = sequence(10);
    if (failed_) return {};
    if (in_lambda_) return {"auto:" + std::to_string(index + 1), "", false, index + 1};
    return template_argument(index);
  }
  Type template_argument(std::size_t index) {
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

  // Dp <type>: the pattern, once for each element of the pack that it names.
  Type expansion() {
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

  // ---- types

  Type type() {
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

  Type pointer(Type to, std::string_view sign) {
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

  Type function_type() { // F [Y] <return type> <parameters> [R | O] E
    take("F");
    take("Y");
    Type result = type();
    const std::string parameters = bare_function_type();
    const std::string reference = take("R") ? " &" : take("O") ? " &&" : "";
    if (!take("E")) return fail<Type>();
    return {bounded(result.left + " "), bounded("(" + parameters + ")" + reference + result.right), true};
  }

  Type array_type() { // A [<number> | <expression>] _ <element type>
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

  // ---- expressions

  std::string literal() { // L <type> <value> E, L _Z <encoding> E
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

  std::string list_until_end() {
    std::string list;
    while (!failed_ && !take("E")) append(list, expression());
    return list;
  }

  std::string expression() {
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

  std::string member() {
    const bool outer = std::exchange(constructor_, false);
    std::string text = unqualified({});
    constructor_ = outer;
    if (peek() == 'I') text += template_arguments(false);
    return bounded(text);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t remembered_ = 0; // bytes
  int depth_ = 0, steps_ = 0;
  bool failed_ = false, constructor_ = false, in_lambda_ = false;
  bool expanding_ = false;
  std::size_t element_ = 0, elements_ = 0; // of the pack that is being expanded
  std::vector<Type> substitutions_;
  std::vector<Argument> arguments_; // of the function's own template
};

} // namespace

std::optional<std::string> demangled_name(std::string_view mangled) { return Reader(mangled).mangled_name(); }

} // namespace deadheat::ptx
