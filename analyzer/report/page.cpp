#include "analyzer/report/page.h"

#include <algorithm>
#include <cstdio>

#include "analyzer/order/stream_order.h"
#include "analyzer/report/names.h"
#include "analyzer/report/place.h"
#include "analyzer/report/words.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::report {

namespace {

std::string in_brackets(const std::string& opcode) { return opcode.empty() ? "" : "  (" + printable(opcode) + ")"; }

std::string place(const SourceFrame& frame) {
  return printable(frame.file.empty() ? "?" : frame.file) + ":" + number(std::uint64_t(frame.line));
}

// The innermost frame that is shown as a place of its own: what a library did inside it is one line.
std::size_t innermost_shown(const RaceSide& side) {
  const SourceFrame* own = own_frame(side.source);
  return own ? std::size_t(own - side.source.data()) : 0;
}

// Frames of long chains that are left out: [first, second).
std::pair<std::size_t, std::size_t> left_out(const RaceSide& side) {
  constexpr std::size_t inner = 3, outer = 1; // that stay
  const std::size_t from = innermost_shown(side) + inner, to = side.source.size() - std::min(outer, side.source.size());
  return from + 1 < to ? std::pair{from, to} : std::pair{side.source.size(), side.source.size()};
}

std::string frame_line(const RaceSide& side, std::size_t index) {
  return (index > innermost_shown(side) ? "inlined at " : "at ") + place(side.source[index]);
}

// Lines of a side that are not broken.
Lines places(const RaceSide& side) {
  Lines lines;
  const auto [from, to] = left_out(side);
  for (std::size_t i = innermost_shown(side); i < side.source.size(); ++i) {
    if (i < from || i >= to) lines.push_back(frame_line(side, i));
  }
  return lines;
}

} // namespace

Page::Page(const TextOptions& options) : options_(options), width_(std::max(60u, options.width)) {}

void Page::paragraph(const std::string& text, const std::string& indent) {
  for (const std::string& part : wrapped(text, width_ - indent.size())) line(indent + part);
}

std::string Page::colored(const char* code, const std::string& text) const {
  return options_.color ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
}

void Page::sides(const RaceSide& first, const RaceSide& second) {
  std::size_t column = (width_ - 6) / 2;
  std::string one = std::string("first: ") + word(first.op), two = std::string("second: ") + word(second.op);
  const auto fits = [&](const RaceSide& side) {
    const Lines whole = places(side);
    return std::all_of(whole.begin(), whole.end(), [&](const std::string& text) { return width_of(text) <= column; });
  };
  if (!fits(first) || !fits(second)) {
    side(one, first);
    line();
    side(two, second);
    return;
  }
  Lines left = rows_of(one, first, column), right = rows_of(two, second, column);
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    std::string row = "  " + (i < left.size() ? cut(left[i], column) : "");
    if (i < right.size() && !right[i].empty()) {
      const std::size_t width = width_of(row);
      row.append(std::max(width, column + 4) - width, ' ');
      row += cut(right[i], column);
    }
    line(row);
  }
}

void Page::side(const std::string& heading, const RaceSide& which) {
  for (const std::string& row : rows_of(heading, which, width_ - 2)) line("  " + row);
}

void Page::code(const RaceSide& where) {
  paragraph("in " + brief(ptx::demangle(where.kernel), 250) + in_brackets(where.opcode));
  Lines lines;
  frames(lines, where, width_ - 2);
  if (const SourceFrame* own = own_frame(where.source)) quote(lines, *own, width_ - 2);
  for (const std::string& row : lines) line("  " + row);
}

void Page::frames(Lines& lines, const RaceSide& side, std::size_t column) {
  constexpr std::size_t most_of_name = 150;
  auto add = [&](const std::string& text) {
    for (std::string& part : wrapped(text, column, "    ")) lines.push_back(std::move(part));
  };
  const std::size_t innermost = innermost_shown(side);
  const auto [from, to] = left_out(side);
  for (std::size_t i = innermost; i < side.source.size(); ++i) {
    const SourceFrame& frame = side.source[i];
    if (i == from) lines.push_back("  and " + counted(to - from, "frame", "frames") + " more, inlined");
    if (i >= from && i < to) continue;
    lines.push_back(frame_line(side, i)); // whole: editors and terminals make it a link
    if (i == innermost && i > 0) {
      const SourceFrame& called = side.source[i - 1];
      const std::string file = called.file.substr(called.file.rfind('/') + 1);
      const std::string name = called.function.empty() ? "a library's code" : ptx::demangle(called.function);
      add("  through " + brief(name, most_of_name) + ", " + printable(file) + ":" + number(std::uint64_t(called.line)) +
          (i > 1 ? " and " + counted(i - 1, "frame", "frames") + " deeper" : ""));
    }
    const std::string function = ptx::demangle(frame.function);
    if (function.empty() || function == ptx::demangle(side.kernel)) continue;
    add("  in " + brief(function, most_of_name));
  }
}

Lines Page::rows_of(const std::string& heading, const RaceSide& side, std::size_t column) {
  Lines lines;
  auto add = [&](const std::string& text) {
    for (std::string& part : wrapped(text, column, "  ")) lines.push_back(std::move(part));
  };
  const SourceFrame* own = own_frame(side.source);
  if (!heading.empty()) add(heading + in_brackets(side.opcode));
  constexpr std::size_t most_of_kernel = 250;
  if (!side.kernel.empty()) {
    add((is_operation(side) ? "by " : "in ") + brief(ptx::demangle(side.kernel), most_of_kernel));
  }
  frames(lines, side, column);
  if (!is_operation(side)) {
    add("block " + triple(side.block) + " thread " + triple(side.thread));
    add("launch " + number(std::uint64_t(side.name.launch)) + " in stream " + number(std::uint64_t(side.stream)) +
        ", execution " + number(side.name.nth + 1) + " by this thread");
    if (!own) add("site " + number(std::uint64_t(side.name.site)) + " (compiled without -lineinfo)");
  } else if (side.name.operation && side.kernel != order::host_itself) {
    const std::string maker = side.stream_maker.substr(side.stream_maker.rfind('/') + 1);
    add("operation " + number(std::uint64_t(side.name.operation)) + " of stream " + number(std::uint64_t(side.stream)) +
        (maker.empty() ? "" : ", which " + printable(maker) + " created"));
  }
  if (!side.called_at.empty()) add("submitted from " + brief(side.called_at, most_of_kernel));
  if (own) quote(lines, *own, column);
  return lines;
}

void Page::quote(Lines& lines, const SourceFrame& frame, std::size_t column) {
  if (!options_.quote_source) return;
  std::uint32_t first = frame.line > options_.context ? frame.line - options_.context : 1;
  Lines quoted;
  std::size_t indent = std::string::npos;
  for (std::uint32_t at = first; at <= frame.line + options_.context; ++at) {
    auto text = sources_.line(frame.file, at);
    if (!text) {
      if (at == frame.line) return; // the file is not the one that was compiled
      continue;
    }
    std::size_t blank = text->find_first_not_of(' ');
    if (blank != std::string::npos) indent = std::min(indent, blank);
    char head[24];
    std::snprintf(head, sizeof head, "%c%5u | ", at == frame.line ? '>' : ' ', at);
    quoted.push_back(head + *text);
  }
  constexpr std::size_t head = 9;
  for (std::string& row : quoted) {
    if (indent != std::string::npos && row.size() > head) row.erase(head, std::min(indent, row.size() - head));
    if (row[0] != '>') {
      lines.push_back(cut(row, column));
      continue;
    }
    for (std::string& part : wrapped(row, column, std::string(head + 2, ' '))) lines.push_back(std::move(part));
  }
}

} // namespace deadheat::report
