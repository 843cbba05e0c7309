// A report as text while it is written: lines, paragraphs, and the sides of races with their source lines quoted.
//
// Thread-safety: none; reads source files named in the sides.
#pragma once

#include <string>

#include "analyzer/report/layout.h"
#include "analyzer/report/source_lines.h"
#include "analyzer/report/text.h"
#include "deadheat/race.h"

namespace deadheat::report {

class Page {
 public:
  explicit Page(const TextOptions& options);

  void line(const std::string& text = "") { text_ += text + "\n"; }
  void paragraph(const std::string& text, const std::string& indent = "  "); // broken where it does not fit
  void sides(const RaceSide& first, const RaceSide& second); // side by side, or one below the other: paths are whole
  void side(const std::string& heading, const RaceSide& which); // an empty heading is left out
  void code(const RaceSide& where); // the instruction's alone: no one thread of it stands out
  std::string colored(const char* code, const std::string& text) const; // an ANSI code, where colors are asked for
  std::string text() && { return std::move(text_); }

 private:
  Lines rows_of(const std::string& heading, const RaceSide& side, std::size_t column);
  void frames(Lines& lines, const RaceSide& side, std::size_t column);
  void quote(Lines& lines, const SourceFrame& frame, std::size_t column);

  const TextOptions& options_;
  std::size_t width_;
  SourceLines sources_;
  std::string text_;
};

} // namespace deadheat::report
