// Schedules that a search tries, and shrinking them.
#include "replay/search/schedules.h"

#include <gtest/gtest.h>

#include <set>

namespace deadheat::search {
namespace {

std::vector<Switch> hundred() {
  std::vector<Switch> switches;
  for (std::uint32_t n = 0; n < 100; ++n)
    switches.push_back({n, {.kind = Agent::Kind::thread, .operation = 1, .block = 0, .thread = n}});
  return switches;
}

// Does it where all of `needed` are left, in order.
std::function<bool(const Schedule&)> needs(const std::set<std::uint32_t>& needed, std::uint64_t& asked) {
  return [&needed, &asked](const Schedule& schedule) {
    ++asked;
    EXPECT_EQ(schedule.kind, Schedule::Kind::switches);
    std::set<std::uint32_t> left;
    std::uint64_t before = 0;
    for (const Switch& change : schedule.switches) {
      EXPECT_GE(change.step, before);
      before = change.step;
      left.insert(change.agent.thread);
    }
    return std::includes(left.begin(), left.end(), needed.begin(), needed.end());
  };
}

TEST(Shrink, LeavesWhatIsNeeded) {
  for (const std::set<std::uint32_t>& needed :
       {std::set<std::uint32_t>{}, {0}, {99}, {3, 4}, {0, 50, 99}, {10, 11, 12, 13, 70}}) {
    std::uint64_t asked = 0;
    const std::vector<Switch> left = shrink(hundred(), needs(needed, asked), 1000);
    std::set<std::uint32_t> threads;
    for (const Switch& change : left) threads.insert(change.agent.thread);
    EXPECT_EQ(threads, needed);
    EXPECT_EQ(left.size(), needed.size());
    EXPECT_LE(asked, 130u);
  }
}

TEST(Shrink, StopsWhenItsRunsAreUsedUp) {
  std::uint64_t asked = 0;
  const std::set<std::uint32_t> needed{7, 80};
  const std::vector<Switch> left = shrink(hundred(), needs(needed, asked), 5);
  EXPECT_EQ(asked, 5u);
  EXPECT_GE(left.size(), 2u);
  EXPECT_LT(left.size(), 100u);
}

TEST(Shrink, ALineOfSwitchesThatAllMatter) {
  std::uint64_t asked = 0;
  std::set<std::uint32_t> all;
  for (std::uint32_t n = 0; n < 100; ++n) all.insert(n);
  EXPECT_EQ(shrink(hundred(), needs(all, asked), 10000).size(), 100u);
}

TEST(Schedules, AreManyAndRepeatable) {
  std::set<std::tuple<int, std::uint64_t, std::uint32_t, std::uint32_t>> seen;
  for (std::uint64_t n = 0; n < 40; ++n) {
    const Schedule a = nth_schedule(n, 5, 100), b = nth_schedule(n, 5, 100);
    EXPECT_EQ(a.seed, b.seed);
    EXPECT_EQ(a.kind, b.kind);
    if (a.kind == Schedule::Kind::priorities) {
      EXPECT_EQ(a.steps, 100u);
    }
    seen.insert({int(a.kind), a.seed, a.quantum, a.depth});
  }
  EXPECT_EQ(seen.size(), 40u);
}

TEST(Schedules, AreOfManyKinds) {
  std::set<std::pair<int, int>> kinds;
  for (std::uint64_t n = 0; n < 12; ++n) {
    const Schedule s = nth_schedule(n, 5, 100);
    kinds.insert({int(s.kind), int(s.order)});
  }
  EXPECT_EQ(kinds.size(), 5u); // random, and priorities in four orders
}

} // namespace
} // namespace deadheat::search
