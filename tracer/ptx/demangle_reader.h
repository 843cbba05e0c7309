// A recursive-descent reader of the grammar in Itanium C++ ABI, section 5.1; productions are named as there.
// Substitutions hold text, so that one that stands for a reference to a generic lambda's parameter says auto where the
// runtime says the type. What demangled_name (demangle.h) is made of.
//
// Thread-safety: one thread a reader.
#pragma once

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tracer/ptx/demangle_tables.h"

namespace deadheat::ptx::mangling {

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

  std::string encoding(bool of_local = false);
  std::string bare_function_type(); // up to the end, E, or a qualifier of the reference
  void append(std::string& list, const std::string& item); // packs may be empty
  Name name(bool of_encoding = false);
  Name nested_name(bool of_encoding);
  Name local_name(); // Z <function> E <entity>
  void discriminator();
  std::string source_name();
  // <unqualified-name>; `before`: the name that it continues.
  std::string unqualified(const Name& before);
  const Operator* operator_name();
  Type substitution();

  // ---- template arguments

  std::string template_arguments(bool of_encoding);
  Argument argument();
  Type template_parameter();
  Type template_argument(std::size_t index);
  // Dp <type>: the pattern, once for each element of the pack that it names.
  Type expansion();

  // ---- types

  Type type();
  Type pointer(Type to, std::string_view sign);
  Type function_type(); // F [Y] <return type> <parameters> [R | O] E
  Type array_type(); // A [<number> | <expression>] _ <element type>

  // ---- expressions

  std::string literal(); // L <type> <value> E, L _Z <encoding> E
  std::string list_until_end();
  std::string expression();
  std::string member();

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

} // namespace deadheat::ptx::mangling
