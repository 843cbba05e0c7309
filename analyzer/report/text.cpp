#include "analyzer/report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "analyzer/order/stream_order.h"
#include "analyzer/report/names.h"
#include "analyzer/report/place.h"
#include "analyzer/report/source_lines.h"
#include "analyzer/report/words.h"
#include "tracer/ptx/demangle.h"

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
std::string triple(const Dim3& at) { return fmt::format("({},{},{})", at.x, at.y, at.z); }

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; } // UTF-8

// In characters, all taken to be of one column.
std::size_t width_of(const std::string& text) {
  return text.size() - std::size_t(std::count_if(text.begin(), text.end(), continues_character));
}

// Where the first `width` characters of `text` end.
std::size_t end_of(const std::string& text, std::size_t width) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!continues_character(text[at]) && width-- == 0) break;
  }
  return at;
}

// A word that a shell takes as it is.
std::string shell_word(const std::string& text) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=:,@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Breaks at blanks; a word that does not fit is cut.
Lines wrapped(const std::string& text, std::size_t width, const std::string& further = "") {
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

// A name that somebody is to recognize; whole in JSON.
std::string brief(const std::string& name, std::size_t width) {
  return cut(printable(ptx::shortened(name, width)), width);
}

class Writer {
 public:
  explicit Writer(const TextOptions& options) : options_(options), width_(std::max(60u, options.width)) {}

  void line(const std::string& text = "") { text_ += text + "\n"; }
  void paragraph(const std::string& text, const std::string& indent = "  ") {
    for (const std::string& part : wrapped(text, width_ - indent.size())) line(indent + part);
  }
  void sides(const RaceSide& first, const RaceSide& second) {
    std::size_t column = (width_ - 6) / 2;
    std::string one = std::string("first: ") + word(first.op), two = std::string("second: ") + word(second.op);
    const auto fits = [&](const RaceSide& side) {
      const Lines whole = places(side);
      return std::all_of(whole.begin(), whole.end(), [&](const std::string& text) { return width_of(text) <= column; });
    };
    if (!fits(first) || !fits(second)) {
      block(one, first);
      line();
      block(two, second);
      return;
    }
    Lines left = side(one, first, column), right = side(two, second, column);
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

  void block(const std::string& heading, const RaceSide& which) {
    for (const std::string& row : side(heading, which, width_ - 2)) line("  " + row);
  }

  void race(const Race& race);
  void site(const RaceSide& where);
  void order_dependent(const OrderDependent& entry);
  void precision(const Precision& precision, std::uint64_t schedules);
  void output(const OutputPrecision& output, std::uint64_t schedules);
  void fault(const Fault& fault, const char* what, const std::string& heading);
  std::string text() && { return std::move(text_); }

 private:
  // Lines of a side that are not broken.
  static Lines places(const RaceSide& side);
  void frames(Lines& lines, const RaceSide& side, std::size_t column);
  // An empty heading is left out.
  Lines side(const std::string& heading, const RaceSide& side, std::size_t column);
  void quote(Lines& lines, const SourceFrame& frame, std::size_t column);
  void verdict(const Race& race);
  void interleaving(const Race& race, const std::vector<WitnessStep>& steps, const std::string& title);
  std::string headline_verdict(const Race& race) const;
  std::string colored(const char* code, const std::string& text) const {
    return options_.color ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
  }

  const TextOptions& options_;
  std::size_t width_;
  SourceLines sources_;
  std::string text_;
};

void Writer::quote(Lines& lines, const SourceFrame& frame, std::size_t column) {
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

Lines Writer::places(const RaceSide& side) {
  Lines lines;
  const auto [from, to] = left_out(side);
  for (std::size_t i = innermost_shown(side); i < side.source.size(); ++i) {
    if (i < from || i >= to) lines.push_back(frame_line(side, i));
  }
  return lines;
}

void Writer::frames(Lines& lines, const RaceSide& side, std::size_t column) {
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

Lines Writer::side(const std::string& heading, const RaceSide& side, std::size_t column) {
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
    add("operation " + number(std::uint64_t(side.name.operation)) + " of stream " + number(std::uint64_t(side.stream)));
  }
  if (!side.called_at.empty()) add("submitted from " + brief(side.called_at, most_of_kernel));
  if (own) quote(lines, *own, column);
  return lines;
}

void Writer::verdict(const Race& race) {
  switch (race.verdict) {
    case Verdict::none: return;
    case Verdict::harmful:
      paragraph("harmful: the outputs differ with its order (" + counted(race.schedules, "schedule", "schedules") +
                " tried)");
      break;
    case Verdict::benign:
      paragraph("benign: the outputs agree in all " + counted(race.schedules, "schedule", "schedules") + " tried");
      break;
    case Verdict::unreached:
      paragraph("unreached: no schedule of " + number(race.schedules) + " could reverse it");
      break;
  }
  if (!race.verdict_why.empty()) paragraph(printable(race.verdict_why), "    ");
  for (const Difference& entry : race.differences) {
    std::string text;
    if (entry.allocation || entry.elements) {
      text = "allocation " + number(std::uint64_t(entry.allocation)) + ", from byte " + number(entry.offset) + ": " +
             counted(entry.elements, "element", "elements") +
             (entry.type.empty() ? "" : " (" + printable(entry.type) + ")") +
             (entry.elements == 1 ? " differs" : " differ") + ", by up to " + number(entry.max_abs) +
             (entry.max_relative > 0 ? ", relative " + number(entry.max_relative) : "") +
             (entry.max_ulp ? " or " + number(entry.max_ulp) + " ULP" : "") + "; at byte " +
             number(entry.example.offset) + ": " + number(entry.example.a) + " against " + number(entry.example.b);
    }
    if (!entry.note.empty()) text += (text.empty() ? "" : "; ") + printable(entry.note);
    if (!text.empty()) paragraph(text, "    ");
  }
  if (race.verdict == Verdict::harmful) {
    interleaving(race, race.steps_a, "one run");
    interleaving(race, race.steps_b,
                 "the other, with " + counted(race.context_switches, "context switch more", "context switches more"));
  }
  if (race.verdict == Verdict::harmful && race.smaller) {
    const SmallerRun& s = *race.smaller;
    paragraph(counted(s.threads, "thread", "threads") + " in " + counted(s.blocks, "block", "blocks") +
                  " suffice, of " + std::to_string(s.of_threads) + " in " + std::to_string(s.of_blocks) +
                  ": when the others leave at once the outputs differ as well",
              "  ");
  }
  if (race.witness.empty()) return;
  line("  witness: " + printable(race.witness));
  line("  see it again: deadheat replay --witness " + shell_word(printable(race.witness))); // whole, to be copied
}

// What the two threads did, a column each.
void Writer::interleaving(const Race& race, const std::vector<WitnessStep>& steps, const std::string& title) {
  if (steps.empty()) return;
  auto who = [&](const RaceSide& side) {
    if (race.witnessed) { // linear: the side's coordinates are another's
      const AccessName& name = &side == &race.first ? race.witnessed->first : race.witnessed->second;
      return "block " + std::to_string(name.block) + " thread " + std::to_string(name.thread);
    }
    auto three = [](const Dim3& d) {
      return "(" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + ")";
    };
    return "block " + three(side.block) + " thread " + three(side.thread);
  };
  struct Row {
    bool second;
    std::string text, remark;
  };
  std::vector<Row> rows{{false, who(race.first), ""}};
  for (const WitnessStep& step : steps) {
    std::string text = printable(step.place) + (step.copy ? " copy: " : " ") + step.op;
    if (step.bytes) {
      text += (step.shared ? " shared " : " ") + hexadecimal(step.address);
      if (step.op != "write") text += " = " + hexadecimal(step.read);
      if (step.op != "read") text += " := " + hexadecimal(step.written);
    }
    if (step.age) text += " (old)";
    rows.push_back({step.second, text, step.parts ? "  <- the runs part" : ""});
  }
  std::size_t column = 0;
  for (const Row& row : rows)
    if (!row.second) column = std::max(column, row.text.size());
  line("  " + title + ":");
  for (const Row& row : rows) {
    std::string left = row.second ? "" : row.text;
    left.resize(column, ' ');
    const std::string right = &row == rows.data() ? " " + who(race.second) : row.second ? " " + row.text : "";
    line("    " + left + " |" + right + row.remark);
  }
}

std::string Writer::headline_verdict(const Race& race) const {
  switch (race.verdict) {
    case Verdict::none: break;
    case Verdict::harmful: return ", " + colored("1;31", "HARMFUL");
    case Verdict::benign: return ", " + colored("32", "benign");
    case Verdict::unreached: return ", " + colored("33", "unreached");
  }
  return "";
}

void Writer::race(const Race& race) {
  const char* where = race.level == RaceLevel::shared   ? "in shared memory"
                      : race.level == RaceLevel::global ? "in global memory, inside one launch"
                                                        : "between operations";
  line(colored("1", "race " + number(std::uint64_t(race.id)) + ": " + race.kind() + " " + where +
                        (race.race_class == RaceClass::strong ? ", of strong accesses" : "") +
                        (race.certainty == Certainty::possible ? ", possible" : "")) +
       headline_verdict(race) + ", " + counted(race.occurrences, "occurrence", "occurrences") +
       (race.suppressed ? " [suppressed]" : ""));
  if (!race.why.empty()) paragraph(printable(race.why));
  line();
  sides(race.first, race.second);
  line();
  std::string at = counted(race.bytes, "byte", "bytes") + " at ";
  at += (race.level == RaceLevel::shared ? "shared address " : "") + hexadecimal(race.address);
  if (race.allocation) {
    at += ", byte " + number(race.allocation->offset) + " of allocation " + number(std::uint64_t(race.allocation->id)) +
          " (" + counted(race.allocation->size, "byte", "bytes") + ")";
  }
  paragraph(at);
  if (race.explored) paragraph("not in the recorded run: explored schedule " + number(race.explored) + " exposed it");
  verdict(race);
  line();
}

// The code of an order-dependent atomic: no one thread of it stands out.
void Writer::site(const RaceSide& where) {
  paragraph("in " + brief(ptx::demangle(where.kernel), 250) + in_brackets(where.opcode));
  Lines lines;
  frames(lines, where, width_ - 2);
  if (const SourceFrame* own = own_frame(where.source)) quote(lines, *own, width_ - 2);
  for (const std::string& row : lines) line("  " + row);
}

void Writer::order_dependent(const OrderDependent& entry) {
  const bool atomic = entry.how == "atomic";
  line("order-dependent: " + printable(entry.atomic) + (atomic ? "" : " by " + printable(entry.how)) +
       " on one location from unordered threads, " + counted(entry.occurrences, "occurrence", "occurrences") +
       " (not a race; sums of floats depend on their order)");
  site(entry.site);
  if (entry.schedules) {
    paragraph("spread of " + number(entry.max_ulp) + " ULP over " + counted(entry.schedules, "schedule", "schedules"));
  }
  if (entry.precision) precision(*entry.precision, entry.schedules);
  line();
}

void Writer::precision(const Precision& p, std::uint64_t schedules) {
  const std::string of = counted(p.values, "value", "values");
  switch (p.rightness) {
    case Rightness::right:
      paragraph("right in every schedule (" + number(schedules) + "): of " + of +
                " none is further from the same computation in double than its roundings explain");
      break;
    case Rightness::wrong:
      paragraph("wrong in every schedule (" + number(schedules) + "): " + number(p.wrong) + " of " + of +
                (p.wrong == 1 ? " is" : " are") +
                " further from the same computation in double than roundings explain");
      break;
    case Rightness::by_schedule:
      paragraph("right or wrong by schedule (" + number(schedules) + "): " + number(p.wrong) + " of " + of +
                (p.wrong == 1 ? " is" : " are") +
                " further from the same computation in double, in some, than roundings explain");
      break;
  }
  if (p.max_fp64_ulp == 0) return;
  const Precision::Example& e = p.example;
  paragraph("the furthest: " + number(e.value) + " for " + number(e.fp64) + ", " + number(e.ulp) + " ULP where its " +
            counted(e.roundings, "rounding explains ", "roundings explain ") + number(e.tolerance_ulp) +
            "; allocation " + number(std::uint64_t(e.allocation)) + ", offset " + number(e.offset));
  if (!p.lost_at) return;
  line("  the precision goes");
  site(*p.lost_at);
}

void Writer::output(const OutputPrecision& output, std::uint64_t schedules) {
  line("precision: what the host reads of allocation " + number(std::uint64_t(output.allocation)) + ", " +
       printable(output.type));
  precision(output.precision, schedules);
  line();
}

void Writer::fault(const Fault& fault, const char* what, const std::string& heading) {
  line(std::string(what) + ": " + printable(fault.kind) +
       (fault.bytes ? ", " + counted(fault.bytes, "byte", "bytes") + " at " + hexadecimal(fault.address) : ""));
  if (!fault.text.empty()) paragraph(printable(fault.text));
  block(heading, fault.side);
  if (fault.nearest) {
    paragraph("nearest: allocation " + number(std::uint64_t(fault.nearest->id)) + " of " +
              counted(fault.nearest->size, "byte", "bytes") + ", at its byte " +
              std::to_string(std::int64_t(fault.nearest->offset))); // negative before its begin
  }
  line();
}

// "3 races (2 harmful, 1 unreached, 1 of strong accesses)".
std::string total_of(const std::vector<Race>& races) {
  std::uint64_t shown = 0, suppressed = 0, possible = 0, strong = 0, verdicts[4] = {};
  for (const Race& race : races) {
    ++(race.suppressed ? suppressed : shown);
    if (race.suppressed) continue;
    if (std::size_t(race.verdict) < std::size(verdicts)) ++verdicts[std::size_t(race.verdict)];
    if (!is_sure(race)) ++(race.certainty == Certainty::possible ? possible : strong);
  }
  std::string parts;
  auto add = [&](std::uint64_t count, const std::string& text) {
    if (count) parts += (parts.empty() ? "" : ", ") + number(count) + " " + text;
  };
  for (Verdict verdict : {Verdict::harmful, Verdict::benign, Verdict::unreached}) {
    add(verdicts[std::size_t(verdict)], word(verdict));
  }
  if (verdicts[0] != shown) add(verdicts[0], "not replayed");
  add(possible, "only possible");
  add(strong, "of strong accesses");
  add(suppressed, "suppressed besides");
  return (shown ? counted(shown, "race", "races") : "no races") + (parts.empty() ? "" : " (" + parts + ")");
}

// The counts in the shape of compute-sanitizer's last lines, for the scripts that look for these. A race that counts
// only with --strict is a warning.
void summary_lines(Writer& writer, const Analysis& analysis, std::uint64_t shown) {
  std::uint64_t errors = 0, warnings = 0;
  for (const Race& race : analysis.races) {
    if (race.suppressed) continue;
    ++(is_sure(race) ? errors : warnings);
  }
  writer.line("========= RACECHECK SUMMARY: " + counted(shown, "hazard", "hazards") + " displayed (" +
              counted(errors, "error", "errors") + ", " + counted(warnings, "warning", "warnings") + ")");
  std::uint64_t all = errors + analysis.memory_errors.size() + analysis.sync_errors.size();
  writer.line("========= ERROR SUMMARY: " + counted(all, "error", "errors"));
}

} // namespace

std::string to_text(const Analysis& analysis, const TextOptions& options) {
  Writer writer(options);
  std::uint64_t shown = 0, left_out = 0;
  for (const Race& race : analysis.races) {
    if (race.suppressed && !options.show_suppressed) continue;
    if (options.limit && shown == options.limit) {
      ++left_out;
      continue;
    }
    ++shown;
    writer.race(race);
  }
  if (left_out) {
    writer.line("and " + counted(left_out, "more race", "more races") + " (all of them: --json FILE)");
    writer.line();
  }
  for (const OrderDependent& entry : analysis.order_dependent) writer.order_dependent(entry);
  if (analysis.precision) {
    for (const OutputPrecision& output : analysis.precision->outputs)
      writer.output(output, analysis.precision->schedules);
    if (const std::uint64_t restarts = analysis.precision->restarts)
      writer.line(counted(restarts, "value", "values") +
                  " started again in double where code takes floats apart by integer arithmetic");
  }
  for (const Fault& fault : analysis.memory_errors) writer.fault(fault, "memory error", word(fault.side.op));
  for (const Fault& fault : analysis.sync_errors) writer.fault(fault, "synchronization error", "");

  const Summary& summary = analysis.summary;
  if (summary.assumed_edges) {
    writer.line(counted(summary.assumed_edges, "synchronization was", "synchronizations were") +
                " assumed: which write an acquire saw is not known exactly");
  }
  if (summary.opaque) {
    writer.line(counted(summary.opaque, "launch was", "launches were") + " opaque: of these only footprints are known");
    const bool possible = std::any_of(analysis.races.begin(), analysis.races.end(),
                                      [](const Race& race) { return race.certainty == Certainty::possible; });
    if (possible) {
      writer.line(
          "a footprint is the blocks of PyTorch's allocator, or the allocations, that the arguments point into;");
      writer.line("where that allocator is not followed, many tensors share an allocation, and some of these are none");
    }
  }
  summary_lines(writer, analysis, shown);
  std::string total = "deadheat: " + total_of(analysis.races);
  if (!analysis.order_dependent.empty()) {
    total += ", " + counted(analysis.order_dependent.size(), "order-dependent atomic", "order-dependent atomics");
  }
  if (!analysis.memory_errors.empty()) {
    total += ", " + counted(analysis.memory_errors.size(), "memory error", "memory errors");
  }
  if (!analysis.sync_errors.empty()) {
    total += ", " + counted(analysis.sync_errors.size(), "synchronization error", "synchronization errors");
  }
  // A witness on its own comes without the counts of a trace.
  if (summary.launches || summary.accesses) {
    total += " in " + counted(summary.launches, "launch", "launches") + ", " +
             counted(summary.accesses, "access", "accesses");
  }
  total += summary.complete ? "; trace complete" : "; trace incomplete: there may be more";
  writer.line(total);
  return std::move(writer).text();
}

} // namespace deadheat::report
