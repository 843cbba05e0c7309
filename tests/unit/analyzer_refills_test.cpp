// Slots of data beside a flag that are written again: before or behind their reader's last look.
#include "analyzer_traces.h"

namespace deadheat {
namespace {

using namespace test;

// Block 1 waits for a flag in the second half of a pair, and takes the first half; block 0 writes pairs.
class Refills : public ::testing::Test {
 protected:
  Refills() {
    trace.kernel(
        "L: ld.volatile.global.v2.u32 {%r1, %r2}, [%rd1];\n" // 0
        "setp.ne.u32 %p1, %r2, %r3;\n@%p1 bra L;\n"
        "st.global.u32 [%rd2], %r1;\n" // 1
        "bar.sync 0;\n" // 2
        "st.volatile.global.u32 [%rd3], %r3;\n" // 3
        "H: ld.volatile.global.u32 %r4, [%rd3];\n" // 4
        "setp.lt.u32 %p3, %r4, %r3;\n@%p3 bra H;\n"
        "st.volatile.global.v2.u32 [%rd1], {%r4, %r3};\n" // 5
        "vote.sync.any.pred %p2, %p1, -1;\n" // 6
        "atom.global.add.u32 %r5, [%rd4], 1;\n" // 7
        "fence.proxy.async;\n" // 8
        "atom.global.add.u32 %r6, [%rd4], 1;\n" // 9
        "st.global.u32 [%rd2], %r6;"); // 10
    launch = trace.launch();
  }
  static std::uint64_t pair(std::uint64_t data, std::uint64_t flag) { return flag << 32 | data; }
  void look(std::uint64_t data, std::uint64_t flag, std::uint32_t thread = 0) {
    trace.access(launch, 1, thread, 0, slot, 0, pair(data, flag));
  }
  void fill(std::uint64_t data, std::uint64_t flag) {
    trace.access(launch, 0, 0, 5, slot, std::uint32_t(data), 0, pair(data, flag));
  }
  void use(std::uint32_t thread = 0) { trace.access(launch, 1, thread, 1, memory + 512 + 4 * thread); }
  void tell(std::uint32_t thread = 0) { trace.access(launch, 1, thread, 3, head, 1, 0, 1); }
  void hear() { trace.access(launch, 0, 0, 4, head, 0, 1); }
  std::size_t races() {
    trace.end_launch(launch);
    const Analysis analysis = trace.analyze();
    for (const Race& race : analysis.races) {
      EXPECT_EQ(race.race_class, RaceClass::strong);
      EXPECT_EQ(race.first.name.site, 0u);
      EXPECT_EQ(race.second.name.site, 5u);
      EXPECT_EQ(race.address, slot); // the data, not the flag
      EXPECT_EQ(race.bytes, 4u);
      EXPECT_NE(race.why.find("waits for the flag in the vector"), std::string::npos) << race.why;
    }
    return analysis.races.size();
  }

  static constexpr std::uint64_t slot = memory, head = memory + 256;
  LittleTrace trace;
  std::uint32_t launch = 0;
};

TEST_F(Refills, ComeBehindTheLastLook) {
  look(0, 0), fill(5, 1), look(5, 1), use();
  fill(6, 2);
  EXPECT_EQ(races(), 1u);
}

TEST_F(Refills, WaitForWhatTheReaderTells) {
  look(0, 0), fill(5, 1), look(5, 1), use();
  tell(), hear();
  fill(6, 2);
  EXPECT_EQ(races(), 0u);
}

TEST_F(Refills, AreToldTooEarly) {
  look(0, 0), fill(5, 1);
  tell();
  look(5, 1), use();
  hear();
  fill(6, 2);
  EXPECT_EQ(races(), 1u);
}

TEST_F(Refills, WhatWasSeenInBetweenDoesNotMatter) {
  look(0, 0), fill(4, 0), look(4, 0), fill(5, 1), look(5, 1), use();
  EXPECT_EQ(races(), 0u);
}

TEST_F(Refills, ALookThatWasNotTheLastOneDoesNotMatter) {
  look(0, 0), fill(5, 1), look(5, 1), fill(6, 2), look(6, 2), use();
  EXPECT_EQ(races(), 0u);
}

TEST_F(Refills, LeaveTheDataAsTheyAre) {
  look(0, 0), fill(5, 1), look(5, 1), use();
  fill(5, 2);
  EXPECT_EQ(races(), 0u);
}

TEST_F(Refills, TheLastReadOfAThreadThatEnds) { // at no place where the flag must have been found
  look(0, 0), fill(5, 1), look(5, 1);
  trace::ThreadExit exit;
  exit.warp = {launch, 1, 0};
  exit.mask = 1;
  trace.add(exit);
  fill(6, 2);
  EXPECT_EQ(races(), 0u);
}

// Lane 0 tells for lane 1.
TEST_F(Refills, NothingOrdersLanes) {
  look(0, 0, 1), fill(5, 1), look(5, 1, 1), use(1);
  tell(0), hear();
  fill(6, 2);
  EXPECT_EQ(races(), 1u);
}

TEST_F(Refills, AVoteOrdersThem) {
  look(0, 0, 1), fill(5, 1), look(5, 1, 1), use(1);
  trace::WarpValue vote;
  vote.warp = {launch, 1, 0};
  vote.module = 1;
  vote.site = 6;
  vote.mask = 3;
  trace.add(vote);
  tell(0), hear();
  fill(6, 2);
  EXPECT_EQ(races(), 0u);
}

TEST_F(Refills, WhereNobodyRecordsVotesLanesCountAsOrdered) {
  trace.device_kind = "gpu";
  look(0, 0, 1), fill(5, 1), look(5, 1, 1), use(1);
  tell(0), hear();
  fill(6, 2);
  EXPECT_EQ(races(), 0u);
}

TEST_F(Refills, ThreadsOfABlockTellBehindABarrier) {
  look(0, 0, 40), fill(5, 1), look(5, 1, 40);
  trace.block_barrier(launch, 1, 2);
  tell(0), hear();
  fill(6, 2);
  EXPECT_EQ(races(), 0u);
}

TEST_F(Refills, ThreadsOfABlockTellWithoutABarrier) {
  look(0, 0, 40), fill(5, 1), look(5, 1, 40), use(40);
  tell(0), hear();
  fill(6, 2);
  EXPECT_EQ(races(), 1u);
}

TEST_F(Refills, MemoryOfANewOwner) {
  look(0, 0), fill(5, 1), look(5, 1), use();
  trace.allocate(2, memory, 1 << 16);
  fill(6, 2);
  EXPECT_EQ(races(), 0u);
}

TEST_F(Refills, RecordsThatAreMissing) {
  look(0, 0), fill(5, 1), look(5, 1);
  trace.gap();
  use();
  fill(6, 2);
  EXPECT_EQ(races(), 0u);
}

TEST_F(Refills, BehindVeryManyAtomicOperations) {
  for (std::uint32_t i = 0; i < 40000; ++i)
    trace.access(launch, 2 + i / 64 % 2, i % 64, 9, memory + 1024 + 4 * (i % 16), 1, i / 16, i / 16 + 1);
  look(0, 0), fill(5, 1), look(5, 1), use();
  for (std::uint32_t i = 0; i < 100; ++i) trace.access(launch, 2, i % 64, 9, memory + 1024, 1, 2500 + i, 2501 + i);
  fill(6, 2);
  EXPECT_EQ(races(), 1u);
}

// Both lanes have taken what they read, and lane 0 says so.
TEST_F(Refills, BehindVeryManyAtomicOperationsALaneTellsForItsWarp) {
  for (const std::uint32_t count : {16383u, 16384u}) {
    LittleTrace begun = trace;
    look(0, 0), look(0, 0, 1), fill(5, 1), look(5, 1, 1), look(5, 1);
    use(1), use(0);
    for (std::uint32_t i = 0; i < count; ++i) trace.access(launch, 2, i % 64, 9, memory + 1024, 1, i, i + 1);
    trace.access(launch, 1, 0, 9, head, 1, 0, 1);
    trace.access(launch, 0, 0, 9, head, 1, 1, 2);
    fill(6, 2);
    trace.end_launch(launch);
    const Analysis analysis = trace.analyze();
    EXPECT_EQ(analysis.races.size(), count == 16383 ? 1u : 0u);
    trace = begun;
  }
}

TEST_F(Refills, BeforeTheReaderGoesOn) {
  look(0, 0), fill(5, 1), look(5, 1);
  fill(6, 2);
  use();
  EXPECT_EQ(races(), 1u);
}

TEST_F(Refills, BeforeTheReaderLooksAgain) {
  look(0, 0), fill(5, 1), look(5, 1);
  fill(6, 2);
  look(6, 2), use();
  EXPECT_EQ(races(), 0u);
}

TEST_F(Refills, AFenceOfProxiesTellsNothing) { // nor does it hide what comes behind it
  look(0, 0), fill(5, 1), look(5, 1);
  trace::Fence fence;
  fence.warp = {launch, 1, 0};
  fence.module = 1;
  fence.site = 8;
  fence.mask = 1;
  fence.proxy = Proxy::async;
  trace.add(fence);
  use();
  fill(6, 2);
  EXPECT_EQ(races(), 1u);
}

TEST_F(Refills, WhoDoesNotLookAtAnAtomicOperationsResultHearsNothing) {
  trace.access(launch, 3, 0, 4, head, 0, 0); // somebody does
  look(0, 0), fill(5, 1), look(5, 1), use();
  trace.access(launch, 1, 0, 7, head, 1, 0, 1);
  trace.access(launch, 0, 0, 7, head, 1, 1, 2);
  fill(6, 2);
  EXPECT_EQ(races(), 1u);
}

TEST_F(Refills, OtherThreadsHandOnWhatTheReaderTold) {
  look(0, 0), fill(5, 1), look(5, 1), use();
  tell();
  trace.access(launch, 3, 7, 4, head, 1, 1);
  trace.access(launch, 3, 7, 7, memory + 1024, 1, 0, 1); // who adds says what it knows
  trace.access(launch, 0, 0, 4, memory + 1024, 1, 1);
  fill(6, 2);
  EXPECT_EQ(races(), 0u);
}

// A launch behind the reader's, in its stream, tells one in another stream.
TEST_F(Refills, OfALaunchThatIsOver) {
  for (const bool hears : {false, true}) {
    LittleTrace begun = trace;
    trace.stream(2);
    const std::uint32_t writer = trace.launch(2);
    look(0, 0);
    trace.access(writer, 0, 0, 5, slot, 5, 0, pair(5, 1));
    look(5, 1), use();
    trace.end_launch(launch);
    const std::uint32_t teller = trace.launch(1);
    trace.access(teller, 2, 0, 3, head, 1, 0, 1);
    if (hears) trace.access(writer, 0, 0, 4, head, 0, 1);
    trace.access(writer, 0, 0, 5, slot, 6, 0, pair(6, 2));
    trace.end_launch(writer);
    trace.end_launch(teller);
    EXPECT_EQ(trace.analyze().races.size(), hears ? 0u : 1u);
    trace = begun;
  }
}

TEST_F(Refills, AsMuchMemoryAsThereMayBe) {
  for (std::uint32_t t = 0; t < 64; ++t) {
    const std::uint64_t at = memory + 1024 * t;
    trace.access(launch, 1, t, 0, at, 0, 0);
    trace.access(launch, 0, 0, 5, at, 5, 0, pair(5, 1));
    trace.access(launch, 1, t, 0, at, 0, pair(5, 1));
    trace.access(launch, 1, t, 1, memory + (1 << 17) + 4 * t);
    trace.access(launch, 0, 0, 5, at, 6, 0, pair(6, 2));
  }
  trace.end_launch(launch);
  for (const std::uint64_t limit : {0, 1 << 14}) {
    trace.memory_limit = limit;
    const Analysis analysis = trace.analyze();
    ASSERT_EQ(analysis.races.size(), 1u);
    EXPECT_EQ(analysis.races[0].occurrences, 64u);
  }
}

// What threads know of each other: all before counts as known to all behind, which is said.
TEST_F(Refills, MoreMemoryThanThereMayBe) {
  look(0, 0), fill(5, 1), look(5, 1), use();
  for (std::uint32_t i = 0; i < 4000; ++i) {
    trace.access(launch, 1, 0, 3, memory + 4096 + 8 * i, 1, 0, 1);
    trace.access(launch, 3, 0, 4, memory + 4096 + 8 * i, 0, 1);
  }
  fill(6, 2);
  trace.end_launch(launch);
  for (const std::uint64_t limit : {0, 1 << 14}) {
    trace.memory_limit = limit;
    const Analysis analysis = trace.analyze();
    EXPECT_EQ(analysis.races.size(), limit ? 0u : 1u);
    const bool said = std::any_of(analysis.warnings.begin(), analysis.warnings.end(), [](const std::string& line) {
      return line.find("what the threads knew of each other took too much memory") != std::string::npos;
    });
    EXPECT_EQ(said, limit != 0);
    EXPECT_EQ(analysis.summary.complete, limit == 0);
  }
}

TEST_F(Refills, OfManyReaders) {
  trace.jobs = 3;
  for (std::uint32_t t = 0; t < 64; ++t) look(0, 0, t);
  fill(5, 1);
  for (std::uint32_t t = 0; t < 64; ++t) look(5, 1, t), use(t);
  fill(6, 2);
  trace.end_launch(launch);
  const Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_EQ(analysis.races[0].occurrences, 64u);
}

} // namespace
} // namespace deadheat
