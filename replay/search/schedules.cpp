#include "replay/search/schedules.h"

#include <algorithm>
#include <iterator>

namespace deadheat::search {

Schedule nth_schedule(std::uint64_t number, std::uint64_t seed, std::uint64_t steps) {
  constexpr std::uint32_t quanta[] = {64, 8, 0, 512};
  Schedule schedule;
  schedule.seed = seed + number;
  if (number % 2) {
    schedule.kind = Schedule::Kind::priorities;
    schedule.depth = 2 + std::uint32_t(number / 2 % 3);
    schedule.steps = std::max<std::uint64_t>(steps, 1);
  } else {
    schedule.kind = Schedule::Kind::random;
    schedule.quantum = quanta[number / 2 % std::size(quanta)];
  }
  return schedule;
}

std::vector<Switch> shrink(std::vector<Switch> switches, const std::function<bool(const Schedule&)>& does_it,
                           std::uint64_t runs) {
  auto without = [&](std::size_t first, std::size_t last) {
    Schedule schedule;
    schedule.kind = Schedule::Kind::switches;
    schedule.switches.assign(switches.begin(), switches.begin() + std::ptrdiff_t(first));
    schedule.switches.insert(schedule.switches.end(), switches.begin() + std::ptrdiff_t(last), switches.end());
    return schedule;
  };
  // Half of the list, a quarter … at a time; pieces that are not needed go.
  for (std::size_t piece = (switches.size() + 1) / 2; piece > 0;) {
    bool any = false;
    for (std::size_t first = 0; first < switches.size() && runs > 0;) {
      const std::size_t last = std::min(first + piece, switches.size());
      Schedule shorter = without(first, last);
      --runs;
      if (does_it(shorter)) {
        switches = std::move(shorter.switches);
        any = true;
      } else {
        first = last;
      }
    }
    if (runs == 0) break;
    if (piece == 1 && !any) break;
    piece = piece == 1 ? 1 : (piece + 1) / 2;
  }
  return switches;
}

} // namespace deadheat::search
