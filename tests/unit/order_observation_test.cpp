// What strong reads observed orders what comes after them, however much happens in between.
#include <gtest/gtest.h>

#include "analyzer/order/observations.h"
#include "tests/unit/order_litmus.h"

namespace deadheat::test {
namespace {

// ---- causality order's second clause (8.9.5)

TEST(LitmusObservation, IsRememberedWhenOthersHaveWritten) {
  Litmus test;
  test.write(t0, x, relaxed, gpu).read(t1, x, relaxed, gpu);
  for (int i = 0; i < 20; ++i) test.write(t1, x, relaxed, gpu).read(t1, x, relaxed, gpu);
  test.read(t1, x).none();
}
TEST(LitmusObservation, OfWritesThatNobodyReadThereIsNone) {
  Litmus test;
  test.write(t0, x, relaxed, gpu);
  for (int i = 0; i < 20; ++i) test.write(t1, x, relaxed, gpu).read(t1, x, relaxed, gpu);
  test.read(t1, x).races({{1, 42}});
}
// Who knows of the first read of a counter, and of none of those that follow, comes after what that observed.
TEST(LitmusObservation, OfACounterTheFirstCounts) {
  Litmus test;
  test.atomic(t0, x, relaxed, cta).atomic(same_block, x).write(same_block, y, release, gpu);
  test.read(t1, y, acquire, gpu).read(t2, y, acquire, gpu);
  for (int i = 0; i < 100; ++i) test.atomic(t1, x);
  test.atomic(t2, x, relaxed, cta).none(); // with the others it is morally strong
}
TEST(LitmusObservation, APartOfAVectorIsOne) { // both elements, of an operation on the whole and one on a half
  Litmus test;
  test.atomic(t0, x, relaxed, sys, 8).atomic(t0, x, relaxed, gpu);
  test.read_pair(t1, x, acquire, gpu).read(t1, x, relaxed, cluster).races({{1, 3}});
}

TEST(LitmusObservation, APartIsRememberedWhenOthersHaveWrittenTheRest) {
  Litmus test;
  test.atomic(t0, x, relaxed, gpu, 8);
  for (int i = 0; i < 20; ++i) test.write(t0, x, relaxed, gpu);
  test.read(t1, x + 4, relaxed, gpu).write(t1, x + 4).races({{1, 22}});
}

// The read is of shared memory: a fence of that alone hands on what it observed.
TEST(LitmusObservation, OfSharedMemoryIsHandedOnByARestrictedFence) {
  for (const bool fenced : {true, false}) {
    Litmus test(2);
    test.shared_write(t0, 1, relaxed, cluster).shared_read(t2, 1, relaxed, cluster);
    if (fenced) test.fence(t2, cluster, release, true);
    for (const At at : {t0, t1, t2}) test.cluster_arrive(at, true);
    for (const At at : {t0, t1, t2}) test.cluster_wait(at);
    test.shared_write(t1, 1);
    if (fenced)
      test.none();
    else
      test.races({{1, 3}, {2, 3}});
  }
}

// ---- the same across launches

constexpr At a{0, 0}, b{2, 0}, c{4, 0}, e{6, 0}; // of the first launch and so on

TEST(LitmusLaunches, WhatOneLearnedTheNextHandsOn) {
  const auto handed_on = [](bool to_a_third) {
    Litmus test;
    test.launch(2).launch(3).write(a, x).write(a, y, release, gpu).read(b, y, acquire, gpu).end(1);
    test.launch(3).launch(4).write(c, z, release, gpu).read(e, z, acquire, gpu);
    if (to_a_third) return test.end(3).launch(4).read({8, 1}, x);
    return test.read(e, x);
  };
  handed_on(false).none();
  handed_on(true).none();
}
TEST(LitmusLaunches, WhoDoesNotAcquireItHasItNot) {
  Litmus test;
  test.launch(2).launch(3).write(a, x).write(a, y, release, gpu).read(b, y, acquire, gpu).end(1);
  test.launch(3).launch(4).write(c, z, release, gpu).read(e, z, relaxed, gpu).read(e, x).races({{1, 6}});
}
TEST(LitmusLaunches, WhatOneLearnedComesWithItsEvent) {
  Litmus test;
  test.launch(2).launch(3).write(a, x).write(a, y, release, gpu).read(b, y, acquire, gpu).end(1);
  test.launch(4, 3).read(c, x).none();
}
TEST(LitmusLaunches, ByAFenceOfFenceSCOrder) { // fence_order.cpp
  Litmus test;
  test.launch(2).launch(3).write(a, x).fence(a, gpu, Ordering::sc).block_barrier(0);
  test.atomic(same_block, y).atomic({2, 33}, y).block_barrier(2).fence(b, gpu, Ordering::sc).end(1);
  test.launch(3).read(c, x).none();
}
TEST(LitmusLaunches, WhatOneWaitedForComesWithItsRelease) {
  const auto waits = [](bool does) {
    Litmus test;
    test.launch(2).write(a, x).dependent_launch(2).launch(3).end(0);
    if (does) test.dependency_wait(b);
    return test.write(b, y, release, gpu).read(c, y, acquire, gpu).read(c, x);
  };
  waits(true).none();
  waits(false).races({{1, 4}});
}
TEST(LitmusLaunches, WhatAWaitBringsOfOthersIsHandedOn) {
  Litmus test;
  test.launch(2).launch(3).write(a, x).write(a, y, release, gpu).read(b, y, acquire, gpu).dependent_launch(3).end(1);
  test.dependency_wait(c).launch(4).write(c, z, release, gpu).read(e, z, acquire, gpu).read(e, x).none();
}
TEST(LitmusLaunches, ALaunchBeginsWithWhatItLearnedVisibleToAllProxies) {
  Litmus test;
  test.launch(2).launch(3).write(a, x).write(a, y, release, gpu).read(b, y, acquire, gpu).end(1);
  test.launch(3).bulk_load(c, x, 9).none();
}
TEST(LitmusLaunches, ARestrictedFenceHandsNothingOn) { // it is of shared memory (9.7.13.4)
  Litmus test(2);
  test.launch(2).write(a, x).end(0).launch(2).launch(3);
  test.write(b, y, release, gpu).read(c, y, acquire, gpu).fence(c, cluster, release, true);
  test.write(c, z, relaxed, cluster).read({5, 0}, z, relaxed, cluster).fence({5, 0}, cluster, acquire, true);
  test.read({5, 0}, x).races({{1, 6}});
}

// ---- bounds

TEST(Observations, TheOldestAreForgottenAndThatIsSaid) {
  order::Observations reads;
  const auto all = [](order::ThreadKey, order::Stamp) { return true; };
  const auto seen = [&](order::Stamp write) {
    return reads.any(0, ~std::uint64_t(0) >> 10, write, ~order::Stamp(0), all);
  };
  const std::uint32_t more = order::Observations::most + order::Observations::most / 2;
  for (std::uint32_t i = 0; i < more; ++i) { // each write a chain of its own
    EXPECT_EQ(reads.forgotten() != 0, i > order::Observations::most);
    reads.add(order::ThreadKey(1, i % 7, 0), 2 * i + 2, 2 * i + 1, 2 * i + 1, ~order::Stamp(0));
  }
  EXPECT_TRUE(seen(2 * more - 1));
  EXPECT_FALSE(seen(2 * more));
  EXPECT_FALSE(seen(1));
  EXPECT_GE(reads.forgotten(), 1u);
  EXPECT_TRUE(seen(reads.forgotten() + 2));
}
TEST(Observations, OfReadsThatOnlyComeTogetherTheLastStand) {
  order::Observations reads;
  for (order::Stamp i = 1; i < 1000000; ++i) reads.add(order::ThreadKey(1, 0, 5), i + 1, 1, i, 0);
  EXPECT_EQ(reads.forgotten(), 0u);
  EXPECT_TRUE(reads.any(0, ~std::uint64_t(0) >> 10, 7, 1000000, [](order::ThreadKey, order::Stamp) { return true; }));
}

} // namespace
} // namespace deadheat::test
