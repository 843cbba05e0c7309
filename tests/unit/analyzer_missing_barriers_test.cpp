// Races that one missing barrier makes are one fault, and those of two are two.
#include <map>
#include <numeric>
#include <optional>

#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

class MissingBarriers : public ::testing::Test {
 protected:
  LittleTrace trace;
  struct Step { // of a thread: an access to an element of the array, its own where it writes, else the other's
    std::uint32_t site = 0;
    std::uint64_t array = 0;
    bool barrier = false;
  };

  Step access(AccessKind access, std::uint32_t line, std::uint64_t array, std::vector<SourceFrame> frames = {}) {
    const std::uint32_t site = trace.site(line, {.access = access, .space = Space::shared});
    if (!frames.empty()) trace.source(site, std::move(frames));
    return {site, array};
  }
  Step write(std::uint32_t line, std::uint64_t array) { return access(AccessKind::write, line, array); }
  Step read(std::uint32_t line, std::uint64_t array) { return access(AccessKind::read, line, array); }
  Step barrier(std::uint32_t line) { return {trace.site(line, {.kind = SiteKind::barrier}), 0, true}; }

  // Two threads of two warps go through the program, one of them ahead as far as the next barrier.
  void run(const std::vector<Step>& program, std::uint32_t ahead = 0) {
    const std::uint32_t launch = trace.launch(1, {1, 1, 1}, {64, 1, 1});
    for (std::size_t begin = 0; begin < program.size();) {
      std::size_t end = begin;
      while (end < program.size() && !program[end].barrier) ++end;
      for (std::uint32_t thread : {ahead, 32 - ahead}) {
        for (std::size_t i = begin; i < end; ++i) {
          const Step& step = program[i];
          const bool own = trace.kind(step.site) != AccessKind::read;
          trace.access(launch, 0, thread, step.site, step.array + 4 * (own ? thread : 32 - thread), thread + 1);
        }
      }
      if (end < program.size()) trace.block_barrier(launch, 0, program[end].site);
      begin = end + 1;
    }
    trace.end_launch(launch);
  }

  // How many races each fault makes; the faults come first.
  static std::vector<std::size_t> faults(const Analysis& analysis) {
    std::map<std::uint32_t, std::size_t> count;
    for (const Race& race : analysis.races) ++count[race.same_fault_as ? race.same_fault_as : race.id];
    std::vector<std::size_t> sizes;
    for (const auto& [first, races] : count) {
      EXPECT_EQ(first, sizes.size() + 1);
      sizes.push_back(races);
    }
    return sizes;
  }
  using Sizes = std::vector<std::size_t>;
  static bool says(const Race& race, const std::string& text) { return race.why.find(text) != std::string::npos; }
};

TEST_F(MissingBarriers, OneOfTwoArrays) {
  for (std::uint32_t ahead : {0u, 32u}) {
    trace = LittleTrace();
    run({write(1, 0), write(2, 1024), read(3, 0), read(4, 1024)}, ahead);
    const Analysis analysis = trace.analyze();
    EXPECT_EQ(faults(analysis), Sizes{2});
    EXPECT_TRUE(says(analysis.races[0], "a barrier between a.cu:2 and a.cu:3 orders 1 more race of the same fault"))
        << analysis.races[0].why;
  }
}
TEST_F(MissingBarriers, TwoBehindEachOther) {
  run({write(1, 0), read(2, 0), write(3, 1024), read(4, 1024)});
  EXPECT_EQ(faults(trace.analyze()), (Sizes{1, 1}));
}
TEST_F(MissingBarriers, TwoWithABarrierInBetween) {
  run({write(1, 0), read(2, 0), barrier(3), write(4, 1024), read(5, 1024)});
  EXPECT_EQ(faults(trace.analyze()), (Sizes{1, 1}));
}
// Of threads that took different ways: compilers put what comes behind a branch in front of it, too.
TEST_F(MissingBarriers, ReadsThatTheCodeHasBeforeTheWrites) {
  const Step r1 = read(19, 0), r2 = read(20, 1024), w1 = write(16, 0), w2 = write(17, 1024);
  for (const bool writer_first : {true, false}) {
    const std::uint32_t launch = trace.launch(1, {1, 1, 1}, {64, 1, 1});
    const auto perform = [&](std::uint32_t thread, std::initializer_list<Step> steps) {
      for (const Step& step : steps) trace.access(launch, 0, thread, step.site, step.array);
    };
    if (writer_first) perform(0, {w1, w2});
    perform(32, {r1, r2});
    if (!writer_first) perform(0, {w1, w2});
    trace.end_launch(launch);
  }
  const Analysis analysis = trace.analyze();
  EXPECT_EQ(faults(analysis), Sizes{2});
  EXPECT_TRUE(says(analysis.races[0], "a barrier each time before a.cu:19 orders 1 more race of the same fault"))
      << analysis.races[0].why;
}
// One warp goes on with what the others have left, and they with the next turn: the barrier is missing where the loop
// ends.
TEST_F(MissingBarriers, OfALoopBetweenThreadsThatTookDifferentWays) {
  const Step look = read(1, 2048), leave = write(2, 0), b = barrier(3), take = read(4, 0), give = write(5, 2048);
  const std::uint32_t launch = trace.launch(1, {1, 1, 1}, {64, 1, 1});
  const auto perform = [&](std::uint32_t thread, std::initializer_list<Step> steps) {
    for (const Step& step : steps) trace.access(launch, 0, thread, step.site, step.array);
  };
  perform(32, {look, leave});
  trace.block_barrier(launch, 0, b.site);
  perform(32, {look, leave});
  perform(0, {take, give});
  trace.end_launch(launch);
  const Analysis analysis = trace.analyze();
  EXPECT_EQ(faults(analysis), Sizes{2});
  EXPECT_TRUE(says(analysis.races[0], "a barrier each time before a.cu:1 orders 1 more race of the same fault"))
      << analysis.races[0].why;
}
// The barrier at a loop's end: what is written in one turn is read in the next.
TEST_F(MissingBarriers, OfALoop) {
  const Step w1 = write(2, 0), w2 = write(3, 1024), r1 = read(1, 0), r2 = read(1, 1024), b = barrier(4);
  run({r1, r2, b, w1, w2, r1, r2, b, w1, w2, r1, r2, b, w1, w2});
  const Analysis analysis = trace.analyze();
  EXPECT_EQ(faults(analysis), Sizes{2});
  EXPECT_TRUE(says(analysis.races[0], "a barrier between a.cu:3 and a.cu:1 orders")) << analysis.races[0].why;
}
// Who is ahead by several turns of a loop has been everywhere in it: the pairs that are near each other tell more.
TEST_F(MissingBarriers, OfALoopThatHasNone) {
  const std::uint32_t r1 = read(3, 0).site, r2 = read(3, 0).site, w1 = write(1, 0).site, w2 = write(2, 0).site;
  std::vector<Step> program;
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    const std::uint64_t from = turn % 2 * 1024, to = 1024 - from;
    for (const Step& step : {Step{r1, from}, {r2, from + 512}, {w1, to}, {w2, to + 512}}) program.push_back(step);
  }
  run(program);
  const Analysis analysis = trace.analyze();
  EXPECT_EQ(faults(analysis), Sizes{2});
  EXPECT_TRUE(says(analysis.races[0], "a barrier between a.cu:2 and a.cu:3 orders")) << analysis.races[0].why;
}
// Reads that the compiler has put in another order: between a write and what is read behind it, not between reads.
TEST_F(MissingBarriers, OfALoopWhoseReadsAreMoved) {
  const std::uint32_t factor = read(2, 0).site, r1 = read(1, 0).site, r2 = read(1, 0).site, w1 = write(3, 0).site,
                      w2 = write(4, 0).site;
  std::vector<Step> program;
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    const std::uint64_t from = turn % 2 * 1024, to = 1024 - from;
    for (const Step& step : {Step{factor, 4096}, {r1, from}, {r2, from + 512}, {w1, to}, {w2, to + 512}})
      program.push_back(step);
  }
  run(program);
  const Analysis analysis = trace.analyze();
  EXPECT_EQ(faults(analysis), Sizes{2});
  EXPECT_TRUE(says(analysis.races[0], "a barrier between a.cu:4 and a.cu:2 orders")) << analysis.races[0].why;
}
// Threads that do so at once, which no barrier orders: one line that reads and writes.
TEST_F(MissingBarriers, UpdatesOfOneLine) {
  const std::uint32_t launch = trace.launch(1, {1, 1, 1}, {64, 1, 1});
  const Step r = read(1, 0), w = write(1, 0), later = read(2, 0);
  for (std::uint32_t thread : {0u, 32u}) {
    trace.access(launch, 0, thread, r.site, 0);
    trace.access(launch, 0, thread, w.site, 0, thread + 1);
  }
  trace.block_barrier(launch, 0);
  trace.access(launch, 0, 0, later.site, 0);
  trace.end_launch(launch);
  EXPECT_EQ(faults(trace.analyze()), Sizes{2});
}

// A step of a transform, inlined in the lines that call it: it reads one array and writes the other.
struct Steps : MissingBarriers {
  std::vector<Step> step(std::uint32_t caller) {
    const std::string number = std::to_string(caller); // a template's functions
    const auto frames = [&](std::uint32_t line) {
      return std::vector<SourceFrame>{{"void step<" + number + ">(int*)", "a.cu", line, 1},
                                      {"kernel(int*)", "a.cu", caller, 1}};
    };
    const std::uint64_t from = calls_++ % 2 * 1024;
    return {access(AccessKind::read, 0, from, frames(10)), access(AccessKind::write, 0, 1024 - from, frames(11))};
  }
  Step callers_barrier(std::uint32_t line) {
    const Step b = barrier(line);
    trace.source(b.site, {{"kernel(int*)", "a.cu", line, 1}});
    return b;
  }
  unsigned calls_ = 0;
};
TEST_F(Steps, ThatLackTheirBarrier) {
  std::vector<Step> program{callers_barrier(20)};
  for (std::uint32_t caller : {21u, 22u, 23u, 24u})
    for (const Step& one : step(caller)) program.push_back(one);
  run(program);
  const Analysis analysis = trace.analyze();
  EXPECT_GE(analysis.races.size(), 6u);
  EXPECT_EQ(faults(analysis), Sizes{analysis.races.size()});
}
TEST_F(Steps, WhoseCallersLackTheirBarrier) { // in two places of five
  std::vector<Step> program;
  for (std::uint32_t caller : {20u, 30u, 40u, 50u, 60u, 70u}) {
    for (const Step& one : step(caller)) program.push_back(one);
    if (caller != 30 && caller != 60) program.push_back(callers_barrier(caller + 1));
  }
  run(program);
  EXPECT_EQ(faults(trace.analyze()).size(), 2u);
}
// Functions that access an array for others are no fault of their own.
TEST_F(Steps, AccessorsOfTwoArrays) {
  const auto frames = [](const char* function, std::uint32_t line, std::uint32_t caller) {
    return std::vector<SourceFrame>{{function, "a.cu", line, 1}, {"kernel(int*)", "a.cu", caller, 1}};
  };
  run({access(AccessKind::write, 0, 0, frames("put(int*)", 1, 10)),
       access(AccessKind::read, 0, 0, frames("get(int*)", 2, 11)),
       access(AccessKind::write, 0, 1024, frames("put(int*)", 1, 12)),
       access(AccessKind::read, 0, 1024, frames("get(int*)", 2, 13))});
  EXPECT_EQ(faults(trace.analyze()), (Sizes{1, 1}));
}

} // namespace
} // namespace deadheat::test
