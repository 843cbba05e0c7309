#include "replay/search/schedules.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace deadheat::search {

Schedule nth_schedule(std::uint64_t number, std::uint64_t seed, std::uint64_t steps) {
  using Order = Schedule::Order;
  struct Pattern {
    Schedule::Kind kind;
    Order order = Order::random;
    std::uint32_t quantum = 0, depth = 0;
  };
  constexpr auto random = Schedule::Kind::random, priorities = Schedule::Kind::priorities;
  static constexpr Pattern patterns[] = {
      {priorities, Order::reversed},      {random, Order::random, 64},  {priorities, Order::random, 0, 2},
      {priorities, Order::stalled_warps}, {random, Order::random, 8},   {priorities, Order::random, 0, 3},
      {priorities, Order::permuted},      {random, Order::random, 0},   {priorities, Order::random, 0, 4},
      {priorities, Order::stalled_warps}, {random, Order::random, 512}, {priorities, Order::random, 0, 2}};
  const Pattern& pattern = patterns[number % std::size(patterns)];
  Schedule schedule;
  schedule.seed = seed + number;
  schedule.kind = pattern.kind;
  schedule.order = pattern.order;
  schedule.quantum = pattern.quantum;
  schedule.depth = pattern.depth;
  if (pattern.kind == priorities) schedule.steps = std::max<std::uint64_t>(steps, 1);
  return schedule;
}

std::vector<std::size_t> fewest(std::size_t count, const std::function<bool(const std::vector<std::size_t>&)>& does_it,
                                std::uint64_t runs) {
  std::vector<std::size_t> left(count);
  std::iota(left.begin(), left.end(), std::size_t(0));
  // Half of the list, a quarter … at a time; pieces that are not needed go.
  for (std::size_t piece = (left.size() + 1) / 2; piece > 0;) {
    bool any = false;
    for (std::size_t first = 0; first < left.size() && runs > 0;) {
      const std::size_t last = std::min(first + piece, left.size());
      std::vector<std::size_t> shorter(left.begin(), left.begin() + std::ptrdiff_t(first));
      shorter.insert(shorter.end(), left.begin() + std::ptrdiff_t(last), left.end());
      --runs;
      if (does_it(shorter)) {
        left = std::move(shorter);
        any = true;
      } else {
        first = last;
      }
    }
    if (runs == 0) break;
    if (piece == 1 && !any) break;
    piece = piece == 1 ? 1 : (piece + 1) / 2;
  }
  return left;
}

std::vector<Switch> shrink(std::vector<Switch> switches, const std::function<bool(const Schedule&)>& does_it,
                           std::uint64_t runs) {
  auto chosen = [&](const std::vector<std::size_t>& numbers) {
    Schedule schedule;
    schedule.kind = Schedule::Kind::switches;
    for (std::size_t n : numbers) schedule.switches.push_back(switches[n]);
    return schedule;
  };
  return chosen(fewest(switches.size(), [&](const auto& numbers) { return does_it(chosen(numbers)); }, runs)).switches;
}

} // namespace deadheat::search
