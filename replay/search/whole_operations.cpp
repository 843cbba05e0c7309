// Two operations that race change places as a whole: what a device does that begins them in another order.
#include <algorithm>

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

// Of a copy and a set there is but one access, and what runs a million operations is not logged.
bool Judge::may_turn(const Race& race) const {
  return race.level == RaceLevel::stream && sole_.count(race.id) &&
         (race.first.name.launch || race.second.name.launch) && natural_.choices.visible <= most_logged;
}

Expected<bool> Judge::by_whole_operations(Race& race, std::uint64_t& driven) {
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
    ++driven;
    if (!differ) continue;
    race.verdict_why = "the two operations change places as a whole";
    if (Expected<void> done = found(race, pair, *a, *b, race.instances[i]); !done) return done.error();
    return true;
  }
  return false;
}

// Does no other pair of conflicting accesses change places, atomics among them?
Expected<bool> Judge::turns_alone(const Race& race, const SchedulePair& pair, const Race::Instance& instance) const {
  Log a, b;
  Expected<Run> of_a = session_.run(pair.first_then_second, nullptr, budget_, &a);
  if (!of_a) return of_a.error();
  Expected<Run> of_b = session_.run(pair.second_then_first, nullptr, budget_, &b);
  if (!of_b) return of_b.error();
  const auto is_of = [&](const SiteName& name, const RaceSide& side) {
    const Site* site = session_.site(name.module, name.site);
    return name == SiteName{side.name.module, side.name.site} || (site && same_lines(site->source, side.source));
  };
  const std::vector<SitePair> changed = changed_places(a, b, instance);
  return std::all_of(changed.begin(), changed.end(), [&](const SitePair& sites) {
    return (is_of(sites.first, race.first) && is_of(sites.second, race.second)) ||
           (is_of(sites.first, race.second) && is_of(sites.second, race.first));
  });
}

} // namespace deadheat::search
