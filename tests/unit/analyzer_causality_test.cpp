// The rules inside a launch, one small run each: what synchronizes, and what looks as if it did.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

using Races = std::vector<std::string>;

class Causality : public ::testing::Test {
 protected:
  LittleTrace trace;
  // Lines 1 and 2: a weak write and a weak read of the data.
  std::uint32_t write = trace.site(1, {.access = AccessKind::write});
  std::uint32_t read = trace.site(2, {});
  std::uint32_t shared_write = trace.site(3, {.access = AccessKind::write, .space = Space::shared});
  std::uint32_t shared_read = trace.site(4, {.space = Space::shared});
  std::uint32_t strong(std::uint32_t line, AccessKind kind, Ordering ordering, Scope scope, const char* opcode = "") {
    return trace.site(line, {.access = kind, .ordering = ordering, .scope = scope, .opcode = opcode});
  }
  static constexpr std::uint64_t data = memory, flag = memory + 64;
};

TEST_F(Causality, MissingBarrier) {
  auto l = trace.launch();
  trace.access(l, 0, 0, shared_write, 0);
  trace.access(l, 0, 40, shared_read, 0);
  EXPECT_EQ(trace.races(), Races{"3-4"});
}

// A broadcast read by the whole warp races with one of its lanes: not with the lane that wrote.
TEST_F(Causality, ABroadcastNamesALaneThatRaces) {
  auto l = trace.launch();
  trace.access(l, 0, 0, shared_write, 0);
  trace.broadcast(l, 0, 0, ~0u, shared_read, 0);
  std::vector<Race> races = trace.analyze().races;
  ASSERT_EQ(races.size(), 1u);
  EXPECT_EQ(races[0].first.name.thread, 0u);
  EXPECT_EQ(races[0].second.name.thread, 1u);
  EXPECT_EQ(races[0].second.thread.x, 1u);
  EXPECT_EQ(races[0].second.name.nth, 0u);
}

TEST_F(Causality, ALaneThatWritesAfterABroadcast) {
  auto l = trace.launch();
  trace.broadcast(l, 0, 0, ~0u, shared_read, 0);
  trace.access(l, 0, 0, shared_write, 0);
  std::vector<Race> races = trace.analyze().races;
  ASSERT_EQ(races.size(), 1u);
  EXPECT_EQ(races[0].first.name.thread, 1u);
  EXPECT_EQ(races[0].second.name.thread, 0u);
}

TEST_F(Causality, BarrierOrders) {
  auto l = trace.launch();
  trace.access(l, 0, 0, shared_write, 0);
  trace.block_barrier(l, 0);
  trace.access(l, 0, 40, shared_read, 0);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Causality, SharedMemoryOfBlocksIsApart) {
  auto l = trace.launch();
  trace.access(l, 0, 0, shared_write, 0);
  trace.access(l, 1, 40, shared_read, 0);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Causality, BarrierOfAnotherBlockOrdersNothing) {
  auto l = trace.launch();
  trace.access(l, 0, 0, write, data);
  trace.block_barrier(l, 0);
  trace.block_barrier(l, 1);
  trace.access(l, 1, 0, read, data);
  EXPECT_EQ(trace.races(), Races{"1-2"});
}

TEST_F(Causality, ReadsDoNotRace) {
  auto l = trace.launch();
  trace.access(l, 0, 0, read, data);
  trace.access(l, 1, 0, read, data);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Causality, AdjacentBytesDoNotRace) {
  auto byte = trace.site(9, {.access = AccessKind::write, .bytes = 1});
  auto l = trace.launch();
  for (unsigned i = 0; i < 8; ++i) trace.access(l, 0, i, byte, data + i);
  EXPECT_EQ(trace.races(), Races{});
  trace.access(l, 0, 33, byte, data + 3);
  EXPECT_EQ(trace.races(), Races{"9-9"});
}

TEST_F(Causality, VectorOverlapsScalarInItsLastWord) {
  auto vector = trace.site(9, {.access = AccessKind::write, .bytes = 4, .elements = 4});
  auto l = trace.launch();
  trace.access(l, 0, 0, vector, data);
  trace.access(l, 1, 0, read, data + 16);
  EXPECT_EQ(trace.races(), Races{});
  trace.access(l, 1, 0, read, data + 12);
  EXPECT_EQ(trace.races(), Races{"2-9"});
}

TEST_F(Causality, WarpBarrierOrdersItsMaskOnly) {
  auto l = trace.launch();
  trace.access(l, 0, 0, shared_write, 0);
  trace.access(l, 0, 1, shared_write, 4);
  trace.warp_barrier(l, 0, 0, 0b1101);
  trace.access(l, 0, 2, shared_read, 0); // both in the mask
  EXPECT_EQ(trace.races(), Races{});
  trace.access(l, 0, 3, shared_read, 4); // lane 1 was not
  EXPECT_EQ(trace.races(), Races{"3-4"});
}

TEST_F(Causality, WarpBarrierOrdersNoOtherWarp) {
  auto l = trace.launch();
  trace.access(l, 0, 0, shared_write, 0);
  trace.warp_barrier(l, 0, 0, ~0u);
  trace.warp_barrier(l, 0, 1, ~0u);
  trace.access(l, 0, 32, shared_read, 0);
  EXPECT_EQ(trace.races(), Races{"3-4"});
}

TEST_F(Causality, WarpValueOrdersNothing) {
  auto l = trace.launch();
  trace.access(l, 0, 0, shared_write, 0);
  trace::WarpValue value;
  value.warp = {l, 0, 0};
  value.mask = ~0u;
  trace.add(value);
  trace.access(l, 0, 1, shared_read, 0);
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_NE(analysis.races[0].why.find("order no memory"), std::string::npos);
}

// ---- named barriers

TEST_F(Causality, ArriveReleasesButDoesNotAcquire) {
  auto l = trace.launch();
  auto arrive = [&](std::uint32_t warp, bool sync) {
    trace::BarrierArrive record;
    record.warp = {l, 0, warp};
    record.mask = ~0u;
    record.barrier = 1;
    record.sync = sync;
    trace.add(record);
  };
  trace.access(l, 0, 0, shared_write, 0);  // warp 0 produces
  trace.access(l, 0, 32, shared_write, 4); // warp 1 too
  arrive(0, false);
  arrive(1, true);
  trace.add(trace::BarrierComplete{l, 0, 1, 0});
  trace.access(l, 0, 33, shared_read, 0); // sync: sees both
  EXPECT_EQ(trace.races(), Races{});
  trace.access(l, 0, 1, shared_read, 4); // arrive only
  EXPECT_EQ(trace.races(), Races{"3-4"});
}

TEST_F(Causality, WhatFollowsAnArriveIsNotReleased) {
  auto l = trace.launch();
  trace::BarrierArrive record;
  record.warp = {l, 0, 0};
  record.mask = ~0u;
  record.sync = false;
  trace.add(record);
  trace.access(l, 0, 0, shared_write, 0);
  record.warp.warp = 1;
  record.sync = true;
  trace.add(record);
  trace.add(trace::BarrierComplete{l, 0, 0, 0});
  trace.access(l, 0, 40, shared_read, 0);
  EXPECT_EQ(trace.races(), Races{"3-4"});
}

// ---- release and acquire

struct Passing {
  Ordering release, acquire;
  Scope release_scope, acquire_scope;
  bool same_block, ordered;
};

class MessagePassing : public ::testing::TestWithParam<Passing> {};

TEST_P(MessagePassing, OrdersTheDataOrNot) {
  const Passing& p = GetParam();
  LittleTrace trace;
  auto write = trace.site(1, {.access = AccessKind::write});
  auto read = trace.site(2, {});
  auto release = trace.site(5, {.access = AccessKind::write, .ordering = p.release, .scope = p.release_scope});
  auto acquire = trace.site(6, {.ordering = p.acquire, .scope = p.acquire_scope, .in_loop = true});
  auto l = trace.launch();
  trace.access(l, 0, 0, write, memory);
  trace.access(l, 0, 0, release, memory + 64, 1, 0, 1);
  std::uint32_t block = p.same_block ? 0 : 1;
  trace.access(l, block, 33, acquire, memory + 64, 0, 1);
  trace.access(l, block, 33, read, memory);
  std::vector<std::string> races = trace.races();
  EXPECT_EQ(std::count(races.begin(), races.end(), "1-2"), p.ordered ? 0 : 1);
}

INSTANTIATE_TEST_SUITE_P(
    Orderings, MessagePassing,
    ::testing::Values(Passing{Ordering::release, Ordering::acquire, Scope::gpu, Scope::gpu, false, true},
                      Passing{Ordering::release, Ordering::acquire, Scope::cta, Scope::cta, true, true},
                      Passing{Ordering::release, Ordering::acquire, Scope::cta, Scope::gpu, false, false},
                      Passing{Ordering::release, Ordering::acquire, Scope::gpu, Scope::cta, false, false},
                      Passing{Ordering::release, Ordering::acquire, Scope::sys, Scope::gpu, false, true},
                      Passing{Ordering::relaxed, Ordering::acquire, Scope::gpu, Scope::gpu, false, false},
                      Passing{Ordering::release, Ordering::relaxed, Scope::gpu, Scope::gpu, false, false},
                      Passing{Ordering::volatile_, Ordering::volatile_, Scope::sys, Scope::sys, false, false}));

TEST_F(Causality, FencesMakePatterns) {
  auto set = strong(5, AccessKind::write, Ordering::relaxed, Scope::gpu);
  auto get = strong(6, AccessKind::read, Ordering::relaxed, Scope::gpu);
  auto l = trace.launch();
  trace.access(l, 0, 0, write, data);
  trace.fence(l, 0, 0, Scope::gpu);
  trace.access(l, 0, 0, set, flag, 1, 0, 1);
  trace.access(l, 1, 0, get, flag, 0, 1);
  trace.fence(l, 1, 0, Scope::gpu);
  trace.access(l, 1, 0, read, data);
  std::vector<std::string> races = trace.races();
  EXPECT_EQ(std::count(races.begin(), races.end(), "1-2"), 0);
}

TEST_F(Causality, AFenceOfBlockScopeDoesNotReachAnotherBlock) {
  auto set = strong(5, AccessKind::write, Ordering::relaxed, Scope::gpu);
  auto get = strong(6, AccessKind::read, Ordering::acquire, Scope::gpu);
  auto l = trace.launch();
  trace.access(l, 0, 0, write, data);
  trace.fence(l, 0, 0, Scope::cta);
  trace.access(l, 0, 0, set, flag, 1, 0, 1);
  trace.access(l, 1, 0, get, flag, 0, 1);
  trace.access(l, 1, 0, read, data);
  EXPECT_EQ(trace.races(), Races{"1-2"});
}

TEST_F(Causality, WritesAfterTheFenceAreNotReleased) {
  auto set = strong(5, AccessKind::write, Ordering::relaxed, Scope::gpu);
  auto get = strong(6, AccessKind::read, Ordering::acquire, Scope::gpu);
  auto l = trace.launch();
  trace.fence(l, 0, 0, Scope::gpu);
  trace.access(l, 0, 0, write, data);
  trace.access(l, 0, 0, set, flag, 1, 0, 1);
  trace.access(l, 1, 0, get, flag, 0, 1);
  trace.access(l, 1, 0, read, data);
  EXPECT_EQ(trace.races(), Races{"1-2"});
}

TEST_F(Causality, ChainsOfReadModifyWritesCarryReleases) {
  auto release = strong(5, AccessKind::atomic, Ordering::release, Scope::gpu, "atom.add.release.gpu.u32");
  auto link = strong(6, AccessKind::atomic, Ordering::relaxed, Scope::gpu, "red.add.u32");
  auto acquire = strong(7, AccessKind::read, Ordering::acquire, Scope::gpu);
  auto l = trace.launch();
  trace.access(l, 0, 0, write, data);
  trace.access(l, 0, 0, release, flag, 1, 0, 1);
  trace.access(l, 1, 0, link, flag, 2, 1, 2); // another block adds without ordering
  trace.access(l, 2, 0, acquire, flag, 0, 2);
  trace.access(l, 2, 0, read, data);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Causality, APlainStoreBreaksTheChain) {
  auto release = strong(5, AccessKind::atomic, Ordering::release, Scope::gpu, "atom.add.release.gpu.u32");
  auto store = strong(6, AccessKind::write, Ordering::relaxed, Scope::gpu, "st.relaxed.gpu.u32");
  auto acquire = strong(7, AccessKind::read, Ordering::acquire, Scope::gpu);
  auto l = trace.launch();
  trace.access(l, 0, 0, write, data);
  trace.access(l, 0, 0, release, flag, 1, 0, 1);
  trace.access(l, 1, 0, store, flag, 2, 0, 2);
  trace.access(l, 2, 0, acquire, flag, 0, 2);
  trace.access(l, 2, 0, read, data);
  EXPECT_EQ(trace.races(), Races{"1-2"});
}

// Where the release is the first that is known of the thread.
TEST_F(Causality, WhatFollowsAReleaseIsNotReleased) {
  for (const AccessKind kind : {AccessKind::write, AccessKind::atomic}) {
    auto release = strong(5, kind, Ordering::release, Scope::gpu);
    auto acquire = strong(6, AccessKind::read, Ordering::acquire, Scope::gpu);
    auto l = trace.launch();
    trace.access(l, 0, 0, release, flag, 1, 0, 1);
    trace.access(l, 0, 0, write, data);
    trace.access(l, 1, 0, acquire, flag, 0, 1);
    trace.access(l, 1, 0, read, data);
    EXPECT_EQ(trace.races(), Races{"1-2"});
    trace.end_launch(l);
  }
}

TEST_F(Causality, AReductionAcquiresNothing) {
  auto release = strong(5, AccessKind::write, Ordering::release, Scope::gpu);
  auto reduce = strong(6, AccessKind::atomic, Ordering::relaxed, Scope::gpu, "red.add.u32");
  auto l = trace.launch();
  trace.access(l, 0, 0, write, data);
  trace.access(l, 0, 0, release, flag, 1, 0, 1);
  trace.access(l, 1, 0, reduce, flag, 2, 1, 2);
  trace.fence(l, 1, 0, Scope::gpu);
  trace.access(l, 1, 0, read, data);
  EXPECT_EQ(trace.races(), Races{"1-2"});
}

TEST_F(Causality, AnAcquireThatSawAnotherValueOrdersNothing) {
  auto release = strong(5, AccessKind::write, Ordering::release, Scope::gpu);
  auto acquire = strong(6, AccessKind::read, Ordering::acquire, Scope::gpu);
  auto l = trace.launch();
  trace.access(l, 1, 0, acquire, flag, 0, 0); // before the release
  trace.access(l, 0, 0, write, data);
  trace.access(l, 0, 0, release, flag, 1, 0, 1);
  trace.access(l, 1, 0, read, data);
  EXPECT_EQ(trace.races(), Races{"1-2"});
}

TEST_F(Causality, ReleaseThroughABarrierReachesTheBlock) {
  auto add = strong(5, AccessKind::atomic, Ordering::acq_rel, Scope::gpu, "atom.add.acq_rel.gpu.u32");
  auto l = trace.launch();
  trace.access(l, 0, 5, write, data); // a thread that does not synchronize itself
  trace.block_barrier(l, 0);
  trace.access(l, 0, 0, add, flag, 1, 0, 1);
  trace.access(l, 1, 0, add, flag, 2, 1, 2);
  trace.block_barrier(l, 1);
  trace.access(l, 1, 50, read, data);
  EXPECT_EQ(trace.races(), Races{});
}

// ---- moral strength

TEST_F(Causality, AtomicsOfOneScopeDoNotRace) {
  auto add = strong(5, AccessKind::atomic, Ordering::relaxed, Scope::gpu, "atom.add.u32");
  auto l = trace.launch();
  trace.access(l, 0, 0, add, flag, 1, 0, 1);
  trace.access(l, 1, 0, add, flag, 2, 1, 2);
  EXPECT_EQ(trace.races(), Races{});
}

// Reductions may as well have come in another order: that one's thread comes after its own says nothing of the others.
TEST_F(Causality, TheLastReductionStandsForNoOther) {
  auto reduce = strong(5, AccessKind::atomic, Ordering::relaxed, Scope::gpu, "red.add.u32");
  auto add = strong(6, AccessKind::atomic, Ordering::relaxed, Scope::gpu, "atom.add.u32");
  auto l = trace.launch();
  trace.access(l, 0, 0, reduce, flag, 1, 0, 1);
  trace.access(l, 1, 0, reduce, flag, 2, 1, 2);
  trace.access(l, 1, 0, read, flag);
  EXPECT_EQ(trace.races(), Races{"2-5"});
  trace.access(l, 0, 0, add, flag + 64, 1, 0, 1);
  trace.access(l, 1, 0, add, flag + 64, 2, 1, 2);
  trace.access(l, 1, 0, read, flag + 64);
  EXPECT_EQ(trace.races(), Races{"2-5"});
}

TEST_F(Causality, AtomicsOfBlockScopeRaceAcrossBlocks) {
  auto add = strong(5, AccessKind::atomic, Ordering::relaxed, Scope::cta, "atom.add.cta.u32");
  auto l = trace.launch();
  trace.access(l, 0, 0, add, flag, 1, 0, 1);
  trace.access(l, 0, 9, add, flag, 2, 1, 2);
  EXPECT_EQ(trace.races(), Races{});
  trace.access(l, 1, 0, add, flag, 3, 2, 3);
  EXPECT_EQ(trace.races(), Races{"5-5"});
}

TEST_F(Causality, AtomicsOfDifferentSizesRace) {
  auto narrow = strong(5, AccessKind::atomic, Ordering::relaxed, Scope::gpu, "atom.add.u32");
  auto wide =
      trace.site(6, {.access = AccessKind::atomic, .ordering = Ordering::relaxed, .scope = Scope::gpu, .bytes = 8});
  auto l = trace.launch();
  trace.access(l, 0, 0, narrow, flag, 1, 0, 1);
  trace.access(l, 1, 0, wide, flag, 1, 1, 2);
  EXPECT_EQ(trace.races(), Races{"5-6"});
}

TEST_F(Causality, PackedAtomicsAreAtomicEachValue) { // 8.2.2
  auto packed = [&](std::uint32_t line, const char* opcode, std::uint32_t bytes) {
    return trace.site(line, {.access = AccessKind::atomic,
                             .ordering = Ordering::relaxed,
                             .scope = Scope::gpu,
                             .bytes = bytes,
                             .opcode = opcode});
  };
  auto pair = packed(5, "atom.global.add.noftz.f16x2", 4), one = packed(6, "atom.global.add.noftz.f16", 2),
       word = packed(7, "atom.global.add.u32", 4);
  auto l = trace.launch();
  trace.access(l, 0, 0, pair, flag, 1, 0, 1);
  trace.access(l, 1, 0, one, flag + 2, 2, 0, 1);
  trace.access(l, 2, 0, pair, flag, 3, 1, 2);
  EXPECT_EQ(trace.races(), Races{});
  trace.access(l, 3, 0, word, flag, 4, 2, 3);
  EXPECT_EQ(trace.races(), (Races{"5-7", "6-7"}));
}

TEST_F(Causality, APlainWriteRacesWithAnAtomic) {
  auto add = strong(5, AccessKind::atomic, Ordering::relaxed, Scope::gpu, "atom.add.u32");
  auto l = trace.launch();
  trace.access(l, 0, 0, write, flag);
  trace.access(l, 1, 0, add, flag, 1, 0, 1);
  EXPECT_EQ(trace.races(), Races{"1-5"});
}

TEST_F(Causality, ObservedWritesAreOrderedBeforeWhatFollows) {
  // The last block resets the counter with a plain store: it has seen every other block's addition.
  auto add = strong(5, AccessKind::atomic, Ordering::relaxed, Scope::gpu, "atom.add.u32");
  auto l = trace.launch();
  for (unsigned block = 0; block < 4; ++block) trace.access(l, block, 0, add, flag, block + 1, block, block + 1);
  trace.access(l, 3, 0, write, flag);
  EXPECT_EQ(trace.races(), Races{});
  trace.access(l, 2, 0, read, flag); // this block has not seen the last addition
  EXPECT_EQ(trace.races(), (Races{"1-2", "2-5"}));
}

TEST_F(Causality, UnorderedVolatilesAreClassStrong) {
  auto set = strong(5, AccessKind::write, Ordering::volatile_, Scope::sys);
  auto get = strong(6, AccessKind::read, Ordering::volatile_, Scope::sys);
  auto l = trace.launch();
  trace.access(l, 0, 0, set, flag, 1, 0, 1);
  trace.access(l, 0, 1, get, flag, 0, 1);
  EXPECT_EQ(trace.races(), Races{"5-6 strong"});
}

TEST_F(Causality, UnorderedMmioIsClassStrongToo) { // it is relaxed, at system scope (9.7.9.8)
  auto set = strong(5, AccessKind::write, Ordering::mmio, Scope::sys);
  auto get = strong(6, AccessKind::read, Ordering::mmio, Scope::sys);
  auto l = trace.launch();
  trace.access(l, 0, 0, set, flag, 1, 0, 1);
  trace.access(l, 1, 0, get, flag, 0, 1);
  EXPECT_EQ(trace.races(), Races{"5-6 strong"});
}

// Relaxed loads and stores race in the same way, unless the value is what a wait loop waits for: then neither the
// loop's reads, nor its first look that stands before it, nor two threads' writes of the flag are reported.
TEST(WaitLoops, RelaxedPlainAccessesAreStrongUnlessAWaitLoopReadsThem) {
  auto races = [](bool waited_for, bool first_look, bool acquire) {
    LittleTrace trace;
    auto write = trace.site(5, {.access = AccessKind::write, .ordering = Ordering::relaxed, .scope = Scope::gpu});
    auto read = trace.site(6, {.ordering = acquire ? Ordering::acquire : Ordering::relaxed, .scope = Scope::gpu});
    auto loop = trace.site(first_look ? 6u : 7u, {.ordering = Ordering::relaxed, .scope = Scope::gpu, .in_loop = true});
    auto launch = trace.launch();
    trace.access(launch, 0, 0, write, memory, 1, 0, 1);
    trace.access(launch, 1, 0, write, memory, 1, 0, 1);
    trace.access(launch, 2, 0, read, memory, 0, 1);
    // Elsewhere, or the same word.
    if (waited_for || first_look) trace.access(launch, 3, 0, loop, waited_for ? memory : memory + 64, 0, 1);
    trace.end_launch(launch);
    return trace.races();
  };
  EXPECT_EQ(races(false, false, false), (Races{"5-5 strong", "5-6 strong"}));
  EXPECT_EQ(races(true, false, false), Races{});
  EXPECT_EQ(races(false, true, false), Races{"5-5 strong"});
  EXPECT_EQ(races(false, false, true), Races{"5-5 strong"});
}

// What the report names must mend all pairs: between lanes, warps and blocks it says what the furthest need.
TEST_F(Causality, ThePairFurthestApartStandsForAll) {
  auto why = [this](auto&& more) {
    LittleTrace little = trace;
    const std::uint32_t l = little.launch();
    little.access(l, 0, 0, write, data);
    little.access(l, 0, 1, read, data);
    more(little, l);
    Analysis analysis = little.analyze();
    EXPECT_EQ(analysis.races.size(), 1u);
    return analysis.races.empty() ? Race{} : analysis.races[0];
  };
  Race race = why([](LittleTrace&, std::uint32_t) {});
  EXPECT_NE(race.why.find("no __syncwarp"), std::string::npos) << race.why;
  race = why([&](LittleTrace& little, std::uint32_t l) { little.access(l, 0, 40, read, data); });
  EXPECT_NE(race.why.find("no __syncthreads"), std::string::npos) << race.why;
  EXPECT_EQ(race.second.thread.x, 40u);
  race = why([&](LittleTrace& little, std::uint32_t l) {
    little.access(l, 1, 3, read, data);
    little.access(l, 0, 40, read, data);
  });
  EXPECT_NE(race.why.find("different blocks"), std::string::npos) << race.why;
  EXPECT_EQ(race.second.block.x, 1u);
  EXPECT_EQ(race.occurrences, 3u);
}

// The last synchronization in common is what order says it is, of whichever kind; and where there is none, that is
// said.
TEST_F(Causality, TheLastSynchronizationInCommonIsNamed) {
  auto set = strong(30, AccessKind::write, Ordering::release, Scope::gpu);
  auto get = strong(31, AccessKind::read, Ordering::acquire, Scope::gpu);
  for (bool message : {false, true}) {
    LittleTrace little = trace;
    const std::uint32_t l = little.launch();
    if (message) {
      little.access(l, 0, 0, set, flag, 0, 0, 1);
      little.access(l, 1, 0, get, flag, 0, 1);
    }
    little.access(l, 0, 0, write, data);
    little.access(l, 1, 0, read, data);
    const Analysis analysis = little.analyze();
    ASSERT_EQ(analysis.races.size(), 1u);
    const std::string& why = analysis.races[0].why;
    EXPECT_EQ(why.find("last synchronization in common is at a.cu:30") != std::string::npos, message) << why;
    EXPECT_EQ(why.find("nothing since the launch began") != std::string::npos, !message) << why;
  }
}

// The racing accesses are no message about themselves, and a line that reads and writes back is told so.
TEST_F(Causality, UpdatesOfOneLineAreSaid) {
  for (std::uint32_t line_of_read : {1u, 2u}) {
    LittleTrace little;
    auto store = little.site(1, {.access = AccessKind::write});
    auto load = little.site(line_of_read, {});
    const std::uint32_t l = little.launch();
    for (std::uint32_t block : {0u, 1u}) {
      little.access(l, block, 0, load, data);
      little.access(l, block, 0, store, data, block);
    }
    const Analysis analysis = little.analyze();
    ASSERT_EQ(analysis.races.size(), 2u);
    for (const Race& race : analysis.races) {
      EXPECT_EQ(race.why.find("one's update is lost") != std::string::npos, line_of_read == 1) << race.why;
    }
  }
}

TEST_F(Causality, ValuesThatCannotBeComparedAreNotSaidToDiffer) {
  auto wide = trace.site(1, {.access = AccessKind::write, .bytes = 8});
  auto l = trace.launch();
  trace.access(l, 0, 0, write, data, 7);
  trace.access(l, 1, 0, wide, data, 7);
  const Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_FALSE(analysis.races[0].same_value);
  EXPECT_NE(analysis.races[0].why.find("whether they wrote the same values is not known"), std::string::npos)
      << analysis.races[0].why;
}

TEST_F(Causality, SameValueIsSaid) {
  auto l = trace.launch();
  trace.access(l, 0, 0, write, data, 7);
  trace.access(l, 1, 0, write, data, 7);
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_TRUE(analysis.races[0].same_value);
  trace.access(l, 2, 0, write, data, 8);
  EXPECT_FALSE(trace.analyze().races[0].same_value);
}

TEST_F(Causality, AccessesAreNamedByTheirExecution) {
  auto l = trace.launch();
  for (unsigned i = 0; i < 5; ++i) trace.access(l, 0, 3, write, data + 4 * i);
  trace.access(l, 1, 4, read, data + 8);
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  const Race& race = analysis.races[0];
  EXPECT_EQ(race.first.name.nth, 2u);
  EXPECT_EQ(race.first.name.thread, 3u);
  EXPECT_EQ(race.second.name.block, 1u);
  EXPECT_EQ(race.second.name.nth, 0u);
  EXPECT_EQ(race.allocation->offset, 8u);
}

TEST_F(Causality, NoPairIsLostBehindAnother) {
  // Thread 0 writes twice, at two lines; both race with the reader.
  auto again = trace.site(9, {.access = AccessKind::write});
  auto l = trace.launch();
  trace.access(l, 0, 0, write, data);
  trace.access(l, 0, 0, again, data);
  trace.access(l, 1, 0, read, data);
  EXPECT_EQ(trace.races(), (Races{"1-2", "2-9"}));
}

} // namespace
} // namespace deadheat::test
