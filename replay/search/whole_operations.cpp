// Two operations that race change places as a whole: what a device does that begins them in another order.
#include <algorithm>
#include <map>

#include "replay/search/effect.h"
#include "replay/search/judge.h"
#include "replay/search/outputs.h"

namespace deadheat::search {

namespace {

Race::Instance whole(const Race::Instance& instance) {
  Race::Instance operations;
  operations.first.operation = instance.first.operation;
  operations.second.operation = instance.second.operation;
  return operations;
}

bool same_lines(const std::vector<SourceFrame>& a, const std::vector<SourceFrame>& b) {
  return !a.empty() &&
         std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const SourceFrame& x, const SourceFrame& y) { return x.line == y.line && x.file == y.file; });
}

} // namespace

// Two copies have one access each, which have been tried; and of more than a million operations there is no log.
bool Judge::may_turn(const Race& race) const {
  return race.level == RaceLevel::stream && sole_.count(race.id) &&
         (race.first.name.launch || race.second.name.launch) && natural_.choices.visible <= most_logged;
}

Expected<bool> Judge::by_whole_operations(Race& race) {
  // The first two and the last, which the instances end with.
  std::vector<Race::Instance> tried;
  for (std::size_t i : {std::size_t(0), race.instances.size() - 1}) {
    if (race.instances.empty() || spent(race)) break;
    const Race::Instance operations = whole(race.instances[i]);
    const bool known = std::any_of(tried.begin(), tried.end(), [&](const Race::Instance& other) {
      return other.first == operations.first && other.second == operations.second;
    });
    if (known || operations.first == operations.second) continue;
    tried.push_back(operations);
    const SchedulePair pair = schedule_pair(operations);
    Expected<Run> a = session_.run(pair.first_then_second, nullptr, budget_);
    if (!a) return a.error();
    Expected<Run> b = session_.run(pair.second_then_first, &a->outputs, budget_);
    if (!b) return b.error();
    if (!a->holds_kept || !b->holds_kept) continue;
    const bool differ = compare(a->outputs, b->outputs, nullptr).differ;
    if (differ) {
      Expected<bool> alone = turns_alone(race, pair, race.instances[i]);
      if (!alone) return alone.error();
      if (!*alone) continue; // that says nothing of this race
    }
    race.schedules += 2;
    ++this_race_.driven;
    if (!differ) continue;
    race.verdict_why = "the two operations change places as a whole";
    if (Expected<void> done = found(race, pair, *a, *b, race.instances[i]); !done) return done.error();
    return true;
  }
  return false;
}

bool Judge::of_side(const RaceSide& side, const SiteName& name) const {
  const Site* site = session_.site(name.module, name.site);
  return name == SiteName{side.name.module, side.name.site} || (site && same_lines(site->source, side.source));
}

Expected<bool> Judge::tells(const Race& race, const Schedule& a, const Schedule& b) const {
  // Copies are not logged.
  if (!race.first.name.launch || !race.second.name.launch || natural_.choices.visible > most_logged) return true;
  Log of_a, of_b;
  for (const auto& [schedule, log] : {std::pair{&a, &of_a}, std::pair{&b, &of_b}})
    if (Expected<Run> run = session_.run(*schedule, nullptr, budget_, log); !run) return run.error();
  std::map<SiteName, bool> known;
  return has_effect(of_a, of_b, [&](const device::Performed& p) {
    const SiteName name{p.module, p.site};
    const auto found = known.find(name);
    if (found != known.end()) return found->second;
    return known[name] = of_side(race.first, name) || of_side(race.second, name);
  });
}

// Does no other pair of conflicting accesses change places, atomics among them?
Expected<bool> Judge::turns_alone(const Race& race, const SchedulePair& pair, const Race::Instance& instance) const {
  Log a, b;
  Expected<Run> of_a = session_.run(pair.first_then_second, nullptr, budget_, &a);
  if (!of_a) return of_a.error();
  Expected<Run> of_b = session_.run(pair.second_then_first, nullptr, budget_, &b);
  if (!of_b) return of_b.error();
  const std::vector<SitePair> changed = changed_places(a, b, instance);
  return std::all_of(changed.begin(), changed.end(), [&](const SitePair& sites) {
    return (of_side(race.first, sites.first) && of_side(race.second, sites.second)) ||
           (of_side(race.second, sites.first) && of_side(race.first, sites.second));
  });
}

} // namespace deadheat::search
