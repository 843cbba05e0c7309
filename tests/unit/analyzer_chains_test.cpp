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
};

// A kernel that waits for another stream's flag, and one behind it that uses what that stream made.
TEST_F(Chains, AKernelThatWaitsForAFlagOrdersWhatFollowsIt) {
  trace.stream(2);
  trace.stream(3);
  const auto maker = trace.launch(2), waiter = trace.launch(3);
  trace.access(maker, 0, 0, write, data);
  trace.access(maker, 0, 0, release, flag, 0, 0, 1);
  trace.access(waiter, 0, 0, acquire, flag, 0, 1, 0);
  trace.end_launch(waiter);
  const auto user = trace.launch(3);
  trace.access(user, 0, 0, read, data);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Chains, ARelaxedOneDoesNot) {
  trace.stream(2);
  trace.stream(3);
  const auto maker = trace.launch(2), waiter = trace.launch(3);
  trace.access(maker, 0, 0, write, data);
  trace.access(maker, 0, 0, release, flag, 0, 0, 1);
  trace.access(waiter, 0, 0, relaxed, flag, 0, 1, 0);
  trace.end_launch(waiter);
  const auto user = trace.launch(3);
  trace.access(user, 0, 0, read, data);
  EXPECT_EQ(trace.races(), Races{"1-5"});
}

// What is complete before the launch that releases begins comes with its release, to the thread that acquires it alone.
TEST_F(Chains, WhatComesBeforeTheOtherLaunchComesWithIt) {
  trace.stream(2);
  trace.stream(3);
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

// Of several launches behind the one that waited, on streams of their own, those have it that come after it.
TEST_F(Chains, OnlyWhatComesAfterTheLaunchThatWaitedHasIt) {
  for (std::uint32_t stream : {2u, 3u, 4u}) trace.stream(stream);
  const auto maker = trace.launch(2), waiter = trace.launch(3);
  trace.access(maker, 0, 0, write, data);
  trace.access(maker, 0, 0, release, flag, 0, 0, 1);
  trace.access(waiter, 0, 0, acquire, flag, 0, 1, 0);
  trace.end_launch(waiter);
  const auto elsewhere = trace.launch(4);
  trace.access(elsewhere, 0, 0, read, data);
  EXPECT_EQ(trace.races(), Races{"1-5"});
}

} // namespace
} // namespace deadheat::test
