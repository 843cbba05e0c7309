// Launches that never ended: the barriers at which threads wait are errors that name who waits and who never came.
#include <gtest/gtest.h>

#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

class Waits : public testing::Test {
 protected:
  // Two warps of block 0 arrive at barrier 0, the third was last seen at line 20, the fourth has exited.
  void at_barrier() {
    LittleTrace::SiteOf barrier;
    barrier.kind = SiteKind::barrier;
    barrier.opcode = "bar.sync";
    const std::uint32_t wait = trace_.site(12, barrier), read = trace_.site(20, {.opcode = "ld.global.u32"});
    launch_ = trace_.launch(1, {4, 1, 1}, {128, 1, 1});
    trace_.broadcast(launch_, 0, 2, ~0u, read, memory);
    arrive(wait, 0, 0);
    arrive(wait, 1, 0);
    trace_.add(trace::ThreadExit{{launch_, 0, 3}, ~0u});
  }
  void arrive(std::uint32_t site, std::uint32_t warp, std::uint32_t phase) {
    trace::BarrierArrive arrival;
    arrival.warp = {launch_, 0, warp};
    arrival.module = 1;
    arrival.site = site;
    arrival.mask = ~0u;
    arrival.phase = phase;
    trace_.add(arrival);
  }
  std::uint32_t mbarrier_site(std::uint32_t line, const char* opcode, SiteKind kind = SiteKind::mbarrier) {
    LittleTrace::SiteOf site;
    site.kind = kind;
    site.space = Space::shared;
    site.opcode = opcode;
    return trace_.site(line, site);
  }
  // By lanes of warp 0 of `block_`, on the object at `address_` of its shared memory.
  void mbarrier(trace::Mbarrier::What what, std::uint32_t site, std::uint32_t mask, std::uint32_t count,
                std::uint32_t phase = 0) {
    trace::Mbarrier record;
    record.what = what;
    record.warp = {launch_, block_, 0};
    record.block = block_;
    record.module = 1;
    record.site = site;
    record.mask = mask;
    record.address.fill(address_);
    record.count.fill(count);
    record.phase.fill(phase);
    if (what == trace::Mbarrier::What::test) record.succeeded = mask;
    trace_.add(record);
  }
  void cluster_barrier(std::uint32_t site, std::uint32_t block, std::uint32_t warp, bool wait = false) {
    trace::ClusterBarrier record;
    record.warp = {launch_, block, warp};
    record.module = 1;
    record.site = site;
    record.mask = ~0u;
    record.wait = wait;
    trace_.add(record);
  }
  void silent() { trace_.add(trace::Incident{"stalled", 1, "a launch has not ended"}); }
  std::vector<std::string> errors() {
    std::vector<std::string> texts;
    for (const Fault& fault : trace_.analyze().sync_errors) texts.push_back(fault.text);
    return texts;
  }
  LittleTrace trace_;
  std::uint32_t launch_ = 0, block_ = 0;
  std::uint64_t address_ = 16;
};

TEST_F(Waits, NameWhoWaitsAndWhoNeverCame) {
  at_barrier();
  silent();
  const Analysis analysis = trace_.analyze();
  ASSERT_EQ(analysis.sync_errors.size(), 1u);
  const Fault& fault = analysis.sync_errors[0];
  EXPECT_EQ(fault.text,
            "deadlock: launch 1 (kernel) did not end: 64 threads of block 0 (threads 0-63, bar.sync a.cu:12) wait at "
            "barrier 0; 32 never came: threads 64-95, last seen at ld.global.u32 a.cu:20");
  EXPECT_TRUE(fault.ends_run);
  ASSERT_FALSE(fault.side.source.empty());
  EXPECT_EQ(fault.side.source[0].line, 12u);
  EXPECT_EQ(fault.side.kernel, "kernel");
  EXPECT_FALSE(analysis.summary.complete);
}

TEST_F(Waits, OfALogThatWasCutNothingIsSaid) {
  at_barrier();
  EXPECT_TRUE(errors().empty());
}

// The others may have arrived unseen, or the launch ended.
TEST_F(Waits, OfALaunchWithAGapNothingIsSaid) {
  at_barrier();
  trace_.gap();
  silent();
  EXPECT_TRUE(errors().empty());
}

TEST_F(Waits, OfALaunchBehindAGapTheyAre) {
  trace_.gap();
  at_barrier();
  silent();
  EXPECT_EQ(errors().size(), 1u);
}

TEST_F(Waits, OfALaunchThatWentOnNothingIsSaid) {
  at_barrier();
  silent();
  trace_.end_launch(launch_);
  EXPECT_TRUE(errors().empty());
}

TEST_F(Waits, OfALaunchThatWasNotSilentNothingIsSaid) {
  // One that was silent, and went on after all; two more, the first of which had been submitted by then.
  const std::uint32_t first = trace_.launch(), second = trace_.submit_launch(1, {1, 1, 1}, {128, 1, 1});
  silent();
  trace_.end_launch(first);
  trace_.begin(trace_.operation_of(second));
  at_barrier();
  const std::uint32_t third = std::exchange(launch_, second);
  arrive(0, 0, 0);
  EXPECT_TRUE(errors().empty()) << errors()[0];
  launch_ = third;
  silent();
  ASSERT_EQ(errors().size(), 2u);
}

TEST_F(Waits, WhatIsCompleteIsNoError) {
  at_barrier();
  trace_.add(trace::BarrierComplete{launch_, 0, 0, 0});
  silent();
  EXPECT_TRUE(errors().empty());
}

TEST_F(Waits, ThreadsThatHaveExitedAreSaid) {
  at_barrier();
  trace_.add(trace::ThreadExit{{launch_, 0, 2}, ~0u});
  silent();
  ASSERT_EQ(errors().size(), 1u);
  EXPECT_NE(errors()[0].find("wait at barrier 0; the others, 64, have exited"), std::string::npos) << errors()[0];
}

using What = trace::Mbarrier::What;

TEST_F(Waits, MbarriersThatLackArrivals) {
  const std::uint32_t at = mbarrier_site(30, "mbarrier.arrive");
  launch_ = trace_.launch(1, {1, 1, 1}, {32, 1, 1});
  mbarrier(What::init, at, 1, 32);
  mbarrier(What::arrive, at, 0xFFFF, 1);
  silent();
  ASSERT_EQ(errors().size(), 1u);
  EXPECT_EQ(
      errors()[0],
      "deadlock: launch 1 (kernel) did not end: the mbarrier at 0x10 of the shared memory of block 0 has 16 of 32 "
      "arrivals in phase 0 (threads 0-15, mbarrier.arrive a.cu:30); 16 never came: threads 16-31, of which nothing "
      "was seen");
  mbarrier(What::arrive, at, 0xFFFF0000, 1);
  EXPECT_TRUE(errors().empty()) << errors()[0];
  mbarrier(What::arrive, at, 1, 1, 1);
  ASSERT_EQ(errors().size(), 1u);
  mbarrier(What::test, at, 1, 0, 1); // somebody saw that it is complete: what came is not all in the log
  EXPECT_TRUE(errors().empty()) << errors()[0];
}

TEST_F(Waits, ArrivalsThatWereDroppedAreNotMissed) {
  const std::uint32_t at = mbarrier_site(30, "mbarrier.arrive");
  launch_ = trace_.launch(1, {1, 1, 1}, {32, 1, 1});
  mbarrier(What::init, at, 1, 32);
  mbarrier(What::arrive_drop, at, 0xFF, 1);
  silent();
  ASSERT_EQ(errors().size(), 1u); // the phase itself expects them all
  EXPECT_NE(errors()[0].find("has 8 of 32 arrivals in phase 0"), std::string::npos) << errors()[0];
  mbarrier(What::arrive_drop, at, 0xFF00, 1);
  mbarrier(What::arrive, at, 0xFFFF0000, 1);
  mbarrier(What::arrive, at, 0x0FFF0000, 1, 1);
  ASSERT_EQ(errors().size(), 1u);
  EXPECT_NE(errors()[0].find("has 12 of 16 arrivals in phase 1"), std::string::npos) << errors()[0];
  mbarrier(What::arrive, at, 0xF0000000, 1, 1);
  EXPECT_TRUE(errors().empty()) << errors()[0];
}

TEST_F(Waits, AsynchronousArrivalsCountWhereTheyAreExpected) {
  const std::uint32_t arrives = mbarrier_site(30, "mbarrier.arrive"),
                      expected = mbarrier_site(31, "cp.async.mbarrier.arrive.noinc", SiteKind::async_mbarrier_arrive),
                      further = mbarrier_site(32, "cp.async.mbarrier.arrive", SiteKind::async_mbarrier_arrive);
  launch_ = trace_.launch(1, {1, 1, 1}, {32, 1, 1});
  mbarrier(What::init, arrives, 1, 32);
  mbarrier(What::arrive, arrives, 0xFFFF, 1);
  mbarrier(What::async_arrive, further, 0xFFFF0000, 1);
  silent();
  ASSERT_EQ(errors().size(), 1u);
  EXPECT_NE(errors()[0].find("has 16 of 32 arrivals in phase 0 (threads 0-15,"), std::string::npos) << errors()[0];
  mbarrier(What::async_arrive, expected, 0xFFFF0000, 1);
  EXPECT_TRUE(errors().empty()) << errors()[0];
}

TEST_F(Waits, BlocksAreCountedOnce) {
  const std::uint32_t at = mbarrier_site(30, "mbarrier.arrive");
  launch_ = trace_.launch(1, {3, 1, 1}, {32, 1, 1});
  auto lacking = [&] {
    mbarrier(What::init, at, 1, 2);
    mbarrier(What::arrive, at, 1, 1);
  };
  lacking();
  address_ = 24;
  lacking();
  silent();
  ASSERT_EQ(errors().size(), 1u);
  EXPECT_EQ(errors()[0].find("likewise"), std::string::npos) << errors()[0];
  block_ = 1;
  lacking();
  ASSERT_EQ(errors().size(), 1u);
  EXPECT_NE(errors()[0].find("; likewise in 1 block more"), std::string::npos) << errors()[0];
  block_ = 2;
  lacking();
  ASSERT_EQ(errors().size(), 1u);
  EXPECT_NE(errors()[0].find("; likewise in 2 blocks more"), std::string::npos) << errors()[0];
}

TEST_F(Waits, ClustersBarriers) {
  const std::uint32_t at = trace_.site(40, {.kind = SiteKind::cluster_barrier, .opcode = "barrier.cluster.arrive"});
  launch_ = trace_.launch(1, {1, 1, 1}, {64, 1, 1});
  cluster_barrier(at, 0, 1);
  silent();
  ASSERT_EQ(errors().size(), 1u);
  EXPECT_NE(
      errors()[0].find("32 threads of block 0 (threads 32-63, barrier.cluster.arrive a.cu:40) have arrived at the "
                       "cluster's barrier, phase 0, and nobody left it; 32 never came: threads 0-31"),
      std::string::npos)
      << errors()[0];
  cluster_barrier(at, 0, 1, true);
  EXPECT_TRUE(errors().empty());
}

TEST_F(Waits, ClustersBarriersOfMoreBlocks) {
  const std::uint32_t at = trace_.site(40, {.kind = SiteKind::cluster_barrier, .opcode = "barrier.cluster.arrive"});
  launch_ = trace_.launch(1, {6, 1, 1}, {64, 1, 1}, {3, 1, 1});
  for (std::uint32_t warp : {0u, 1u}) cluster_barrier(at, 3, warp);
  cluster_barrier(at, 4, 0);
  trace_.add(trace::ThreadExit{{launch_, 4, 1}, ~0u});
  silent();
  ASSERT_EQ(errors().size(), 1u);
  EXPECT_NE(errors()[0].find("64 threads of block 3 (threads 0-63, barrier.cluster.arrive a.cu:40) have arrived at the "
                             "cluster's barrier, phase 0, and nobody left it; other blocks of the cluster have not "
                             "arrived; likewise in 1 block more"),
            std::string::npos)
      << errors()[0];
  for (std::uint32_t warp : {0u, 1u}) trace_.add(trace::ThreadExit{{launch_, 5, warp}, ~0u});
  EXPECT_TRUE(errors().empty()) << errors()[0]; // who has exited is not waited for
}

TEST_F(Waits, ClustersBarriersThatAnotherBlockLeft) {
  const std::uint32_t at = trace_.site(40, {.kind = SiteKind::cluster_barrier, .opcode = "barrier.cluster.arrive"});
  launch_ = trace_.launch(1, {2, 1, 1}, {32, 1, 1}, {2, 1, 1});
  cluster_barrier(at, 0, 0);
  silent();
  EXPECT_EQ(errors().size(), 1u);
  cluster_barrier(at, 1, 0, true);
  EXPECT_TRUE(errors().empty()) << errors()[0];
}

} // namespace
} // namespace deadheat::test
