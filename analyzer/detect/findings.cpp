#include "analyzer/detect/findings.h"

#include <algorithm>
#include <tuple>

namespace deadheat::detect {

void add_instance(FoundRace& race, const Touch& first, const Touch& second) {
  // Half of them within a warp: where lanes wait for each other, as in ldmatrix, only other warps change places.
  const bool one_warp =
      first.thread.block_bits() == second.thread.block_bits() && first.thread.warp() == second.thread.warp();
  if (race.instances.size() >= (one_warp ? most_instances / 2 : most_instances)) return;
  const bool known = std::any_of(race.instances.begin(), race.instances.end(), [&](const auto& other) {
    return other.first.thread == first.thread || other.second.thread == second.thread;
  });
  if (!known) race.instances.emplace_back(first, second);
}

void merge(PartFindings& into, const PartFindings& part) {
  auto when = [](const FoundRace& race) { return std::tie(race.second.stamp, race.second.thread, race.address); };
  for (const auto& [key, race] : part.races) {
    auto [at, fresh] = into.races.try_emplace(key, race);
    FoundRace& known = at->second;
    if (fresh) continue;
    FoundRace joined = when(race) < when(known) ? race : known;
    joined.occurrences = known.occurrences + race.occurrences;
    joined.same_value = known.same_value && race.same_value;
    joined.any_write_pair = known.any_write_pair || race.any_write_pair;
    std::vector<std::pair<Touch, Touch>> all = known.instances;
    all.insert(all.end(), race.instances.begin(), race.instances.end());
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::tie(a.second.stamp, a.second.thread, a.first) < std::tie(b.second.stamp, b.second.thread, b.first);
    });
    joined.instances.clear();
    for (const auto& [first, second] : all) add_instance(joined, first, second);
    known = std::move(joined);
  }
  for (const auto& [place, count] : part.order_dependent) into.order_dependent[place] += count;
  into.unknown += part.unknown;
  into.unchecked += part.unchecked;
}

std::vector<FoundRace> ranked(const PartFindings& findings) {
  std::vector<FoundRace> result;
  for (const auto& [key, race] : findings.races) {
    result.push_back(race);
    if (!race.any_write_pair) result.back().same_value = false;
  }
  // Data races first, then those most likely to matter: not the same value, then what happened first.
  std::stable_sort(result.begin(), result.end(), [](const FoundRace& a, const FoundRace& b) {
    if (a.certainty != b.certainty) return a.certainty < b.certainty;
    if (a.race_class != b.race_class) return a.race_class < b.race_class;
    if (a.same_value != b.same_value) return b.same_value;
    return a.second.stamp < b.second.stamp;
  });
  return result;
}

} // namespace deadheat::detect
