// The races of explored schedules, together with those of the recorded run.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "tools/judge.h"
#ifdef DEADHEAT_HAS_REPLAY
#include "analyzer/report/words.h"
#include "replay/search/search.h"
#endif

namespace deadheat::tools {

#ifdef DEADHEAT_HAS_REPLAY

namespace {

bool same_site(const RaceSide& a, const RaceSide& b) {
  // Copies, sets and frees have no site: they are told apart by what the program submitted.
  if ((a.name.launch == 0) != (b.name.launch == 0) || a.op != b.op) return false;
  if (a.name.launch == 0) return a.name.operation == b.name.operation;
  return a.name.module == b.name.module && a.name.site == b.name.site;
}

// Lines, and how they were inlined, as Sides tells sides apart.
bool same_place(const RaceSide& a, const RaceSide& b) {
  const auto same = [](const SourceFrame& x, const SourceFrame& y) { return x.file == y.file && x.line == y.line; };
  return !a.source.empty() && std::equal(a.source.begin(), a.source.end(), b.source.begin(), b.source.end(), same);
}

bool same_line(const RaceSide& a, const RaceSide& b) { return a.opcode == b.opcode && same_place(a, b); }

// A race has all instructions of its lines, and names those of one occurrence.
bool same_side(const RaceSide& a, const RaceSide& b) {
  if (same_site(a, b)) return true;
  return a.name.launch != 0 && b.name.launch != 0 && a.op == b.op && same_place(a, b);
}

bool same_race(const Race& a, const Race& b) {
  if (a.level != b.level || a.race_class != b.race_class) return false;
  return (same_side(a.first, b.first) && same_side(a.second, b.second)) ||
         (same_side(a.first, b.second) && same_side(a.second, b.first));
}

void merge(Analysis& all, Analysis found, std::uint64_t schedule) {
  std::map<std::uint32_t, std::uint32_t> faults; // of the explored run's numbers
  for (Race& race : found.races) {
    const auto fault_of = [](const Race& r) { return r.same_fault_as ? r.same_fault_as : r.id; };
    const auto known =
        std::find_if(all.races.begin(), all.races.end(), [&](const Race& r) { return same_race(r, race); });
    const std::uint32_t fault = fault_of(race);
    if (known != all.races.end()) {
      faults.emplace(fault, fault_of(*known));
      continue;
    }
    race.id = std::uint32_t(all.races.size() + 1);
    const std::uint32_t of = faults.emplace(fault, race.id).first->second;
    race.same_fault_as = of == race.id ? 0 : of;
    race.explored = schedule;
    all.races.push_back(std::move(race));
  }
  auto add = [&](std::vector<Fault>& to, std::vector<Fault>& from, bool by_line) {
    for (Fault& fault : from) {
      const bool known = std::any_of(to.begin(), to.end(), [&](const Fault& f) {
        return f.kind == fault.kind && f.side.name.module == fault.side.name.module &&
               (f.side.name.site == fault.side.name.site || (by_line && same_line(f.side, fault.side)));
      });
      if (known) continue;
      fault.text += (fault.text.empty() ? "" : "; ") + ("under explored schedule " + std::to_string(schedule));
      to.push_back(std::move(fault));
    }
  };
  add(all.memory_errors, found.memory_errors, false);
  add(all.sync_errors, found.sync_errors, true);
  all.summary.races = all.races.size();
}

} // namespace

Expected<void> explore(const std::string& trace, Analysis& analysis, const JudgeOptions& options,
                       const AnalysisOptions& analyzing) {
  if (options.explore == 0) return {};
  const bool terminal = isatty(STDERR_FILENO);
  std::uint64_t explored = 0;
  Expected<std::uint64_t> done = search::explore(trace, options.explore, options.seed, options.exploring_seconds,
                                                 [&](std::uint64_t number, const std::string& run) -> Expected<void> {
                                                   if (terminal)
                                                     std::cerr << "\r\033[Kexploring schedule " << number << " of "
                                                               << options.explore << std::flush;
                                                   Expected<Analysis> found = analyze(run, analyzing);
                                                   if (!found) return found.error();
                                                   explored = number;
                                                   merge(analysis, std::move(*found), number);
                                                   return {};
                                                 });
  if (terminal) std::cerr << "\r\033[K";
  if (done && explored < options.explore)
    analysis.warnings.push_back("explored " + std::to_string(explored) + " of " +
                                report::counted(options.explore, "schedule", "schedules") +
                                ": --explore-seconds were over");
  if (done && *done)
    analysis.warnings.push_back("of " + report::counted(*done, "explored schedule", "explored schedules") +
                                " only the part was looked at up to " +
                                "where a condition of a graph was another than in the recorded run");
  return done ? Expected<void>() : Expected<void>(done.error());
}

#else

Expected<void> explore(const std::string&, Analysis&, const JudgeOptions& options, const AnalysisOptions&) {
  if (options.explore == 0) return {};
  return Error{"this build has no replay", "", "apt-get install llvm-19-dev, and build again"};
}

#endif

} // namespace deadheat::tools
