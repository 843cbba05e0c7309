// What shows a difference: its schedules shortened, told step by step, and written into a witness.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>

#include "replay/search/judge.h"
#include "replay/search/outputs.h"
#include "replay/search/schedules.h"
#include "replay/search/temporary_directory.h"

namespace deadheat::search {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t shrinking_runs = 400, shrinking_pairs = 100;

std::string name_of(const Session& session, const SiteName& name) {
  const Site* site = session.site(name.module, name.site);
  if (!site) return "site " + std::to_string(name.site);
  if (site->source.empty()) return site->opcode;
  const std::string& file = site->source[0].file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site->source[0].line);
}

} // namespace

Expected<void> Judge::found(Race& race, const SchedulePair& pair, const Run& a, const Run& b,
                            const std::optional<Race::Instance>& directed) {
  Expected<const ValueTypes*> types = session_.value_types();
  if (!types) return types.error();
  // What ran later belongs to another history of the host: the capsule ends where the runs part.
  const Comparison parting = compare(a.outputs, b.outputs, nullptr);
  const std::size_t commands = parting.operation ? b.commands : std::max(a.commands, b.commands);
  const Session capsule = session_.first(commands);
  Expected<Run> of_a = capsule.run(pair.first_then_second, nullptr, budget_);
  if (!of_a) return of_a.error();
  Expected<Run> of_b = capsule.run(pair.second_then_first, nullptr, budget_);
  if (!of_b) return of_b.error();
  const Comparison comparison = compare(of_a->outputs, of_b->outputs, *types);
  race.verdict = Verdict::harmful;
  race.differences = comparison.differences;
  Race::Instance instance = directed.value_or(race.instances.front());
  if (Expected<void> described = describe(race, pair, instance, !directed); !described) return described;
  if (options_.output.empty()) return {};

  Witness witness;
  witness.race = race;
  witness.instance = instance;
  witness.smaller = this_race_.smaller;
  witness.a = pair.first_then_second;
  witness.b = pair.second_then_first;
  witness.last_operation = comparison.operation ? comparison.operation : ~0u;
  witness.budget = budget_;
  witness.value_types = (*types)->known();
  witness.weak = of_a->choices.old_shown || of_b->choices.old_shown;
  witness.digest_a = of_a->outputs.digest(witness.last_operation);
  witness.digest_b = of_b->outputs.digest(witness.last_operation);
  return write(race, witness, capsule);
}

Expected<void> Judge::describe(Race& race, const SchedulePair& pair, Race::Instance& instance, bool choose) {
  if (natural_.choices.visible > most_logged || race.level == RaceLevel::stream) return {};
  Log a, b;
  Expected<Run> of_a = session_.run(pair.first_then_second, nullptr, budget_, &a);
  if (!of_a) return of_a.error();
  Expected<Run> of_b = session_.run(pair.second_then_first, nullptr, budget_, &b);
  if (!of_b) return of_b.error();
  auto site = [this](std::uint32_t module, std::uint32_t number) { return session_.site(module, number); };
  if (choose) instance = parting_instance(a, b, race).value_or(instance);
  SideBySide steps = side_by_side(a, b, instance, site);
  race.steps_a = std::move(steps.a);
  race.steps_b = std::move(steps.b);
  if (!(instance.first == race.first.name && instance.second == race.second.name)) race.witnessed = instance;
  race.context_switches = context_switches(a, b);
  std::string others;
  std::set<std::string> named;
  bool own = false;
  const std::vector<SiteName> sites = sites_of(race);
  for (const SitePair& changed : changed_places(a, b, instance)) {
    if (changed.first == sites.front() && changed.second == sites.back()) {
      own = true;
      continue;
    }
    const std::string pair = name_of(session_, changed.first) + " and " + name_of(session_, changed.second);
    if (!named.insert(pair).second) continue; // of one line, or inlined twice
    others += (others.empty() ? "" : ", ") + pair;
  }
  auto add = [&](const std::string& text) { race.verdict_why += (race.verdict_why.empty() ? "" : "; ") + text; };
  if (!others.empty()) add("other accesses changed places with it: " + others);
  if (own) add("other executions of the pair changed places with it");
  return {};
}

Expected<void> Judge::write(Race& race, const Witness& witness, const Session& run) {
  std::error_code error;
  fs::create_directories(options_.output, error);
  Expected<TemporaryDirectory> directory = TemporaryDirectory::create();
  if (!directory) return directory.error();
  std::string capsule = directory->path() + "/capsule";
  if (Expected<void> saved = run.save(capsule); !saved) return saved;
  std::string file = (fs::path(options_.output) / ("race-" + std::to_string(race.id) + ".witness")).string();
  if (Expected<void> written = write_witness(file, witness, capsule); !written) return written;
  race.witness = file;
  return {};
}

Expected<void> Judge::found_by_order(Race& race, const Schedule& schedule, const Run& run) {
  race.verdict_why = "found by another order of threads, in which other instances of the pair may have changed places";
  Schedule listed;
  listed.kind = Schedule::Kind::switches;
  listed.switches = run.switches;
  Expected<Run> again = session_.run(listed, nullptr, budget_);
  if (!again) return again.error();
  if (!compare(natural_.outputs, again->outputs, nullptr).differ) // too many switches to list
    return found(race, {Schedule{}, schedule}, natural_, run, std::nullopt);
  auto differs = [&](const Schedule& shorter) {
    if (std::chrono::duration<double>(Clock::now() - this_race_.begin).count() > 2 * seconds()) return false;
    Expected<Run> tried = session_.run(shorter, &natural_.outputs, budget_);
    race.schedules += 1;
    if (!tried || !compare(natural_.outputs, tried->outputs, nullptr).differ) return false;
    Expected<bool> told = tells(race, Schedule{}, shorter);
    return told && *told;
  };
  listed.switches = shrink(std::move(listed.switches), differs, shrinking_runs);
  Expected<Run> shortest = session_.run(listed, nullptr, budget_);
  if (!shortest) return shortest.error();
  race.verdict_why += "; " + std::to_string(listed.switches.size()) +
                      (listed.switches.size() == 1 ? " context switch" : " context switches") + " of " +
                      std::to_string(run.switches.size()) + " suffice";
  return found(race, {Schedule{}, listed}, natural_, *shortest, std::nullopt);
}

Expected<bool> Judge::found_by_old_values(Race& race, const SchedulePair& pair, const Run& with) {
  const std::vector<Switch>& switches = with.switches;
  const std::vector<OldRead>& reads = with.old_reads;
  auto listed = [&](const std::vector<std::size_t>& numbers, bool old) {
    Schedule schedule;
    if (pair.first_then_second.kind != Schedule::Kind::natural) schedule.kind = Schedule::Kind::switches;
    schedule.weak = true;
    for (std::size_t n : numbers) {
      if (n < switches.size())
        schedule.switches.push_back(switches[n]);
      else if (old)
        schedule.old_reads.push_back(reads[n - switches.size()]);
    }
    return schedule;
  };
  // What comes of the switches alone, of those that were asked for last: where there are none, it is always the same.
  std::optional<std::pair<std::vector<std::size_t>, Outputs>> known;
  auto without = [&](const std::vector<std::size_t>& numbers) -> const Outputs* {
    std::vector<std::size_t> chosen;
    std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(chosen),
                 [&](std::size_t n) { return n < switches.size(); });
    if (known && known->first == chosen) return &known->second;
    known.reset();
    Expected<Run> run = session_.run(listed(chosen, false), nullptr, budget_);
    ++race.schedules;
    if (!run) return nullptr;
    return &known.emplace(std::move(chosen), std::move(run->outputs)).second;
  };
  auto differs = [&](const std::vector<std::size_t>& numbers) {
    if (std::chrono::duration<double>(Clock::now() - this_race_.begin).count() > 2 * seconds()) return false;
    const Outputs* a = without(numbers);
    Expected<Run> b = session_.run(listed(numbers, true), nullptr, budget_);
    ++race.schedules;
    return a && b && !waits_in_vain(race, *b) && compare(*a, b->outputs, nullptr).differ;
  };
  std::vector<std::size_t> all(switches.size() + reads.size());
  std::iota(all.begin(), all.end(), std::size_t(0));
  SchedulePair best = pair;
  race.verdict_why = reads_non_coherently(race)
                         ? "its reads return what the non-coherent cache may hold, from before the write"
                         : "its reads return what other orders of memory operations allow, which nothing forbids them";
  if (differs(all)) {
    std::vector<std::size_t> only_reads(all.begin() + std::ptrdiff_t(switches.size()), all.end());
    std::vector<std::size_t> from = differs(only_reads) ? only_reads : all;
    const std::vector<std::size_t> left = fewest(
        from.size(),
        [&](const std::vector<std::size_t>& numbers) {
          std::vector<std::size_t> chosen;
          for (std::size_t n : numbers) chosen.push_back(from[n]);
          return differs(chosen);
        },
        shrinking_pairs);
    std::vector<std::size_t> chosen;
    for (std::size_t n : left) chosen.push_back(from[n]);
    best = {listed(chosen, false), listed(chosen, true)};
    const std::size_t old = best.second_then_first.old_reads.size();
    race.verdict_why += "; " + std::to_string(old) + (old == 1 ? " such read" : " such reads") + " of " +
                        std::to_string(reads.size()) + " and " + std::to_string(chosen.size() - old) +
                        " context switches suffice";
  }
  Expected<Run> a = session_.run(best.first_then_second, nullptr, budget_);
  if (!a) return a.error();
  Expected<Run> b = session_.run(best.second_then_first, nullptr, budget_);
  if (!b) return b.error();
  if (Expected<void> done = found(race, best, *a, *b, std::nullopt); !done) return done.error();
  return true;
}

} // namespace deadheat::search
