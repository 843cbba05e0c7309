// Cuts PTX text into lexemes (PTX ISA 4.1 to 4.5).
//
// Invariants: every byte of the text is in exactly one lexeme, as its leading trivia [trivia, begin) or as its text
// [begin, end); the last lexeme is Lexeme::Kind::end, whose trivia runs to the end of the text. Runs in linear time on
// any bytes; texts of 4 GiB and more are refused.
//
// Thread-safety: a pure function.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "deadheat/expected.h"

namespace deadheat::ptx {

struct Lexeme {
  enum class Kind : std::uint8_t {
    identifier,  // ld, %r1, $L__BB0_1, _
    dotted,      // .global, .shared::cluster, .2d
    number,      // 42, 0x2a, 0f3F800000, 1.5e-3
    string,      // "nounroll", quotes included
    mark,        // one punctuation character
    end
  };
  std::uint32_t trivia = 0, begin = 0, end = 0;  // byte offsets into the text
  std::uint32_t line = 0;                        // of `begin`, 1-based
  Kind kind = Kind::end;
  char mark = 0;  // of marks
};

// Fails on an unterminated comment or string and on characters that PTX does not have; `origin` names the text.
Expected<std::vector<Lexeme>> lex(std::string_view text, std::string_view origin);

// "origin:line:column" of a byte offset; columns count bytes from 1.
std::string place(std::string_view text, std::string_view origin, std::size_t offset);

}  // namespace deadheat::ptx
