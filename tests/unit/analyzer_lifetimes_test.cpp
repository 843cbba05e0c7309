// Shared memory of another block of the cluster: used before that block has begun, or after it may have exited. Whole
// programs are in tests/programs/corners/clusters.cu; here is what no program has.
#include "deadheat/address.h"
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

class Lifetimes : public ::testing::Test {
 protected:
  LittleTrace trace;
  std::uint32_t remote = trace.site(1, {.space = Space::shared});
  static constexpr std::uint64_t of_block_1 = std::uint64_t(2) << cluster_shift;

  std::uint32_t launch() { return trace.launch(1, {2, 1, 1}, {32, 1, 1}, {2, 1, 1}); }
  void cluster_barrier(std::uint32_t launch, std::uint32_t phase, bool relaxed = false) {
    for (const bool wait : {false, true}) {
      for (std::uint32_t block : {0u, 1u}) {
        trace::ClusterBarrier barrier;
        barrier.warp = {launch, block, 0};
        barrier.mask = ~0u;
        barrier.phase = phase;
        barrier.wait = wait;
        barrier.relaxed = relaxed && !wait;
        trace.add(barrier);
      }
    }
  }
  void exit(std::uint32_t launch, std::uint32_t block, std::uint32_t mask = ~0u) {
    trace.add(trace::ThreadExit{{launch, block, 0}, mask});
  }
  void end(std::uint32_t launch) {
    exit(launch, 1);
    exit(launch, 0);
    trace.end_launch(launch);
  }
  // Block 0 touches block 1's memory and arrives at its mbarrier; a thread of block 1 does `wait`, and all exit.
  void waits(const std::string& wait) {
    trace.kernel("ld.shared::cluster.u32 %r1, [%r2];\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];\n" +
                 wait);
    const auto l = launch();
    cluster_barrier(l, 0);
    trace.access(l, 0, 3, 0, of_block_1);
    for (const bool test : {false, true}) {
      trace::Mbarrier at;
      at.what = test ? trace::Mbarrier::What::test : trace::Mbarrier::What::arrive;
      at.warp = {l, test, 0};
      at.module = 1;
      at.site = 1 + test;
      at.block = 1;
      at.mask = at.succeeded = 1;
      at.mask <<= test ? 0 : 3;
      at.ordering = test ? Ordering::acquire : Ordering::release;
      at.scope = Scope::cluster;
      trace.add(at);
    }
    end(l);
  }
  // The same with a flag in global memory, which the thread of block 1 reads.
  void reads_flag(const std::string& use) {
    trace.kernel(
        "ld.shared::cluster.u32 %r1, [%r2];\nst.release.gpu.global.u32 [%rd1], %r1;\n"
        "READ: ld.acquire.gpu.global.u32 %r3, [%rd1];\n" +
        use);
    const auto l = launch();
    cluster_barrier(l, 0);
    trace.access(l, 0, 3, 0, of_block_1);
    trace.access(l, 0, 3, 1, memory, 0, 0, 1);
    trace.access(l, 1, 0, 2, memory, 0, 1);
    end(l);
  }
  void expect_one(const char* text) {
    const std::vector<std::string> found = errors();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].find(text), found[0].npos) << found[0];
  }
  std::vector<std::string> errors() {
    std::vector<std::string> texts;
    for (const Fault& fault : trace.analyze().sync_errors) texts.push_back(fault.text);
    return texts;
  }
};

TEST_F(Lifetimes, WhoExitsWithoutABarrier) {
  const auto l = launch();
  cluster_barrier(l, 0);
  trace.access(l, 0, 3, remote, of_block_1);
  end(l);
  expect_one("shared memory of block 1 of its cluster, which need not be there any more");
}

TEST_F(Lifetimes, WhoHasNotBegun) {
  const auto l = launch();
  trace.access(l, 0, 3, remote, of_block_1);
  cluster_barrier(l, 0);
  end(l);
  expect_one("need not have begun");
}

TEST_F(Lifetimes, RelaxedBarriersAreEnough) {
  const auto l = launch();
  cluster_barrier(l, 0, true);
  trace.access(l, 0, 3, remote, of_block_1);
  cluster_barrier(l, 1, true);
  end(l);
  EXPECT_EQ(errors(), std::vector<std::string>{});
}

TEST_F(Lifetimes, OneThreadThatWaitsKeepsItsBlock) {
  const auto l = launch();
  cluster_barrier(l, 0);
  trace.access(l, 0, 3, remote, of_block_1);
  exit(l, 1, ~1u); // all but thread 0, who comes to the barrier
  cluster_barrier(l, 1);
  exit(l, 1, 1);
  exit(l, 0);
  trace.end_launch(l);
  EXPECT_EQ(errors(), std::vector<std::string>{});
}

TEST_F(Lifetimes, AnAccessBehindTheExit) {
  const auto l = launch();
  cluster_barrier(l, 0);
  exit(l, 1);
  trace.access(l, 0, 3, remote, of_block_1);
  exit(l, 0);
  trace.end_launch(l);
  EXPECT_EQ(errors().size(), 1u);
}

// A block stays until another has arrived at its mbarrier, or has set a flag: where it looks whether that is so.
TEST_F(Lifetimes, ABlockThatWaits) {
  waits("WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], %r4;\n@!%p1 bra WAIT;");
  EXPECT_EQ(errors(), std::vector<std::string>{});
}
TEST_F(Lifetimes, ABlockThatDoesNotLookWhetherItWaited) {
  waits("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], %r4;");
  EXPECT_EQ(errors().size(), 2u); // of the access and of the arrival
}
TEST_F(Lifetimes, ABlockThatWaitsForAFlag) {
  reads_flag("setp.eq.u32 %p1, %r3, 0;\n@%p1 bra READ;");
  EXPECT_EQ(errors(), std::vector<std::string>{});
}
TEST_F(Lifetimes, ABlockThatDoesNotLookAtTheFlag) {
  reads_flag("");
  expect_one("need not be there any more");
}

TEST_F(Lifetimes, NothingIsSaidWhereTheLaunchDidNotEnd) {
  const auto l = launch();
  cluster_barrier(l, 0);
  trace.access(l, 0, 3, remote, of_block_1);
  exit(l, 1, ~1u);
  EXPECT_EQ(errors(), std::vector<std::string>{});
}

TEST_F(Lifetimes, NothingIsSaidWhereRecordsAreMissing) {
  const auto l = launch();
  trace.gap(); // the barriers may have been here
  trace.access(l, 0, 3, remote, of_block_1);
  trace.gap();
  end(l);
  EXPECT_EQ(errors(), std::vector<std::string>{});
}

TEST_F(Lifetimes, NothingIsSaidWhereTheRecordingLostSome) {
  const auto l = launch();
  cluster_barrier(l, 0);
  trace.access(l, 0, 3, remote, of_block_1);
  trace.add(trace::Incident{"budget", 1, "the budget is spent"});
  end(l);
  EXPECT_EQ(errors(), std::vector<std::string>{});
}

} // namespace
} // namespace deadheat::test
