#include "replay/search/systematic.h"

#include <chrono>

#include "replay/search/exploration.h"

namespace deadheat::search {

namespace {

using Clock = std::chrono::steady_clock;

struct Budget {
  std::uint64_t runs = 0;
  Clock::time_point end;
  bool spent(const SystematicLimits& limits) const { return runs >= limits.schedules || Clock::now() > end; }
};

// One of the two explorations. True: it is complete.
Expected<bool> explore(const Session& session, const Outputs& reference, std::uint64_t budget, bool old_values,
                       const SystematicLimits& limits, Budget& spent, Systematic& all) {
  Exploration exploration({.old_values = old_values});
  Schedule driven;
  driven.kind = Schedule::Kind::switches;
  driven.weak = old_values;
  driven.driven = true;
  for (bool more = true; more && !all.other;) {
    if (spent.spent(limits)) {
      all.why = "there are more than " + std::to_string(all.schedules);
      return false;
    }
    ++spent.runs;
    exploration.begin();
    Expected<Run> run = session.run(driven, nullptr, budget, nullptr, &exploration);
    if (!run) return run.error();
    if (run->outputs.ending == Ending::fault) exploration.beyond("a run that faults ends there");
    more = exploration.end();
    if (exploration.redundant()) continue;
    ++all.schedules;
    if (limits.progress) limits.progress(all.schedules);
    if (!exploration.beyond().empty()) break;
    if (!compare(reference, run->outputs, nullptr).differ) continue;
    Schedule listed = driven;
    listed.switches = run->switches;
    listed.old_reads = run->old_reads;
    // Nobody drives this one: a wait that is bounded ends in it.
    Expected<Run> again = session.run(listed, nullptr, budget);
    if (!again) return again.error();
    if (compare(reference, again->outputs, nullptr).differ)
      all.other = listed;
    else
      exploration.beyond("waits that give up after a while");
  }
  if (exploration.beyond().empty()) return true;
  all.why = exploration.beyond();
  return false;
}

} // namespace

Expected<Systematic> run_all(const Session& session, const Run& natural, std::uint64_t budget,
                             const SystematicLimits& limits) {
  Systematic all;
  Budget spent;
  spent.end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.seconds));
  Expected<bool> done = explore(session, natural.outputs, budget, false, limits, spent, all);
  if (!done) return done.error();
  all.complete = *done && !all.other;
  if (!all.complete) return all;
  Systematic weak;
  Expected<bool> too = explore(session, natural.outputs, budget, true, limits, spent, weak);
  if (!too) return too.error();
  all.other = weak.other;
  all.old_values = *too && !weak.other;
  if (all.old_values) all.schedules = weak.schedules; // the first are among them
  if (!weak.other && !all.old_values) all.why = weak.why;
  return all;
}

std::string in_words(const Systematic& all) {
  if (all.other) return "";
  if (!all.complete)
    return "the outputs agree in every schedule tried, " + std::to_string(all.schedules) +
           " of a systematic exploration among them; these are not all: " + all.why;
  return "no schedule of " + std::to_string(all.schedules) + " changes the output: all " +
         std::to_string(all.schedules) + " schedules explored" +
         (all.old_values ? ", old values of memory included" : ", with the newest values of memory");
}

} // namespace deadheat::search
