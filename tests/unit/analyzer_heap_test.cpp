// Memory that kernels take by malloc and give back by free: the free is an access, and whoever gets the memory next
// begins anew. Whole programs are tests/programs/global_heap*.cu; here is what no program has.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

class Heap : public ::testing::Test {
 protected:
  LittleTrace trace;
  std::uint32_t read = trace.site(1, {}), write = trace.site(2, {.access = AccessKind::write});
  std::uint32_t release =
      trace.site(3, {.access = AccessKind::free, .bytes = 0, .kind = SiteKind::heap, .opcode = "call.uni"});
  std::uint64_t block_of_heap = memory + 4096;

  void take(std::uint32_t launch, std::uint32_t block, std::uint32_t thread, std::uint64_t bytes = 64) {
    trace.add(trace::HeapBlock{launch, block, thread, block_of_heap, bytes});
  }
  void free(std::uint32_t launch, std::uint32_t block, std::uint32_t thread, std::uint64_t bytes = 0) {
    trace.add(trace::HeapFree{launch, block, thread, 1, release, block_of_heap, bytes});
  }
  // Memory that the host knows nothing of, as the heap of a GPU.
  void on_gpu(const std::string& calls) {
    trace.device_kind = "gpu";
    block_of_heap = memory + (1 << 20);
    trace.text(
        ".version 9.0\n.target sm_90\n.address_size 64\n.extern .func (.param .b64 r) malloc(.param .b64 n);\n"
        ".extern .func free(.param .b64 p);\n.visible .entry kernel()\n{\n.reg .b64 %rd<2>;\n" +
        calls + "ret;\n}\n");
  }
};

TEST_F(Heap, UsesThatNothingOrdersRaceWithTheFree) {
  const auto l = trace.launch();
  take(l, 0, 0);
  trace.access(l, 1, 40, read, block_of_heap + 60);
  free(l, 0, 3);
  trace.access(l, 2, 5, write, block_of_heap);
  const Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 2u);
  const Race& with_read = analysis.races[analysis.races[0].first.source[0].line == 1 ? 0 : 1];
  EXPECT_EQ(with_read.level, RaceLevel::global);
  EXPECT_EQ(with_read.certainty, Certainty::certain);
  EXPECT_EQ(with_read.first.op, AccessKind::read);
  EXPECT_EQ(with_read.second.op, AccessKind::free);
  EXPECT_EQ(with_read.second.thread, (Dim3{3, 0, 0}));
  EXPECT_EQ(with_read.second.name.site, release);
  EXPECT_EQ(with_read.address, block_of_heap + 60);
  EXPECT_EQ(trace.races(), (std::vector<std::string>{"1-3", "2-3"}));
}

TEST_F(Heap, WhatABarrierOrdersDoesNot) {
  const auto l = trace.launch();
  take(l, 0, 0);
  for (std::uint32_t t : {0u, 33u}) trace.access(l, 0, t, write, block_of_heap + 4 * t);
  trace.block_barrier(l, 0);
  free(l, 0, 63);
  EXPECT_TRUE(trace.races().empty());
}

TEST_F(Heap, NorWhatLiesBehindTheBlock) {
  const auto l = trace.launch();
  take(l, 0, 0, 48);
  trace.access(l, 1, 0, write, block_of_heap + 48);
  free(l, 0, 0);
  EXPECT_TRUE(trace.races().empty());
}

TEST_F(Heap, ANewOwnerHasOtherMemory) {
  const auto l = trace.launch();
  take(l, 0, 0);
  trace.access(l, 0, 0, write, block_of_heap);
  free(l, 0, 0);
  take(l, 1, 0);
  trace.access(l, 1, 0, write, block_of_heap);
  free(l, 1, 0, 64);
  take(l, 2, 7);
  trace.access(l, 2, 7, read, block_of_heap);
  EXPECT_TRUE(trace.races().empty());
}

TEST_F(Heap, TwoThatFreeRace) {
  const auto l = trace.launch();
  take(l, 0, 0);
  free(l, 0, 0);
  free(l, 1, 0);
  EXPECT_EQ(trace.races(), std::vector<std::string>{"3-3"});
}

TEST_F(Heap, LargeBlocks) { // pages of which nothing is known but this
  trace.allocate(2, memory + (1 << 24), 1 << 20);
  block_of_heap = memory + (1 << 24) + 512;
  const auto l = trace.launch();
  take(l, 0, 0, 1 << 19);
  trace.access(l, 0, 0, write, block_of_heap + 70000);
  trace.access(l, 1, 0, read, block_of_heap + (1 << 19) - 4);
  free(l, 0, 0);
  EXPECT_EQ(trace.races(), std::vector<std::string>{"1-3"});
}

TEST_F(Heap, LyingRecordsDoNoHarm) {
  const auto l = trace.launch();
  trace.add(trace::HeapFree{l, 0, 0, 1, release, memory, ~std::uint64_t(0)});
  trace.add(trace::HeapFree{l, 0, 5000, 1, release, memory, 16});
  trace.add(trace::HeapFree{l, 0, 0, 1, 99, memory, 16});
  trace.add(trace::HeapFree{77, 0, 0, 1, release, memory, 16});
  trace.add(trace::HeapBlock{l, 0, 0, ~std::uint64_t(0) - 8, 64});
  const Analysis analysis = trace.analyze();
  EXPECT_TRUE(analysis.races.empty());
  EXPECT_FALSE(analysis.summary.complete);
}

// ---- on a GPU

class HeapOnGpu : public Heap {
 protected:
  // A race of one launch, of two with `launches`; whether it is certain.
  bool certain(bool launches = false) {
    trace.stream(2);
    const auto l = trace.launch();
    const auto other = launches ? trace.launch(2) : l;
    take(l, 0, 0);
    trace.access(l, 0, 0, write, block_of_heap);
    trace.access(other, 1, 0, write, block_of_heap);
    const Analysis analysis = trace.analyze();
    EXPECT_EQ(analysis.races.size(), 1u);
    return !analysis.races.empty() && analysis.races[0].certainty == Certainty::certain;
  }
  static constexpr const char* call_free = "{\n.param .b64 q;\nst.param.b64 [q], %rd1;\ncall free, (q);\n}\n";
};

TEST_F(HeapOnGpu, OwnersAreRecorded) {
  on_gpu(call_free);
  EXPECT_TRUE(certain());
}

TEST_F(HeapOnGpu, NotBetweenLaunches) {
  on_gpu(call_free);
  EXPECT_FALSE(certain(true));
}

TEST_F(HeapOnGpu, NotWhereFunctionsAreCalledByAddress) {
  on_gpu(std::string(call_free) + "other: .callprototype ()_ ();\ncall %rd1, (), other;\n");
  EXPECT_FALSE(certain());
}

} // namespace
} // namespace deadheat::test
