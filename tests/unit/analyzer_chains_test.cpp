// What a launch learned from another that ran beside it, and what comes after that launch.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

using Races = std::vector<std::string>;

class Chains : public ::testing::Test {
 protected:
  LittleTrace trace;
  static constexpr std::uint64_t data = memory, flag = memory + 64;
  std::uint32_t write = trace.site(1, {.access = AccessKind::write});
  std::uint32_t release = trace.site(
      2, {.access = AccessKind::write, .ordering = Ordering::release, .scope = Scope::gpu, .opcode = "st.release"});
  std::uint32_t acquire = trace.site(3, {.ordering = Ordering::acquire, .scope = Scope::gpu, .opcode = "ld.acquire"});
  std::uint32_t relaxed = trace.site(4, {.ordering = Ordering::relaxed, .scope = Scope::gpu, .opcode = "ld.relaxed"});
  std::uint32_t read = trace.site(5, {});

  Chains() {
    for (std::uint32_t stream : {2u, 3u, 4u}) trace.stream(stream);
  }
  // In stream 2 a kernel makes the data and raises the flag; one in stream 3 looks at that, and ends.
  void hand_over(std::uint32_t look) {
    const auto maker = trace.launch(2), waiter = trace.launch(3);
    trace.access(maker, 0, 0, write, data);
    trace.access(maker, 0, 0, release, flag, 0, 0, 1);
    trace.access(waiter, 0, 0, look, flag, 0, 1, 0);
    trace.end_launch(waiter);
  }
  // Another kernel uses the data.
  Races used_in(std::uint32_t stream) {
    trace.access(trace.launch(stream), 0, 0, read, data);
    return trace.races();
  }
};

// A kernel that waits for another stream's flag, and one behind it that uses what that stream made.
TEST_F(Chains, AKernelThatWaitsForAFlagOrdersWhatFollowsIt) {
  hand_over(acquire);
  EXPECT_EQ(used_in(3), Races{});
}

TEST_F(Chains, ARelaxedOneDoesNot) {
  hand_over(relaxed);
  EXPECT_EQ(used_in(3), Races{"1-5"});
}

// What is complete before the launch that releases begins comes with its release, to the thread that acquires it alone.
TEST_F(Chains, WhatComesBeforeTheOtherLaunchComesWithIt) {
  const auto before = trace.launch(2);
  trace.access(before, 0, 0, write, data);
  trace.end_launch(before);
  const auto maker = trace.launch(2), waiter = trace.launch(3);
  trace.access(maker, 0, 0, release, flag, 0, 0, 1);
  trace.access(waiter, 0, 0, acquire, flag, 0, 1, 0);
  trace.access(waiter, 0, 0, read, data);
  EXPECT_EQ(trace.races(), Races{});
  trace.access(waiter, 1, 0, read, data); // it has waited for nothing
  EXPECT_EQ(trace.races(), Races{"1-5"});
}

TEST_F(Chains, OnlyWhatComesAfterTheLaunchThatWaitedHasIt) {
  hand_over(acquire);
  EXPECT_EQ(used_in(4), Races{"1-5"});
}

} // namespace
} // namespace deadheat::test
