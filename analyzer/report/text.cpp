#include "analyzer/report/text.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "analyzer/report/source_lines.h"
#include "analyzer/report/words.h"

namespace deadheat::report {

namespace {

using Lines = std::vector<std::string>;

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
std::string counted(std::uint64_t count, const std::string& singular, const std::string& plural) {
  return number(count) + " " + (count == 1 ? singular : plural);
}
std::string triple(const Dim3& at) {
  return "(" + number(std::uint64_t(at.x)) + "," + number(std::uint64_t(at.y)) + "," + number(std::uint64_t(at.z)) + ")";
}

// Breaks at blanks; a word that does not fit is cut.
Lines wrapped(const std::string& text, std::size_t width, const std::string& further = "") {
  Lines lines;
  std::string rest = text;
  while (rest.size() > width) {
    std::size_t at = rest.rfind(' ', width);
    if (at == std::string::npos || at <= further.size()) at = width;
    lines.push_back(rest.substr(0, at));
    std::size_t next = rest.find_first_not_of(' ', at);
    if (next == std::string::npos) return lines;
    rest = further + rest.substr(next);
  }
  lines.push_back(rest);
  return lines;
}

std::string cut(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  // Not through the middle of a character.
  std::size_t end = width > 1 ? width - 1 : width;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "~";
}

class Writer {
 public:
  explicit Writer(const TextOptions& options) : options_(options), width_(std::max(60u, options.width)) {}

  void line(const std::string& text = "") { text_ += text + "\n"; }
  void paragraph(const std::string& text, const std::string& indent = "  ") {
    for (const std::string& part : wrapped(text, width_ - indent.size())) line(indent + part);
  }
  void columns(const Lines& left, const Lines& right) {
    std::size_t column = (width_ - 6) / 2;
    for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
      std::string row = "  " + (i < left.size() ? cut(left[i], column) : "");
      if (i < right.size() && !right[i].empty()) {
        row.resize(std::max(row.size(), column + 4), ' ');
        row += cut(right[i], column);
      }
      line(row);
    }
  }

  void race(const Race& race);
  void order_dependent(const OrderDependent& entry);
  void fault(const Fault& fault, const char* what);
  std::string text() && { return std::move(text_); }

 private:
  Lines side(const char* title, const RaceSide& side);
  void quote(Lines& lines, const SourceFrame& frame);
  void verdict(const Race& race);

  const TextOptions& options_;
  std::size_t width_;
  SourceLines sources_;
  std::string text_;
};

void Writer::quote(Lines& lines, const SourceFrame& frame) {
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
    lines.push_back(row);
  }
}

Lines Writer::side(const char* title, const RaceSide& side) {
  std::size_t column = (width_ - 6) / 2;
  Lines lines;
  auto add = [&](const std::string& text) {
    for (std::string& part : wrapped(text, column, "  ")) lines.push_back(std::move(part));
  };
  add(std::string(title) + ": " + word(side.op) + (side.opcode.empty() ? "" : "  (" + side.opcode + ")"));
  add((is_operation(side) ? "by " : "in ") + (side.kernel.empty() ? std::string("?") : side.kernel));
  for (std::size_t i = 0; i < side.source.size(); ++i) {
    const SourceFrame& frame = side.source[i];
    add((i ? "inlined at " : "at ") + frame.file + ":" + number(std::uint64_t(frame.line)) +
        (frame.function.empty() ? "" : " in " + frame.function));
  }
  if (is_operation(side)) {
    add("operation " + number(std::uint64_t(side.name.operation)) + " of stream " + number(std::uint64_t(side.stream)));
  } else {
    add("launch " + number(std::uint64_t(side.name.launch)) + " in stream " + number(std::uint64_t(side.stream)));
    add("block " + triple(side.block) + " thread " + triple(side.thread) +
        (side.name.nth ? ", execution " + number(side.name.nth + 1) : ""));
    if (side.source.empty()) add("site " + number(std::uint64_t(side.name.site)) + " (compiled without -lineinfo)");
  }
  if (!side.source.empty()) quote(lines, side.source.front());
  return lines;
}

void Writer::verdict(const Race& race) {
  switch (race.verdict) {
    case Verdict::none: return;
    case Verdict::harmful:
      paragraph("HARMFUL: the outputs differ with its order (" + counted(race.schedules, "schedule", "schedules") +
                " tried)");
      break;
    case Verdict::benign:
      paragraph("benign: the outputs agree in all " + counted(race.schedules, "schedule", "schedules") + " tried");
      break;
    case Verdict::unreached:
      paragraph("unreached: no schedule of " + number(race.schedules) + " could reverse it");
      break;
  }
  if (!race.verdict_why.empty()) paragraph(race.verdict_why, "    ");
  for (const Difference& entry : race.differences) {
    std::string text;
    if (entry.allocation || entry.elements) {
      text = "allocation " + number(std::uint64_t(entry.allocation)) + ", from byte " + number(entry.offset) + ": " +
             counted(entry.elements, "element", "elements") + (entry.type.empty() ? "" : " (" + entry.type + ")") +
             (entry.elements == 1 ? " differs" : " differ") + ", by up to " + number(entry.max_abs) +
             (entry.max_ulp ? " or " + number(entry.max_ulp) + " ULP" : "") + "; at byte " +
             number(entry.example.offset) + " " + number(entry.example.a) + " against " + number(entry.example.b);
    }
    if (!entry.note.empty()) text += (text.empty() ? "" : "; ") + entry.note;
    if (!text.empty()) paragraph(text, "    ");
  }
  if (!race.witness.empty()) paragraph("see it again: deadheat replay --witness " + race.witness);
}

void Writer::race(const Race& race) {
  const char* where = race.level == RaceLevel::shared   ? "in shared memory"
                      : race.level == RaceLevel::global ? "in global memory, inside one launch"
                                                        : "between operations";
  line("race " + number(std::uint64_t(race.id)) + ": " + race.kind() + " " + where +
       (race.race_class == RaceClass::strong ? ", of strong accesses" : "") +
       (race.certainty == Certainty::possible ? ", possible" : "") + ", " +
       counted(race.occurrences, "occurrence", "occurrences") + (race.suppressed ? " [suppressed]" : ""));
  paragraph(race.why);
  line();
  columns(side("first", race.first), side("second", race.second));
  line();
  std::string at = counted(race.bytes, "byte", "bytes") + " at ";
  at += (race.level == RaceLevel::shared ? "shared address " : "") + hexadecimal(race.address);
  if (race.allocation) {
    at += ", byte " + number(race.allocation->offset) + " of allocation " +
          number(std::uint64_t(race.allocation->id)) + " (" + counted(race.allocation->size, "byte", "bytes") + ")";
  }
  paragraph(at + (race.same_value ? "; both write the same value" : ""));
  verdict(race);
  line();
}

void Writer::order_dependent(const OrderDependent& entry) {
  line("order-dependent: " + entry.atomic + " on one location from unordered threads, " +
       counted(entry.occurrences, "occurrence", "occurrences") + " (not a race; sums of floats depend on their order)");
  columns(side("site", entry.site), {});
  if (entry.schedules) {
    paragraph("spread of " + number(entry.max_ulp) + " ULP over " + counted(entry.schedules, "schedule", "schedules"));
  }
  line();
}

void Writer::fault(const Fault& fault, const char* what) {
  line(std::string(what) + ": " + fault.kind +
       (fault.bytes ? ", " + counted(fault.bytes, "byte", "bytes") + " at " + hexadecimal(fault.address) : ""));
  if (!fault.text.empty()) paragraph(fault.text);
  columns(side("access", fault.side), {});
  if (fault.nearest) {
    paragraph("nearest: allocation " + number(std::uint64_t(fault.nearest->id)) + " of " +
              counted(fault.nearest->size, "byte", "bytes") + ", at its byte " +
              number(double(std::int64_t(fault.nearest->offset))));
  }
  line();
}

} // namespace

std::string to_text(const Analysis& analysis, const TextOptions& options) {
  Writer writer(options);
  std::uint64_t shown = 0, suppressed = 0;
  for (const Race& race : analysis.races) {
    ++(race.suppressed ? suppressed : shown);
    if (!race.suppressed || options.show_suppressed) writer.race(race);
  }
  for (const OrderDependent& entry : analysis.order_dependent) writer.order_dependent(entry);
  for (const Fault& fault : analysis.memory_errors) writer.fault(fault, "memory error");
  for (const Fault& fault : analysis.sync_errors) writer.fault(fault, "synchronization error");

  const Summary& summary = analysis.summary;
  std::string total = shown ? counted(shown, "race", "races") : std::string("no race");
  if (suppressed) total += " (" + number(suppressed) + " more suppressed)";
  std::uint64_t faults = analysis.memory_errors.size() + analysis.sync_errors.size();
  if (faults) total += ", " + counted(faults, "error", "errors");
  if (!analysis.order_dependent.empty()) {
    total += ", " + counted(analysis.order_dependent.size(), "order-dependent atomic", "order-dependent atomics");
  }
  total += " in " + counted(summary.launches, "launch", "launches");
  if (summary.opaque) total += " (" + number(summary.opaque) + " of them opaque)";
  total += " and " + counted(summary.accesses, "access", "accesses");
  writer.line(total);
  if (summary.assumed_edges) {
    writer.line(counted(summary.assumed_edges, "synchronization was", "synchronizations were") +
                " assumed: which write an acquire saw is not known exactly");
  }
  if (!summary.complete) writer.line("the trace is incomplete: there may be more");
  return std::move(writer).text();
}

} // namespace deadheat::report
