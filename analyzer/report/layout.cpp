#include "analyzer/report/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "analyzer/report/names.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::report {

namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; } // UTF-8

// Where the first `width` characters of `text` end.
std::size_t end_of(const std::string& text, std::size_t width) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!continues_character(text[at]) && width-- == 0) break;
  }
  return at;
}

} // namespace

std::string number(std::uint64_t value) { return std::to_string(value); }
std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}
std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}
std::string triple(const Dim3& at) { return fmt::format("({},{},{})", at.x, at.y, at.z); }

std::size_t width_of(const std::string& text) {
  return text.size() - std::size_t(std::count_if(text.begin(), text.end(), continues_character));
}

Lines wrapped(const std::string& text, std::size_t width, const std::string& further) {
  Lines lines;
  std::string rest = text;
  while (width_of(rest) > width) {
    const std::size_t end = end_of(rest, width);
    std::size_t at = rest.rfind(' ', end);
    if (at == std::string::npos || at <= rest.find_first_not_of(' ')) at = end;
    lines.push_back(rest.substr(0, at));
    std::size_t next = rest.find_first_not_of(' ', at);
    if (next == std::string::npos) return lines;
    rest = further + rest.substr(next);
  }
  lines.push_back(rest);
  return lines;
}

std::string cut(const std::string& text, std::size_t width) {
  if (width_of(text) <= width) return text;
  return text.substr(0, end_of(text, width > 1 ? width - 1 : width)) + "~";
}

std::string brief(const std::string& name, std::size_t width) {
  return cut(printable(ptx::shortened(name, width)), width);
}

} // namespace deadheat::report
