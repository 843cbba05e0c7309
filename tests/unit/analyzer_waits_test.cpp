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
  void mbarrier(trace::Mbarrier::What what, std::uint32_t site, std::uint32_t mask, std::uint32_t count) {
    trace::Mbarrier record;
    record.what = what;
    record.warp = {launch_, 0, 0};
    record.module = 1;
    record.site = site;
    record.mask = mask;
    record.address.fill(16);
    record.count.fill(count);
    trace_.add(record);
  }
  void silent() { trace_.add(trace::Incident{"stalled", 1, "a launch has not ended"}); }
  std::vector<std::string> errors() {
    std::vector<std::string> texts;
    for (const Fault& fault : trace_.analyze().sync_errors) texts.push_back(fault.text);
    return texts;
  }
  LittleTrace trace_;
  std::uint32_t launch_ = 0;
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

TEST_F(Waits, OfALaunchThatWentOnNothingIsSaid) {
  at_barrier();
  silent();
  trace_.end_launch(launch_);
  EXPECT_TRUE(errors().empty());
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

TEST_F(Waits, MbarriersThatLackArrivals) {
  LittleTrace::SiteOf site;
  site.kind = SiteKind::mbarrier;
  site.space = Space::shared;
  site.opcode = "mbarrier.arrive";
  const std::uint32_t at = trace_.site(30, site);
  launch_ = trace_.launch(1, {1, 1, 1}, {32, 1, 1});
  mbarrier(trace::Mbarrier::What::init, at, 1, 32);
  mbarrier(trace::Mbarrier::What::arrive, at, 0xFFFF, 1);
  silent();
  ASSERT_EQ(errors().size(), 1u);
  EXPECT_EQ(
      errors()[0],
      "deadlock: launch 1 (kernel) did not end: the mbarrier at 0x10 of the shared memory of block 0 has 16 of 32 "
      "arrivals in phase 0 (threads 0-15, mbarrier.arrive a.cu:30); 16 never came: threads 16-31, of which nothing "
      "was seen");
  mbarrier(trace::Mbarrier::What::arrive, at, 0xFFFF0000, 1);
  EXPECT_TRUE(errors().empty()) << errors()[0];
}

TEST_F(Waits, ClustersBarriers) {
  LittleTrace::SiteOf site;
  site.kind = SiteKind::cluster_barrier;
  site.opcode = "barrier.cluster.arrive";
  const std::uint32_t at = trace_.site(40, site);
  launch_ = trace_.launch(1, {1, 1, 1}, {64, 1, 1});
  trace::ClusterBarrier arrival;
  arrival.warp = {launch_, 0, 1};
  arrival.module = 1;
  arrival.site = at;
  arrival.mask = ~0u;
  trace_.add(arrival);
  silent();
  ASSERT_EQ(errors().size(), 1u);
  EXPECT_NE(
      errors()[0].find("32 threads of block 0 (threads 32-63, barrier.cluster.arrive a.cu:40) have arrived at the "
                       "cluster's barrier, phase 0, and nobody left it; 32 never came: threads 0-31"),
      std::string::npos)
      << errors()[0];
  arrival.wait = true;
  trace_.add(arrival);
  EXPECT_TRUE(errors().empty());
}

} // namespace
} // namespace deadheat::test
