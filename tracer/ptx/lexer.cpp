#include "tracer/ptx/lexer.h"

#include <algorithm>
#include <array>
#include <string>

namespace deadheat::ptx {
namespace {

enum Class : std::uint8_t { other = 0, space = 1, word = 2, digit = 4, start = 8, mark = 16 };

constexpr std::array<std::uint8_t, 256> classify() {
  std::array<std::uint8_t, 256> table{};
  for (char c : {' ', '\t', '\r', '\n', '\v', '\f', '\0'}) table[std::uint8_t(c)] = space;  // NUL ends embedded PTX
  for (int c = 'a'; c <= 'z'; ++c) table[c] = word | start;
  for (int c = 'A'; c <= 'Z'; ++c) table[c] = word | start;
  for (int c = '0'; c <= '9'; ++c) table[c] = word | digit;
  for (char c : {'_', '$'}) table[std::uint8_t(c)] = word | start;
  table[std::uint8_t('%')] = start;
  for (char c : std::string_view("{}[]()<>,;:@!|+-*/&^~=?")) table[std::uint8_t(c)] = mark;
  return table;
}
constexpr std::array<std::uint8_t, 256> classes = classify();

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {}

  Expected<std::vector<Lexeme>> run() {
    if (text_.size() >= UINT32_MAX) return Error{"PTX text of 4 GiB or more", std::string(origin_)};
    lexemes_.reserve(text_.size() / 4 + 16);
    for (;;) {
      Lexeme next;
      next.trivia = at_;
      if (const char* wrong = skip_trivia()) return error(wrong);
      next.begin = at_;
      next.line = line_;
      if (at_ == text_.size()) {
        next.end = at_;
        lexemes_.push_back(next);
        return std::move(lexemes_);
      }
      if (const char* wrong = scan(next)) return error(wrong);
      next.end = at_;
      lexemes_.push_back(next);
    }
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool is(std::size_t ahead, std::uint8_t mask) const {
    return at_ + ahead < text_.size() && (classes[std::uint8_t(text_[at_ + ahead])] & mask);
  }
  Error error(const char* what) const { return {what, place(text_, origin_, at_)}; }

  void skip_line() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  const char* skip_trivia() {
    while (at_ < text_.size()) {
      if (is(0, space)) {
        if (text_[at_] == '\n') ++line_;
        ++at_;
      } else if (peek() == '/' && peek(1) == '/') {
        skip_line();
      } else if (peek() == '/' && peek(1) == '*') {
        std::size_t close = text_.find("*/", at_ + 2);
        if (close == std::string_view::npos) return "expected '*/' at the end of this comment";
        line_ += std::uint32_t(std::count(text_.begin() + at_, text_.begin() + close, '\n'));
        at_ = std::uint32_t(close + 2);
      } else if (peek() == '#' || (peek() == '@' && peek(1) == '@')) {
        skip_line();  // preprocessor line markers; @@DWARF lines of old compilers
      } else {
        break;
      }
    }
    return nullptr;
  }

  void skip_word() {
    while (is(0, word)) ++at_;
  }

  const char* scan(Lexeme& next) {
    if (is(0, digit) || (peek() == '.' && is(1, digit) && !follows_word())) {
      next.kind = Lexeme::Kind::number;
      skip_number();
    } else if (is(0, start)) {
      next.kind = Lexeme::Kind::identifier;
      bool percent = peek() == '%';
      ++at_;
      if (percent && !is(0, word)) {  // the remainder operator of constant expressions
        next.kind = Lexeme::Kind::mark;
        next.mark = '%';
      }
      skip_word();
    } else if (peek() == '.' && is(1, word)) {
      next.kind = Lexeme::Kind::dotted;
      ++at_;
      skip_word();
      while (peek() == ':' && peek(1) == ':' && is(2, word)) {
        at_ += 2;
        skip_word();
      }
    } else if (peek() == '"') {
      next.kind = Lexeme::Kind::string;
      std::uint32_t i = at_ + 1;
      while (i < text_.size() && text_[i] != '"' && text_[i] != '\n') i += text_[i] == '\\' ? 2 : 1;
      if (i >= text_.size() || text_[i] != '"') return "expected '\"' at the end of this string";
      at_ = i + 1;
    } else if (is(0, mark)) {
      next.kind = Lexeme::Kind::mark;
      next.mark = text_[at_++];
    } else {
      return "expected PTX, found a character it does not have";
    }
    return nullptr;
  }

  // A '.' right after a word continues an opcode (tex.2d); elsewhere, before a digit, it starts a number.
  bool follows_word() const { return at_ > 0 && (classes[std::uint8_t(text_[at_ - 1])] & word); }

  void skip_number() {
    bool prefixed = peek() == '0' && is(1, start) && peek(1) != 'e' && peek(1) != 'E';  // 0x 0b 0f 0d 0u
    while (is(0, word) || (!prefixed && peek() == '.' && (is(1, digit) || !is(1, word)))) {
      bool exponent = !prefixed && (peek() == 'e' || peek() == 'E');
      ++at_;
      if (exponent && (peek() == '+' || peek() == '-') && is(1, digit)) ++at_;
    }
  }

  std::string_view text_, origin_;
  std::uint32_t at_ = 0, line_ = 1;
  std::vector<Lexeme> lexemes_;
};

}  // namespace

Expected<std::vector<Lexeme>> lex(std::string_view text, std::string_view origin) { return Lexer(text, origin).run(); }

std::string place(std::string_view text, std::string_view origin, std::size_t offset) {
  offset = std::min(offset, text.size());
  std::size_t line = 1 + std::size_t(std::count(text.begin(), text.begin() + std::ptrdiff_t(offset), '\n'));
  std::size_t newline = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  std::size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  return std::string(origin) + ":" + std::to_string(line) + ":" + std::to_string(column);
}

}  // namespace deadheat::ptx
