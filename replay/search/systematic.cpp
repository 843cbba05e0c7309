#include "replay/search/systematic.h"

#include <algorithm>
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
                       const std::vector<Exploration::Unread>& unread, const SystematicLimits& limits, Budget& spent,
                       Systematic& all) {
  // What is printed lies in the order in which threads came.
  const bool prints =
      std::any_of(reference.outputs.begin(), reference.outputs.end(), [](const Output& o) { return o.operation == 0; });
  Exploration exploration({.old_values = old_values, .by_groups = !prints, .unread = unread});
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
    if (exploration.was_read()) return explore(session, reference, budget, old_values, {}, limits, spent, all);
    all.schedules = exploration.traces();
    all.groups = exploration.groups();
    if (exploration.redundant()) continue;
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
  std::vector<Exploration::Unread> unread;
  for (const auto& [operation, range] : session.unread_copies())
    unread.push_back({operation, range.address, range.width});
  Expected<bool> done = explore(session, natural.outputs, budget, false, unread, limits, spent, all);
  if (!done) return done.error();
  all.complete = *done && !all.other;
  if (!all.complete) return all;
  Systematic weak;
  Expected<bool> too = explore(session, natural.outputs, budget, true, unread, limits, spent, weak);
  if (!too) return too.error();
  all.other = weak.other;
  all.old_values = *too && !weak.other;
  if (all.old_values) { // the first are among them
    all.schedules = weak.schedules;
    all.groups = weak.groups;
  }
  if (!weak.other && !all.old_values) all.why = weak.why;
  return all;
}

std::string in_words(const Systematic& all) {
  if (all.other) return "";
  if (!all.complete)
    return "the outputs agree in every schedule tried, " + std::to_string(all.schedules) +
           " of a systematic exploration among them; these are not all: " + all.why;
  const char* values = all.old_values ? ", old values of memory included" : ", with the newest values of memory";
  if (all.schedules == 1)
    return std::string("every schedule does the same: they differ in nothing that matters") + values;
  return "no schedule of " + std::to_string(all.schedules) + " changes the output: all " +
         std::to_string(all.schedules) + " schedules explored" +
         (all.groups > 1 ? " of " + std::to_string(all.groups) + " groups of threads, which share no memory" : "") +
         values;
}

} // namespace deadheat::search
