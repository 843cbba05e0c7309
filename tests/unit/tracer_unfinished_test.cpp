// How long calls that keep the driver wait for launches that write (tracer/cupti/unfinished.h).
#include "tracer/cupti/unfinished.h"

#include <gtest/gtest.h>

#include <functional>

namespace deadheat::cupti {
namespace {

using namespace std::chrono_literals;
using Launch = std::shared_ptr<Unfinished::Launch>;

class UnfinishedLaunches : public ::testing::Test {
 protected:
  Unfinished launches;
  const int here = 0, there = 0;
  Unfinished::Clock::time_point now{};

  // How long a call waits in that context while `meanwhile` happens every tenth of a second.
  std::chrono::milliseconds wait(const void* context, std::chrono::seconds most,
                                 const std::function<void()>& meanwhile) {
    const auto begun = now;
    Unfinished::Wait waits(launches, context, most, now);
    while (!waits.over(now)) {
      now += 100ms;
      meanwhile();
    }
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - begun);
  }
};

TEST_F(UnfinishedLaunches, NobodyWaitsForNothing) {
  EXPECT_TRUE(launches.none());
  EXPECT_EQ(wait(&here, 60s, [] {}), 0ms);
}

TEST_F(UnfinishedLaunches, OneThatWritesIsWaitedForUntilItsEnd) {
  const Launch launch = launches.begin(&here);
  EXPECT_FALSE(launches.none());
  int left = 20;
  EXPECT_EQ(wait(&here, 60s, [&] { --left ? void(launch->bytes += 32) : launches.end(launch); }), 2000ms);
  EXPECT_TRUE(launches.none());
}

TEST_F(UnfinishedLaunches, OneOfAnotherContextIsNotWaitedFor) {
  launches.begin(&there);
  EXPECT_EQ(wait(&here, 60s, [] {}), 0ms);
  EXPECT_GT(wait(nullptr, 60s, [] {}), 0ms);
}

TEST_F(UnfinishedLaunches, ASilentOneIsWaitedForOnceUntilItWrites) {
  const Launch launch = launches.begin(&here);
  launch->bytes = 32;
  EXPECT_EQ(wait(&here, 60s, [] {}), 1100ms);
  EXPECT_EQ(wait(&here, 60s, [] {}), 0ms);
  launch->bytes += 32;
  EXPECT_EQ(wait(&here, 60s, [] {}), 1100ms);
}

// It polls: its reads are recorded, and it ends when the host wants it to.
TEST_F(UnfinishedLaunches, OneThatWritesAllTheTimeIsWaitedForOnce) {
  const Launch polls = launches.begin(&here);
  const auto goes_on = [&] { polls->bytes += 32; };
  EXPECT_EQ(wait(&here, Unfinished::while_loading, goes_on), 3100ms);
  EXPECT_EQ(wait(&here, Unfinished::while_loading, goes_on), 0ms);
  // What the driver itself would wait for.
  EXPECT_EQ(wait(&here, Unfinished::while_running, goes_on), 60100ms);
  EXPECT_EQ(wait(&here, Unfinished::while_running, goes_on), 0ms);
  EXPECT_EQ(wait(&here, Unfinished::while_loading, goes_on), 0ms);
  // Others are waited for, beside it.
  const Launch other = launches.begin(&here);
  int left = 5;
  EXPECT_EQ(wait(&here, Unfinished::while_loading,
                 [&] {
                   goes_on();
                   --left ? void(other->bytes += 32) : launches.end(other);
                 }),
            500ms);
}

TEST_F(UnfinishedLaunches, OneThatEndsTwiceEndsOnce) {
  const Launch launch = launches.begin(&here), other = launches.begin(&here);
  launches.end(launch);
  launches.end(launch);
  EXPECT_FALSE(launches.none());
  launches.end(other);
  EXPECT_TRUE(launches.none());
}

} // namespace
} // namespace deadheat::cupti
