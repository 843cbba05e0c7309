// The list of a run's departures gives back what was added, whatever form it took there.
#include <gtest/gtest.h>

#include <random>

#include "replay/device/departures.h"

namespace deadheat::device {
namespace {

TEST(Departures, ListGivesBackWhatWasAdded) {
  std::mt19937_64 random(11);
  Departures departures;
  std::vector<Switch> added;
  Switch next;
  for (int n = 0; n < 50000; ++n) {
    // Mostly another thread a few steps on; now and then everything else, with the limits of the short form.
    next.step += random() % 50 ? random() % 4 : random() % 3 ? 250 + random() % 8 : random() >> 20;
    next.agent.block = std::uint32_t(random() % 100 ? random() % 64 : random());
    next.agent.thread = std::uint32_t(random() % 100 ? random() % 1024 : 1024 + random() % 2);
    if (random() % 8 == 0) {
      next.agent.kind = Agent::Kind(random() % 3);
      next.agent.operation = std::uint32_t(n < 25000 ? random() % 5 : random());
      next.agent.copy = std::uint32_t(random() % 2 ? 0 : random());
    }
    departures.add(next);
    added.push_back(next);
  }
  const std::vector<Switch> listed = departures.list();
  ASSERT_EQ(listed.size(), added.size());
  for (std::size_t n = 0; n < added.size(); ++n) {
    ASSERT_EQ(listed[n].step, added[n].step) << n;
    ASSERT_EQ(listed[n].agent, added[n].agent) << n;
  }
}

} // namespace
} // namespace deadheat::device
