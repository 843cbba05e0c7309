// What host functions write into page-locked memory: accesses of their operations.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

class HostFunctions : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::uint32_t stream : {2u, 3u}) trace.stream(stream);
  }
  void copy_out_of(std::uint32_t stream, std::uint64_t offset = 0) {
    trace::Copy copy;
    copy.source = {memory + offset, 0, 64, 1, 1, 0};
    copy.destination = {memory + 4096, 0, 64, 1, 1, 0};
    copy.api = "cudaMemcpyAsync";
    trace::Operation operation;
    operation.what = copy;
    const std::uint32_t id = trace.submit(operation, stream);
    trace.begin(id);
    trace.end(id);
  }
  std::uint32_t submit(std::uint32_t stream) {
    trace::Operation operation;
    operation.what = trace::HostCallback{"cudaLaunchHostFunc"};
    return trace.submit(operation, stream);
  }
  // As the embedded device records it, or as a replay does, which knows before what the function will write.
  void run(std::uint32_t function, bool known_before = false) {
    const trace::Effects effects{function, {{memory + 16, {4, {1, 2, 3, 4}, {}}}}};
    if (known_before) trace.add(effects);
    trace.begin(function);
    trace.add(trace::HostWait{trace::HostWait::Kind::operation, function, 0, false, 0});
    if (!known_before) trace.add(effects);
    trace.end(function);
  }
  // A function and a set that is submitted with it; the host waits for a copy in another stream while the function
  // runs, or when it has run.
  void set_behind_one_beside_a_wait(bool runs_on) {
    const std::uint32_t function = submit(3);
    trace::Operation set;
    set.what = trace::Set{{memory + 4096, 0, 64, 1, 1, 0}, 0, 1, "cudaMemsetAsync"};
    const std::uint32_t behind = trace.submit(set, 3);
    const trace::HostWait here{trace::HostWait::Kind::operation, function, 0, false, 0};
    trace.begin(function);
    trace.add(here);
    if (!runs_on) trace.end(function);
    copy_out_of(2);
    trace.add(trace::HostWait{trace::HostWait::Kind::stream, 2, 0, false, 0});
    if (runs_on) {
      trace.add(here);
      trace.end(function);
    }
    trace.begin(behind);
    trace.end(behind);
  }
  void expect_race() {
    const Analysis analysis = trace.analyze();
    ASSERT_EQ(analysis.races.size(), 1u);
    const Race& race = analysis.races[0];
    EXPECT_EQ(race.level, RaceLevel::stream);
    EXPECT_EQ(race.certainty, Certainty::certain);
    EXPECT_EQ(race.second.kernel, "cudaLaunchHostFunc");
    EXPECT_EQ(race.second.op, AccessKind::write);
    EXPECT_EQ(race.bytes, 4u);
  }
  LittleTrace trace;
};

TEST_F(HostFunctions, WriteBesideCopiesOfOtherStreams) {
  copy_out_of(2);
  run(submit(3));
  expect_race();
}

TEST_F(HostFunctions, WriteWhatAReplayKnowsBefore) {
  copy_out_of(2);
  run(submit(3), true);
  expect_race();
}

TEST_F(HostFunctions, WriteInTheOrderOfTheirStream) {
  copy_out_of(3);
  run(submit(3));
  copy_out_of(3);
  EXPECT_TRUE(trace.races().empty());
}

TEST_F(HostFunctions, WriteTheirOwnBytesOnly) {
  copy_out_of(2, 64);
  run(submit(3));
  EXPECT_TRUE(trace.races().empty());
}

// Host threads may tell a function what they know, however early it was submitted.
TEST_F(HostFunctions, KnowWhatTheHostHasWaitedFor) {
  const std::uint32_t early = submit(3);
  copy_out_of(2);
  trace.add(trace::HostWait{trace::HostWait::Kind::stream, 2, 0, false, 0});
  run(early);
  EXPECT_TRUE(trace.races().empty());
}

// What one that ended by itself was not told, nothing behind it knows; one that ran on may have been told.
TEST_F(HostFunctions, TellNothingOfWhatTheHostWaitedForLater) {
  set_behind_one_beside_a_wait(false);
  EXPECT_EQ(trace.races().size(), 1u);
}

TEST_F(HostFunctions, ThatRunOnTellWhatComesBehindThem) {
  set_behind_one_beside_a_wait(true);
  EXPECT_TRUE(trace.races().empty());
}

TEST_F(HostFunctions, TellTheHost) {
  run(submit(3));
  copy_out_of(2);
  EXPECT_TRUE(trace.races().empty());
}

// Of opaque kernels a footprint tells more than what they changed.
TEST_F(HostFunctions, EffectsOfOthersAreNoAccesses) {
  copy_out_of(2);
  trace::Launch launch;
  launch.kernel = "opaque";
  trace::Operation operation;
  operation.what = launch;
  trace.add(trace::Effects{trace.next_operation(), {{memory, {4, {1, 2, 3, 4}, {}}}}});
  const std::uint32_t id = trace.submit(operation, 3);
  trace.begin(id);
  trace.end(id);
  EXPECT_TRUE(trace.races().empty());
}

} // namespace
} // namespace deadheat::test
