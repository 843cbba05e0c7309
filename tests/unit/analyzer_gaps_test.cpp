// Records that are missing between others: what lies on both sides of the gap counts as ordered, what lies on one side
// is compared as ever.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

using Races = std::vector<std::string>;

class Gaps : public testing::Test {
 protected:
  LittleTrace trace_;
  std::uint32_t launch_ = 0;

  std::uint32_t write(std::uint32_t line) { return trace_.site(line, {.access = AccessKind::write}); }
  void touch(std::uint32_t block, std::uint32_t thread, std::uint32_t line, unsigned word) {
    trace_.access(launch_, block, thread, write(line), memory + 4 * word);
  }
  Races races() {
    trace_.jobs = 1;
    const Races alone = trace_.races();
    trace_.jobs = 4;
    EXPECT_EQ(trace_.races(), alone);
    return alone;
  }
  // A named barrier of block 0 that `warps` wait at.
  void arrive(std::initializer_list<std::uint32_t> warps, std::uint32_t phase, std::uint32_t barrier = 1) {
    for (std::uint32_t warp : warps) {
      trace::BarrierArrive arrival;
      arrival.warp = {launch_, 0, warp};
      arrival.module = 1;
      arrival.mask = ~0u;
      arrival.barrier = barrier;
      arrival.phase = phase;
      arrival.sync = true;
      trace_.add(arrival);
    }
  }
  void complete(std::uint32_t phase, std::uint32_t barrier = 1) {
    trace_.add(trace::BarrierComplete{launch_, 0, barrier, phase});
  }
};

TEST_F(Gaps, HideWhatLiesAcrossAndNothingElse) {
  launch_ = trace_.launch();
  touch(0, 0, 10, 0);
  touch(1, 0, 11, 0); // a race before
  touch(0, 0, 20, 1);
  trace_.gap();
  touch(1, 0, 21, 1); // across
  touch(0, 0, 30, 2);
  touch(1, 0, 31, 2); // behind
  EXPECT_EQ(races(), (Races{"10-11", "30-31"}));
}

// It may have released and acquired: so much as a gap. What warps do behind it they did not do before it.
TEST_F(Gaps, AStrongAccessOfCodeThatIsNotKnownIsOne) {
  launch_ = trace_.launch();
  touch(0, 0, 20, 1);
  trace::Access access;
  access.warp = {launch_, 2, 0};
  access.module = 7;
  access.mask = 1;
  access.address[0] = memory;
  access.order_first[0] = access.order_last[0] = 1;
  trace_.add(access);
  touch(1, 0, 21, 1); // across
  touch(0, 0, 30, 2);
  touch(1, 0, 31, 2); // behind
  EXPECT_EQ(races(), Races{"30-31"});
}

TEST_F(Gaps, OfOneLaunchHideNothingOfAnother) {
  trace_.stream(2);
  trace_.stream(3);
  trace_.gap();
  launch_ = trace_.launch(2);
  touch(0, 0, 10, 0);
  trace_.end_launch(launch_);
  launch_ = trace_.launch(3);
  touch(0, 0, 11, 0);
  EXPECT_EQ(races(), Races{"10-11"});
}

// Named barriers behind the gap order their block alone, and from the second completion on only those who wait.
TEST_F(Gaps, BarriersBehindThem) {
  launch_ = trace_.launch(1, {2, 1, 1}, {128, 1, 1});
  touch(0, 0, 9, 9);
  trace_.gap();
  touch(1, 0, 10, 0); // another block
  touch(0, 0, 20, 1);
  arrive({0, 1}, 4);
  complete(4);
  touch(0, 64, 11, 0);
  touch(0, 64, 21, 1); // its arrival may be missing
  touch(0, 96, 30, 2);
  arrive({0, 1}, 5);
  complete(5);
  touch(0, 0, 31, 2); // the fourth warp had arrived nowhere
  touch(0, 0, 40, 3);
  arrive({0, 1}, 6);
  complete(6);
  touch(0, 32, 41, 3); // ordered
  touch(0, 64, 42, 3); // of the third warp, which did not wait
  EXPECT_EQ(races(), (Races{"10-11", "30-31", "40-42", "41-42"}));
}

TEST_F(Gaps, BehindAnotherGapArrivalsMayBeMissingAgain) {
  launch_ = trace_.launch(1, {2, 1, 1}, {128, 1, 1});
  trace_.gap();
  arrive({0, 1}, 4);
  complete(4);
  trace_.gap();
  touch(0, 0, 20, 1);
  arrive({0, 1}, 5);
  complete(5);
  touch(0, 64, 21, 1);
  EXPECT_EQ(races(), Races{});
}

// ---- what is said of them

TEST_F(Gaps, TooManyOfThem) {
  launch_ = trace_.launch();
  for (unsigned i = 0; i < 1030; ++i) {
    touch(0, 0, 1, i);
    trace_.gap();
  }
  touch(0, 0, 10, 2000);
  touch(1, 0, 11, 2000);
  const Analysis analysis = trace_.analyze();
  EXPECT_TRUE(analysis.races.empty());
  EXPECT_FALSE(analysis.summary.complete);
  ASSERT_FALSE(analysis.warnings.empty());
  EXPECT_NE(analysis.warnings[0].find("in 1030 places: "), std::string::npos);
  EXPECT_NE(analysis.warnings[0].find("; behind place 1024 nothing is compared any more"), std::string::npos);
}

TEST_F(Gaps, StrongAccessesOfUnknownLaunchesMayOrder) {
  const auto flag = trace_.site(5, {.access = AccessKind::write, .ordering = Ordering::release, .scope = Scope::gpu});
  launch_ = trace_.launch();
  touch(0, 0, 10, 0);
  trace_.access(launch_ + 7, 0, 0, flag, memory + 64);
  touch(1, 0, 11, 0);
  const Analysis analysis = trace_.analyze();
  EXPECT_TRUE(analysis.races.empty());
  ASSERT_EQ(analysis.warnings.size(), 1u);
  EXPECT_NE(analysis.warnings[0].find("1 record was left out: it names launches"), std::string::npos);
  EXPECT_NE(analysis.warnings[0].find("; it may have ordered others: races across it"), std::string::npos);
}

TEST_F(Gaps, FencesOfUnknownLaunchesOrderNothing) {
  launch_ = trace_.launch();
  touch(0, 0, 10, 0);
  trace_.fence(launch_ + 7, 0, 0, Scope::gpu);
  touch(1, 0, 11, 0);
  EXPECT_EQ(races(), Races{"10-11"});
}

} // namespace
} // namespace deadheat::test
