// Random little executions: the races that the detector finds are those that the axioms name, no more and no fewer.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "tests/unit/order_patterns.h"
#include "tests/unit/order_text.h"
#include "tests/unit/seeds.h"

namespace deadheat::test {
namespace {

std::string text(const Races& races) {
  std::string out;
  for (auto [a, b] : races) out += std::to_string(a) + "-" + std::to_string(b) + " ";
  return out;
}

// Every race that is found is one, and all are found.
bool agree(const Races& found, const Records& records) {
  const Races at_least = records.expected(), at_most = records.at_most();
  return std::includes(at_most.begin(), at_most.end(), found.begin(), found.end()) &&
         std::includes(found.begin(), found.end(), at_least.begin(), at_least.end());
}

// Of the events themselves: events that look the same have one line above.
std::string differences(const Execution& execution) {
  const Records records(execution, false);
  const Races found = records.found(), at_least = records.expected(), at_most = records.at_most();
  Races accused, missed;
  std::set_difference(found.begin(), found.end(), at_most.begin(), at_most.end(),
                      std::inserter(accused, accused.end()));
  std::set_difference(at_least.begin(), at_least.end(), found.begin(), found.end(),
                      std::inserter(missed, missed.end()));
  return "event by event: accused " + text(accused) + ", missed " + text(missed);
}

void compare(const std::vector<std::uint64_t>& steps, bool clusters, bool several, bool pooled) {
  PatternBuilder builder(clusters ? 2 : 1, several, several && steps.size() % 3 == 0);
  for (std::size_t i = 0; i < steps.size() && i < 60; ++i)
    steps[i] % 16 == 15 ? builder.refill(steps[i] / 16) : builder.step(steps[i]);
  Execution execution = builder.take();
  if (execution.events.size() > 250) return; // values of writes are bytes
  Records records(execution, pooled);
  Races found = records.found(), expected = records.expected();
  if (!agree(found, records)) {
    RC_FAIL(text(execution) + "found:    " + text(found) + "\nexpected: " + text(expected));
  }
}

RC_GTEST_PROP(Oracle, EveryEventItsOwnLine, (const std::vector<std::uint64_t>& steps, bool clusters, bool several)) {
  compare(steps, clusters, several, false);
}
RC_GTEST_PROP(Oracle, LikeEventsOfOneLine, (const std::vector<std::uint64_t>& steps, bool clusters, bool several)) {
  compare(steps, clusters, several, true);
}

// Without shrinking, thousands at once.
TEST(Oracle, ManyExecutions) {
  const std::uint64_t rounds = 10000 * seeds_times();
  std::uint64_t state = (1 + seeds_from()) * 88172645463325252ull | 1;
  auto next = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  };
  std::size_t racy = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const bool several = round / 4 % 4 >= 2;
    PatternBuilder builder(round % 2 + 1, several, several && round / 16 % 2);
    std::size_t length = 2 + next() % (round / 4 % 4 == 2 ? 40 : 28);
    const bool flags = round % 4 == 1, rings = round % 4 == 3, messages = round / 4 % 4 == 2;
    const bool refills = round / 4 % 4 == 3;
    for (std::size_t i = 0; i < (flags || refills ? length / 4 + 1 : length); ++i) {
      if (refills && i % 3 != 2)
        builder.refill(next());
      else if (messages && i % 2 == 0)
        i % 4 ? builder.message(next()) : builder.launches(next());
      else if (flags && i % 3 == 0)
        builder.hand_over(next());
      else if (rings && i % 4 == 0)
        builder.hand_back(next());
      else if (rings && several && i % 4 == 2)
        builder.launches(next());
      else
        builder.step(next());
    }
    Execution execution = builder.take();
    Records records(execution, round % 4 >= 2);
    Races found = records.found(), expected = records.expected();
    ASSERT_TRUE(agree(found, records)) << text(execution) << "found:    " << text(found)
                                       << "\nexpected: " << text(expected) << "\n"
                                       << differences(execution);
    racy += !found.empty();
  }
  EXPECT_GT(racy, rounds / 10);
}

} // namespace
} // namespace deadheat::test
