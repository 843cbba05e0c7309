#include "analyzer/report/names.h"

#include <utility>

#include "analyzer/report/words.h"

namespace deadheat {

// The op that comes first in AccessKind is named first, whichever access ran first: a pair of source lines keeps its
// kind from run to run.
std::string Race::kind() const {
  AccessKind one = first.op, two = second.op;
  if (two < one) std::swap(one, two);
  return std::string(word(one)) + "-" + word(two);
}

namespace report {

namespace {

// Length of the UTF-8 sequence that `text` begins with, 0 if it begins with none (RFC 3629).
std::size_t sequence_length(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  auto follows = [&](std::size_t count) {
    if (text.size() <= count) return false;
    for (std::size_t i = 1; i <= count; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return false;
    }
    return true;
  };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!follows(2) || (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!follows(3) || (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

} // namespace

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::size_t length = sequence_length(text);
    if (length) {
      out.append(text.substr(0, length));
    } else {
      out.append("\xEF\xBF\xBD");
    }
    text.remove_prefix(length ? length : 1);
  }
  return out;
}

std::string printable(std::string_view text) {
  std::string result = valid_utf8(text);
  for (std::size_t at = 0; at < result.size(); ++at) {
    unsigned char c = static_cast<unsigned char>(result[at]);
    if (c == '\t' || c == '\n') result[at] = ' ';
    if (result[at] != ' ' && (c < 0x20 || c == 0x7f)) result[at] = '?';
    // U+0080 … U+009F: control characters of two bytes.
    bool control = c == 0xc2 && at + 1 < result.size() && static_cast<unsigned char>(result[at + 1]) < 0xa0;
    if (control) result.replace(at, 2, "?");
  }
  return result;
}

} // namespace report
} // namespace deadheat
