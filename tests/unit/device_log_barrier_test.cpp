// Barriers in logs of instrumented kernels: complete ones, and what is said of those that nobody completes.
#include <gtest/gtest.h>

#include "tests/unit/device_log_seen.h"
#include "tests/unit/device_log_segments.h"

namespace deadheat::device_log {
namespace {

// A block of three warps and one barrier of all its threads, a segment for the barrier and one for the end.
class Barriers : public testing::TestWithParam<bool> {
 protected:
  Barriers() {
    ptx::Slot barrier;
    barrier.kind = ptx::Slot::Kind::barrier;
    barrier.number_known = barrier.threads_known = true;
    code_.add("bar.sync", SiteKind::barrier, barrier);
    code_.add_exit();
    barrier.number = 1;
    barrier.threads = 64;
    code_.add("bar.sync", SiteKind::barrier, barrier);
    shape_ = code_.shape(1, 96);
    shape_.strong = GetParam();
  }
  static constexpr std::uint32_t bar = 0, exit = 1, of_64 = 2;
  void segment(LaunchLog& log, std::uint32_t warp, std::uint32_t number, std::uint32_t mask = ~0u) {
    SegmentHeader head;
    head.segment = number;
    head.warp = warp;
    head.mask = mask;
    log.segment(reinterpret_cast<const std::uint8_t*>(&head));
  }
  Segments code_;
  Shape shape_;
};

TEST_P(Barriers, CompleteOnesAreOneRecord) {
  Seen seen;
  LaunchLog log(shape_, seen);
  for (std::uint32_t warp : {0, 1, 2}) segment(log, warp, 0);
  for (std::uint32_t warp : {0, 1, 2}) segment(log, warp, 1);
  log.finish(true);
  EXPECT_EQ(seen.all<trace::BlockBarrier>().size(), 1u);
  EXPECT_TRUE(seen.all<trace::BarrierArrive>().empty());
  EXPECT_EQ(seen.all<trace::ThreadExit>().size(), 3u);
}

TEST_P(Barriers, ArrivalsWithoutCompletionAreSaidOfASilentDevice) {
  for (bool stalled : {false, true}) {
    Seen seen;
    LaunchLog log(shape_, seen);
    for (std::uint32_t warp : {0, 1, 2}) segment(log, warp, 0);
    segment(log, 2, 0);
    segment(log, 0, 0);
    log.finish(stalled);
    EXPECT_EQ(seen.all<trace::BlockBarrier>().size(), 1u);
    const auto arrivals = seen.all<trace::BarrierArrive>();
    ASSERT_EQ(arrivals.size(), stalled ? 2u : 0u);
    if (!stalled) continue;
    EXPECT_EQ(arrivals[0].warp.warp, 2u);
    EXPECT_EQ(arrivals[1].warp.warp, 0u);
    for (const trace::BarrierArrive& arrival : arrivals) {
      EXPECT_TRUE(arrival.sync);
      EXPECT_EQ(arrival.phase, 1u);
      EXPECT_EQ(arrival.mask, ~0u);
    }
    EXPECT_TRUE(seen.all<trace::BarrierComplete>().empty());
  }
}

TEST_P(Barriers, CountsAreOfWarpsWhateverHasExited) {
  shape_.threads = 64;
  for (int order = 0; order < 3; ++order) {
    Seen seen;
    LaunchLog log(shape_, seen);
    segment(log, 0, of_64);
    if (order == 0) segment(log, 1, exit, 0xffffff00);
    segment(log, 1, of_64, 0x0f); // in two parts, as lanes of one warp may come
    if (order == 1) segment(log, 1, exit, 0xffffff00);
    segment(log, 1, of_64, 0xf0);
    if (order == 2) segment(log, 1, exit, 0xffffff00);
    segment(log, 0, exit);
    segment(log, 1, exit, 0xff);
    log.finish();
    EXPECT_EQ(seen.all<trace::BlockBarrier>().size() + seen.all<trace::BarrierComplete>().size(), 1u) << order;
    std::uint32_t lanes = 0;
    for (const auto& arrival : seen.all<trace::BarrierArrive>())
      lanes += std::uint32_t(__builtin_popcount(arrival.mask));
    EXPECT_EQ(lanes, GetParam() ? 40u : 0u); // with strong accesses, arrivals say who took part
  }
}

TEST_P(Barriers, AFullCountIsNotTheWholeBlock) {
  shape_.threads = 80;
  Seen seen;
  LaunchLog log(shape_, seen);
  segment(log, 1, exit, 0xffff0000); // 64 are left: of them 48 meet, of two warps
  segment(log, 0, of_64);
  segment(log, 2, of_64, 0xffff);
  log.finish();
  EXPECT_TRUE(seen.all<trace::BlockBarrier>().empty());
  EXPECT_EQ(seen.all<trace::BarrierArrive>().size(), 2u);
  EXPECT_EQ(seen.all<trace::BarrierComplete>().size(), 1u);
}

// Half of a warp has arrived when a phase is complete without it: it is of the next.
TEST_P(Barriers, PartsOfWarpsWaitForTheirWarp) {
  Seen seen;
  LaunchLog log(shape_, seen);
  segment(log, 2, of_64, 0xffff);
  segment(log, 0, of_64);
  segment(log, 1, of_64);
  segment(log, 0, of_64);
  EXPECT_EQ(seen.all<trace::BarrierComplete>().size(), GetParam() ? 0u : 1u); // these are written at the end
  segment(log, 2, of_64, 0xffff0000);
  log.finish();
  EXPECT_EQ(seen.all<trace::BarrierComplete>().size(), 2u);
  std::uint32_t second_phase = 0;
  for (const auto& arrival : seen.all<trace::BarrierArrive>())
    if (arrival.phase == 1) second_phase |= 1u << arrival.warp.warp;
  EXPECT_EQ(second_phase, 0b101u);
}

INSTANTIATE_TEST_SUITE_P(Launches, Barriers, testing::Bool());

} // namespace
} // namespace deadheat::device_log
