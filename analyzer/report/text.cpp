#include "analyzer/report/text.h"

#include <algorithm>
#include <map>

#include "analyzer/report/names.h"
#include "analyzer/report/page.h"
#include "analyzer/report/place.h"
#include "analyzer/report/suppress.h"
#include "analyzer/report/words.h"

namespace deadheat::report {

namespace {

// A word that a shell takes as it is.
std::string shell_word(const std::string& text) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=:,@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// What the two threads did, a column each.
void interleaving(Page& page, const Race& race, const std::vector<WitnessStep>& steps, const std::string& title) {
  if (steps.empty()) return;
  auto who = [&](const RaceSide& side) {
    if (race.witnessed) { // linear: the side's coordinates are another's
      const AccessName& name = &side == &race.first ? race.witnessed->first : race.witnessed->second;
      return "block " + std::to_string(name.block) + " thread " + std::to_string(name.thread);
    }
    return "block " + triple(side.block) + " thread " + triple(side.thread);
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
  page.line("  " + title + ":");
  for (const Row& row : rows) {
    std::string left = row.second ? "" : row.text;
    left.resize(column, ' ');
    const std::string right = &row == rows.data() ? " " + who(race.second) : row.second ? " " + row.text : "";
    page.line("    " + left + " |" + right + row.remark);
  }
}

void verdict(Page& page, const Race& race, bool steps) {
  switch (race.verdict) {
    case Verdict::none: return;
    case Verdict::harmful:
      page.paragraph("harmful: the outputs differ with its order (" + counted(race.schedules, "schedule", "schedules") +
                     " tried)");
      break;
    case Verdict::benign:
      page.paragraph(race.schedules ? "benign: the outputs agree in all " +
                                          counted(race.schedules, "schedule", "schedules") + " tried"
                                    : "benign: its order shows in nothing that the two do");
      break;
    case Verdict::unreached:
      page.paragraph("unreached: no schedule of " + number(race.schedules) + " tells what its order changes");
      break;
  }
  if (!race.verdict_why.empty()) page.paragraph(printable(race.verdict_why), "    ");
  for (const Difference& entry : race.differences) {
    std::string text;
    if (entry.allocation || entry.elements) {
      text = "allocation " + number(std::uint64_t(entry.allocation)) + ", from byte " + number(entry.offset) + ": " +
             counted(entry.elements, "element", "elements") +
             (entry.type.empty() ? "" : " (" + printable(entry.type) + ")") +
             (entry.elements == 1 ? " differs" : " differ") +
             (entry.max_abs > 0 ? ", by up to " + number(entry.max_abs) : "") + // 0 where no two numbers differ: NaN
             (entry.max_relative > 0 ? ", relative " + number(entry.max_relative) : "") +
             (entry.max_ulp ? " or " + number(entry.max_ulp) + " ULP" : "") + "; at byte " +
             number(entry.example.offset) + ": " + number(entry.example.a) + " against " + number(entry.example.b);
    }
    if (!entry.note.empty()) text += (text.empty() ? "" : "; ") + printable(entry.note);
    if (!text.empty()) page.paragraph(text, "    ");
  }
  if (race.verdict == Verdict::harmful && steps) {
    interleaving(page, race, race.steps_a, "one run");
    interleaving(page, race, race.steps_b,
                 "the other, with " + counted(race.context_switches, "context switch more", "context switches more"));
  }
  if (race.verdict == Verdict::harmful && race.smaller) {
    const SmallerRun& s = *race.smaller;
    page.paragraph(counted(s.threads, "thread", "threads") + " in " + counted(s.blocks, "block", "blocks") +
                       " suffice, of " + std::to_string(s.of_threads) + " in " + std::to_string(s.of_blocks) +
                       ": when the others leave at once the outputs differ as well",
                   "  ");
  }
  if (race.witness.empty()) return;
  page.line("  witness: " + printable(race.witness));
  page.line("  see it again: deadheat replay --witness " + shell_word(printable(race.witness))); // whole, to be copied
}

std::string headline_verdict(const Page& page, const Race& race) {
  switch (race.verdict) {
    case Verdict::none: break;
    case Verdict::harmful: return ", " + page.colored("1;31", "HARMFUL");
    case Verdict::benign: return ", " + page.colored("32", "benign");
    case Verdict::unreached: return ", " + page.colored("33", "unreached");
  }
  return "";
}

// "write (st.global.u32) in fill(int*), a.cu:12".
std::string in_a_line(const RaceSide& side) {
  std::string text = word(side.op);
  if (!side.opcode.empty()) text += " (" + printable(side.opcode) + ")";
  text += (side.name.launch ? " in " : " by ") + printable(side.kernel);
  if (const SourceFrame* frame = own_frame(side.source))
    text += ", " + printable(frame->file) + ":" + std::to_string(frame->line);
  return text;
}

// `shown`: the one that is the same fault, which has its sides, and how it comes about, in full.
void write(Page& page, const Race& race, const Race* shown) {
  const char* where = race.level == RaceLevel::shared   ? "in shared memory"
                      : race.level == RaceLevel::global ? "in global memory, inside one launch"
                                                        : "between operations";
  page.line(page.colored("1", "race " + number(std::uint64_t(race.id)) + ": " + race.kind() + " " + where +
                                  (race.race_class == RaceClass::strong ? ", of strong accesses" : "") +
                                  (race.certainty == Certainty::possible ? ", possible" : "")) +
            headline_verdict(page, race) + ", " + counted(race.occurrences, "occurrence", "occurrences") +
            (race.suppressed ? " [suppressed]" : ""));
  for (const std::string& kernel : suppressed_in(race)) page.line("[suppressed in " + printable(kernel) + "]");
  if (!race.why.empty()) page.paragraph(printable(race.why));
  if (shown) {
    page.paragraph("the same fault as race " + number(std::uint64_t(race.same_fault_as)) +
                   ": what orders that orders this");
    page.paragraph("first: " + in_a_line(race.first));
    page.paragraph("second: " + in_a_line(race.second));
  } else {
    page.line();
    page.sides(race.first, race.second);
    page.line();
  }
  std::string at = counted(race.bytes, "byte", "bytes") + " at ";
  at += (race.level == RaceLevel::shared ? "shared address " : "") + hexadecimal(race.address);
  if (race.allocation) {
    at += ", byte " + number(race.allocation->offset) + " of allocation " + number(std::uint64_t(race.allocation->id)) +
          " (" + counted(race.allocation->size, "byte", "bytes") + ")";
  }
  page.paragraph(at);
  if (race.explored)
    page.paragraph("not in the recorded run: explored schedule " + number(race.explored) + " exposed it");
  verdict(page, race, !shown || shown->verdict != Verdict::harmful);
  page.line();
}

void write(Page& page, const Precision& p, std::uint64_t schedules) {
  const std::string of = counted(p.values, "value", "values");
  switch (p.rightness) {
    case Rightness::right:
      page.paragraph("right in every schedule (" + number(schedules) + "): of " + of +
                     " none is further from the same computation in double than its roundings explain");
      break;
    case Rightness::wrong:
      page.paragraph("wrong in every schedule (" + number(schedules) + "): " + number(p.wrong) + " of " + of +
                     (p.wrong == 1 ? " is" : " are") +
                     " further from the same computation in double than roundings explain");
      break;
    case Rightness::by_schedule:
      page.paragraph("right or wrong by schedule (" + number(schedules) + "): " + number(p.wrong) + " of " + of +
                     (p.wrong == 1 ? " is" : " are") +
                     " further from the same computation in double, in some, than roundings explain");
      break;
  }
  if (p.max_fp64_ulp == 0) return;
  const Precision::Example& e = p.example;
  page.paragraph("the furthest: " + number(e.value) + " for " + number(e.fp64) + ", " + number(e.ulp) +
                 " ULP where its " + counted(e.roundings, "rounding explains ", "roundings explain ") +
                 number(e.tolerance_ulp) + "; allocation " + number(std::uint64_t(e.allocation)) + ", offset " +
                 number(e.offset));
  if (!p.lost_at) return;
  page.line("  the precision goes");
  page.code(*p.lost_at);
}

void write(Page& page, const OrderDependent& entry) {
  const bool atomic = entry.how == "atomic";
  page.line("order-dependent: " + printable(entry.atomic) + (atomic ? "" : " by " + printable(entry.how)) +
            " on one location from unordered threads, " + counted(entry.occurrences, "occurrence", "occurrences") +
            " (not a race; sums of floats depend on their order)");
  page.code(entry.site);
  if (entry.schedules) {
    page.paragraph("spread of " + number(entry.max_ulp) + " ULP over " +
                   counted(entry.schedules, "schedule", "schedules"));
  }
  if (entry.precision) write(page, *entry.precision, entry.schedules);
  page.line();
}

void write(Page& page, const OutputPrecision& output, std::uint64_t schedules) {
  page.line("precision: what the host reads of allocation " + number(std::uint64_t(output.allocation)) + ", " +
            printable(output.type));
  write(page, output.precision, schedules);
  page.line();
}

void write(Page& page, const Fault& fault, const char* what, const std::string& heading) {
  page.line(std::string(what) + ": " + printable(fault.kind) +
            (fault.bytes ? ", " + counted(fault.bytes, "byte", "bytes") + " at " + hexadecimal(fault.address) : ""));
  if (!fault.text.empty()) page.paragraph(printable(fault.text));
  const RaceSide& side = fault.side;
  if (!side.kernel.empty() || !side.source.empty() || !side.called_at.empty()) page.side(heading, side);
  if (fault.nearest) {
    page.paragraph("nearest: allocation " + number(std::uint64_t(fault.nearest->id)) + " of " +
                   counted(fault.nearest->size, "byte", "bytes") + ", at its byte " +
                   std::to_string(std::int64_t(fault.nearest->offset))); // negative before its begin
  }
  page.line();
}

// "3 races of 2 faults (2 harmful, 1 unreached, 1 of strong accesses)".
std::string total_of(const Analysis& analysis) {
  std::uint64_t shown = 0, suppressed = 0, possible = 0, strong = 0, verdicts[4] = {};
  for (const Race& race : analysis.races) {
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
  const std::uint64_t made_by = faults(analysis);
  const std::string of = made_by < shown ? " of " + counted(made_by, "fault", "faults") : "";
  return (shown ? counted(shown, "race", "races") + of : "no races") + (parts.empty() ? "" : " (" + parts + ")");
}

// The counts in the shape of compute-sanitizer's last lines, for the scripts that look for these. A race that counts
// only with --strict is a warning.
void summary_lines(Page& page, const Analysis& analysis, std::uint64_t shown) {
  std::uint64_t errors = 0, warnings = 0;
  for (const Race& race : analysis.races) {
    if (race.suppressed) continue;
    ++(is_sure(race) ? errors : warnings);
  }
  page.line("========= RACECHECK SUMMARY: " + counted(shown, "hazard", "hazards") + " displayed (" +
            counted(errors, "error", "errors") + ", " + counted(warnings, "warning", "warnings") + ")");
  std::uint64_t all = errors + analysis.memory_errors.size() + analysis.sync_errors.size();
  page.line("========= ERROR SUMMARY: " + counted(all, "error", "errors"));
}

} // namespace

std::string to_text(const Analysis& analysis, const TextOptions& options) {
  Page page(options);
  std::uint64_t shown = 0, left_out = 0;
  std::map<std::uint32_t, const Race*> in_full; // by id
  for (const Race& race : analysis.races) {
    if (race.suppressed && !options.show_suppressed) continue;
    if (options.limit && shown == options.limit) {
      ++left_out;
      continue;
    }
    ++shown;
    const auto known = race.same_fault_as ? in_full.find(race.same_fault_as) : in_full.end();
    if (known == in_full.end()) in_full.emplace(race.id, &race);
    write(page, race, known == in_full.end() ? nullptr : known->second);
  }
  if (left_out) {
    page.line("and " + counted(left_out, "more race", "more races") + " (all of them: --json FILE)");
    page.line();
  }
  for (const OrderDependent& entry : analysis.order_dependent) write(page, entry);
  if (analysis.precision) {
    for (const OutputPrecision& output : analysis.precision->outputs)
      write(page, output, analysis.precision->schedules);
    if (const std::uint64_t restarts = analysis.precision->restarts)
      page.line(counted(restarts, "value", "values") +
                " started again in double where code takes floats apart by integer arithmetic");
  }
  for (const Fault& fault : analysis.memory_errors) write(page, fault, "memory error", word(fault.side.op));
  for (const Fault& fault : analysis.sync_errors) write(page, fault, "synchronization error", "");

  const Summary& summary = analysis.summary;
  if (summary.assumed_edges) {
    page.line(counted(summary.assumed_edges, "synchronization was", "synchronizations were") +
              " assumed: which write an acquire saw is not known exactly");
  }
  if (summary.opaque) {
    page.line(counted(summary.opaque, "launch was", "launches were") + " opaque: of these only footprints are known");
    const bool possible = std::any_of(analysis.races.begin(), analysis.races.end(),
                                      [](const Race& race) { return race.certainty == Certainty::possible; });
    if (possible) {
      page.line("a footprint is the blocks of PyTorch's allocator, or the allocations, that the arguments point into;");
      page.line("where that allocator is not followed, many tensors share an allocation, and some of these are none");
    }
  }
  summary_lines(page, analysis, shown);
  std::string total = "deadheat: " + total_of(analysis);
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
  page.line(total);
  return std::move(page).text();
}

} // namespace deadheat::report
