// Litmus tests of the PTX memory consistency model (PTX ISA 9.0, section 8): for each, one execution and the pairs of
// its accesses that are a data race (8.7.1), told by detector and oracle alike.
//
// The names are those of the literature: message passing (MP), store buffering (SB), load buffering (LB), independent
// reads of independent writes (IRIW), write-to-read causality (WRC) and ISA2 of Alglave, Maranget, Tautschnig, "Herding
// cats" (2014); with GPU scopes as in Lustig, Sahasrabuddhe, Giroux, "A formal analysis of the NVIDIA PTX memory
// consistency model" (2019).
#include <gtest/gtest.h>

#include "tests/unit/order_litmus.h"

namespace deadheat::test {
namespace {

// ---- message passing: data at x, flag at y (8.9.4, synchronizes-with; 8.8, patterns)

TEST(LitmusMP, ReleaseAcquire) {
  Litmus().write(t0, x).write(t0, y, release, gpu).read(t1, y, acquire, gpu).read(t1, x).none();
}
TEST(LitmusMP, Fences) {
  Litmus().write(t0, x).fence(t0).write(t0, y, relaxed, gpu).read(t1, y, relaxed, gpu).fence(t1).read(t1, x).none();
}
TEST(LitmusMP, VolatileFlagAndFences) { // volatile is relaxed at system scope
  Litmus().write(t0, x).fence(t0).write(t0, y, vol, sys).read(t1, y, vol, sys).fence(t1).read(t1, x).none();
}
TEST(LitmusMP, NoReleaseFence) {
  Litmus().write(t0, x).write(t0, y, relaxed, gpu).read(t1, y, relaxed, gpu).fence(t1).read(t1, x).races({{1, 4}});
}
TEST(LitmusMP, NoAcquireFence) {
  Litmus().write(t0, x).fence(t0).write(t0, y, relaxed, gpu).read(t1, y, relaxed, gpu).read(t1, x).races({{1, 4}});
}
TEST(LitmusMP, VolatileAlone) {
  Litmus().write(t0, x).write(t0, y, vol, sys).read(t1, y, vol, sys).read(t1, x).races({{1, 4}});
}
TEST(LitmusMP, WeakFlag) {
  Litmus().write(t0, x).fence(t0).write(t0, y).read(t1, y).fence(t1).read(t1, x).races({{1, 4}, {2, 3}});
}
TEST(LitmusMP, FlagReadTooEarly) { // nothing was observed, so nothing synchronizes
  Litmus().read(t1, y, acquire, gpu).write(t0, x).write(t0, y, release, gpu).read(t1, x).races({{2, 4}});
}
TEST(LitmusMP, AcquireOnAnotherLocation) {
  Litmus().write(t0, x).write(t0, y, release, gpu).read(t1, z, acquire, gpu).read(t1, x).races({{1, 4}});
}
TEST(LitmusMP, FencesOfTheWrongKind) { // an acquire fence releases nothing, a release fence acquires nothing (8.8)
  Litmus()
      .write(t0, x)
      .fence(t0, gpu, acquire)
      .write(t0, y, relaxed, gpu)
      .read(t1, y, acquire, gpu)
      .read(t1, x)
      .races({{1, 4}});
  Litmus()
      .write(t0, x)
      .write(t0, y, release, gpu)
      .read(t1, y, relaxed, gpu)
      .fence(t1, gpu, release)
      .read(t1, x)
      .races({{1, 4}});
}
TEST(LitmusMP, DataWrittenAfterTheRelease) {
  Litmus().write(t0, y, release, gpu).write(t0, x).read(t1, y, acquire, gpu).read(t1, x).races({{2, 4}});
}
TEST(LitmusMP, DataReadBeforeTheAcquire) {
  Litmus().write(t0, x).write(t0, y, release, gpu).read(t1, x).read(t1, y, acquire, gpu).races({{1, 3}});
}

// ---- scopes (8.5) and moral strength (8.7)

TEST(LitmusScopes, BlockScopeInOneBlock) {
  Litmus().write(t0, x).write(t0, y, release, cta).read(same_block, y, acquire, cta).read(same_block, x).none();
}
TEST(LitmusScopes, BlockScopeAcrossBlocks) {
  Litmus().write(t0, x).write(t0, y, release, cta).read(t1, y, acquire, cta).read(t1, x).races({{1, 4}, {2, 3}});
}
TEST(LitmusScopes, OneSideTooNarrow) {
  Litmus().write(t0, x).write(t0, y, release, gpu).read(t1, y, acquire, cta).read(t1, x).races({{1, 4}, {2, 3}});
  Litmus().write(t0, x).write(t0, y, release, cta).read(t1, y, acquire, gpu).read(t1, x).races({{1, 4}, {2, 3}});
}
TEST(LitmusScopes, FenceTooNarrow) {
  Litmus().write(t0, x).fence(t0, cta).write(t0, y, relaxed, gpu).read(t1, y, acquire, gpu).read(t1, x).races({{1, 4}});
  Litmus().write(t0, x).write(t0, y, release, gpu).read(t1, y, relaxed, gpu).fence(t1, cta).read(t1, x).races({{1, 4}});
}
TEST(LitmusScopes, FlagTooNarrowBetweenWideFences) { // the flag's accesses are not morally strong: no observation
  Litmus()
      .write(t0, x)
      .fence(t0)
      .write(t0, y, relaxed, cta)
      .read(t1, y, relaxed, cta)
      .fence(t1)
      .read(t1, x)
      .races({{1, 4}, {2, 3}});
}
TEST(LitmusScopes, Cluster) {
  Litmus(2).write(t0, x).write(t0, y, release, cluster).read(t1, y, acquire, cluster).read(t1, x).none();
  Litmus(1)
      .write(t0, x)
      .write(t0, y, release, cluster)
      .read(t1, y, acquire, cluster)
      .read(t1, x)
      .races({{1, 4}, {2, 3}});
}
TEST(LitmusScopes, SystemScopeIncludesTheDevice) {
  Litmus().write(t0, x).write(t0, y, release, sys).read(t1, y, acquire, gpu).read(t1, x).none();
}
TEST(LitmusScopes, AtomicsOfDifferentScopes) {
  Litmus().atomic(t0, x, relaxed, cta).atomic(same_block, x, relaxed, gpu).none();
  Litmus().atomic(t0, x, relaxed, cta).atomic(t1, x, relaxed, gpu).races({{1, 2}});
}

// ---- store and load buffering, independent reads: strong accesses never race, weak ones always do (8.7.1)

TEST(LitmusSB, Relaxed) {
  Litmus()
      .write(t0, x, relaxed, gpu)
      .write(t1, y, relaxed, gpu)
      .read(t0, y, relaxed, gpu)
      .read(t1, x, relaxed, gpu)
      .none();
}
TEST(LitmusSB, Weak) { Litmus().write(t0, x).write(t1, y).read(t0, y).read(t1, x).races({{1, 4}, {2, 3}}); }
TEST(LitmusSB, WeakWithFenceSc) { // Fence-SC order (8.9.3) is one run's accident and gives a program no order
  Litmus()
      .write(t0, x)
      .write(t1, y)
      .fence(t0, gpu, Ordering::sc)
      .fence(t1, gpu, Ordering::sc)
      .read(t0, y)
      .read(t1, x)
      .races({{1, 4}, {2, 3}});
}
TEST(LitmusLB, Relaxed) {
  Litmus()
      .read(t0, x, relaxed, gpu)
      .read(t1, y, relaxed, gpu)
      .write(t0, y, relaxed, gpu)
      .write(t1, x, relaxed, gpu)
      .none();
}
TEST(LitmusLB, Weak) { Litmus().read(t0, x).read(t1, y).write(t0, y).write(t1, x).races({{1, 4}, {2, 3}}); }
TEST(LitmusIRIW, Relaxed) {
  Litmus()
      .write(t0, x, relaxed, gpu)
      .write(t1, y, relaxed, gpu)
      .read(same_block, x, relaxed, gpu)
      .read(same_block, y, relaxed, gpu)
      .read(t2, y, relaxed, gpu)
      .read(t2, x, relaxed, gpu)
      .none();
}
TEST(LitmusIRIW, Weak) {
  Litmus()
      .write(t0, x)
      .write(t1, y)
      .read(same_block, x)
      .read(same_block, y)
      .read(t2, y)
      .read(t2, x)
      .races({{1, 3}, {1, 6}, {2, 4}, {2, 5}});
}
TEST(LitmusIRIW, BlockScope) { // t0 with same_block and t1 with t2 share a block, the others do not
  Litmus()
      .write(t0, x, relaxed, cta)
      .write(t1, y, relaxed, cta)
      .read(same_block, x, relaxed, cta)
      .read(same_block, y, relaxed, cta)
      .read(t2, y, relaxed, cta)
      .read(t2, x, relaxed, cta)
      .races({{1, 6}, {2, 4}});
}
TEST(LitmusCoherence, WeakAgainstStrong) { // CoRR and CoWW are no races only among strong accesses
  Litmus().write(t0, x).read(t1, x, relaxed, gpu).read(t1, x, relaxed, gpu).races({{1, 2}, {1, 3}});
  Litmus().write(t0, x, relaxed, gpu).read(t1, x, relaxed, gpu).read(t1, x, relaxed, gpu).none();
  Litmus().atomic(t0, x).read(t1, x).races({{1, 2}});
}

// ---- Fence-SC order that a read tells (8.9.3, 8.10.1): barriers lie between the fences and the flag
// Block 0 writes x, a thread fences, all meet.
Litmus fenced(Scope scope = gpu) {
  Litmus litmus;
  litmus.write(same_block, x).fence(same_block, scope, Ordering::sc).block_barrier(0);
  return litmus;
}
TEST(LitmusFenceOrder, ReaderFencesBehindABarrier) {
  Litmus()
      .write(t0, x)
      .fence(t0, gpu, Ordering::sc)
      .atomic(t0, y)
      .atomic(t1, y)
      .block_barrier(1)
      .fence(t2, gpu, Ordering::sc)
      .read(t2, x)
      .none();
}
TEST(LitmusFenceOrder, WriterFencesBeforeABarrier) {
  fenced().write(t0, y, relaxed, gpu).read(t1, y, relaxed, gpu).fence(t1, gpu, Ordering::sc).read(t1, x).none();
}
TEST(LitmusFenceOrder, BothAndAChain) { // a third block's ticket between the two
  fenced()
      .atomic(t0, y)
      .atomic(same_block, y, relaxed, sys)
      .atomic(t1, y)
      .block_barrier(1)
      .fence(t2, sys, Ordering::sc)
      .write(t2, x)
      .none();
}
TEST(LitmusFenceOrder, WriteAfterTheFence) {
  Litmus()
      .fence(same_block, gpu, Ordering::sc)
      .write(same_block, x)
      .block_barrier(0)
      .atomic(t0, y)
      .atomic(t1, y)
      .block_barrier(1)
      .fence(t2, gpu, Ordering::sc)
      .read(t2, x)
      .races({{1, 4}});
}
TEST(LitmusFenceOrder, ReadBeforeTheFence) {
  fenced().atomic(t0, y).atomic(t1, y).block_barrier(1).read(t2, x).fence(t2, gpu, Ordering::sc).races({{1, 4}});
}
TEST(LitmusFenceOrder, NoBarrierBehindTheFence) {
  Litmus()
      .write(same_block, x)
      .fence(same_block, gpu, Ordering::sc)
      .atomic(t0, y)
      .atomic(t1, y)
      .fence(t1, gpu, Ordering::sc)
      .read(t1, x)
      .races({{1, 4}});
}
TEST(LitmusFenceOrder, NoBarrierBeforeTheFence) {
  Litmus()
      .write(t0, x)
      .fence(t0, gpu, Ordering::sc)
      .atomic(t0, y)
      .atomic(t1, y)
      .fence(t2, gpu, Ordering::sc)
      .read(t2, x)
      .races({{1, 4}});
}
TEST(LitmusFenceOrder, OfOneKindOnly) { // acq_rel fences have no such order
  Litmus()
      .write(t0, x)
      .fence(t0, gpu, Ordering::sc)
      .atomic(t0, y)
      .atomic(t1, y)
      .block_barrier(1)
      .fence(t2)
      .read(t2, x)
      .races({{1, 4}});
  Litmus()
      .write(same_block, x)
      .fence(same_block)
      .block_barrier(0)
      .atomic(t0, y)
      .atomic(t1, y)
      .fence(t1, gpu, Ordering::sc)
      .read(t1, x)
      .races({{1, 4}});
}
TEST(LitmusFenceOrder, OfBlockScope) {
  fenced(cta).atomic(t0, y).atomic(t1, y).fence(t1, gpu, Ordering::sc).read(t1, x).races({{1, 4}});
}
TEST(LitmusFenceOrder, ReadTooEarly) { // it observes nothing: the order is one run's accident
  Litmus()
      .atomic(t1, y)
      .write(same_block, x)
      .fence(same_block, gpu, Ordering::sc)
      .block_barrier(0)
      .atomic(t0, y)
      .fence(t1, gpu, Ordering::sc)
      .read(t1, x)
      .races({{2, 4}});
}
TEST(LitmusFenceOrder, ReductionsTellNobody) {
  fenced().atomic(t0, y).reduction(t1, y).fence(t1, gpu, Ordering::sc).read(t1, x).races({{1, 4}});
}
TEST(LitmusFenceOrder, FlagOfBlockScope) {
  fenced()
      .write(t0, y, relaxed, cta)
      .read(t1, y, relaxed, gpu)
      .fence(t1, gpu, Ordering::sc)
      .read(t1, x)
      .races({{1, 4}, {2, 3}});
}
TEST(LitmusFenceOrder, WhatTheFenceAcquiredIsPassedOn) { // to the other block and back, to another warp
  const auto passed_on = [](bool fence_between) {
    Litmus litmus;
    litmus.write(same_warp, x).fence(same_warp, gpu, Ordering::sc).warp_barrier(0).atomic(t0, y);
    litmus.atomic(t1, y).block_barrier(1);
    if (fence_between) litmus.fence(t2, gpu, Ordering::sc).block_barrier(1);
    litmus.atomic(t1, z).atomic(same_block, z).fence(same_block, gpu, Ordering::sc).write(same_block, x);
    return litmus;
  };
  passed_on(true).none();
  passed_on(false).races({{1, 6}});
}

// ---- devices (8.5: .gpu has the threads of one device, of all its launches; .sys those of all)

constexpr At here{0, 0}, there{2, 0}, there_too{2, 33}; // `there`: of the launch on the other device

TEST(LitmusDevices, FlagsThatAreToReachTheOtherDevice) {
  const auto flag = [](Scope writes, Scope reads) {
    return Litmus()
        .two_devices()
        .write(here, x)
        .write(here, y, release, writes)
        .read(there, y, acquire, reads)
        .read(there, x);
  };
  flag(sys, sys).none();
  flag(gpu, gpu).races({{1, 4}, {2, 3}});
  flag(sys, gpu).races({{1, 4}, {2, 3}});
  flag(gpu, sys).races({{1, 4}, {2, 3}});
  // Of launches of one device .gpu is enough.
  Litmus()
      .launch(2)
      .launch(3)
      .write(here, x)
      .write(here, y, release, gpu)
      .read(there, y, acquire, gpu)
      .read(there, x)
      .none();
}

TEST(LitmusDevices, FencesThatAreToReachTheOtherDevice) {
  const auto fences = [](Scope before, Scope after) {
    return Litmus()
        .two_devices()
        .write(here, x)
        .fence(here, before)
        .write(here, y, vol, sys)
        .read(there, y, vol, sys)
        .fence(there, after)
        .read(there, x);
  };
  fences(sys, sys).none();
  fences(gpu, sys).races({{1, 4}});
  fences(sys, gpu).races({{1, 4}});
  EXPECT_NE(fences(gpu, sys).why().find("before it has device (.gpu) scope, and they are on different devices"),
            std::string::npos)
      << fences(gpu, sys).why();
  // What a fence of .gpu scope did not acquire, a later one of .sys scope does.
  Litmus()
      .two_devices()
      .write(here, x)
      .write(here, y, release, sys)
      .read(there, y, relaxed, sys)
      .fence(there, gpu)
      .fence(there, sys)
      .read(there, x)
      .none();
  Litmus()
      .two_devices()
      .write(here, x)
      .write(here, y, release, sys)
      .read(there, y, acquire, gpu)
      .fence(there, sys)
      .read(there, x)
      .races({{1, 4}, {2, 3}});
}

TEST(LitmusDevices, AtomicsOfOneDeviceAreNoneToTheOther) {
  Litmus().two_devices().atomic(here, x, relaxed, sys).atomic(there, x, relaxed, sys).none();
  Litmus().two_devices().atomic(here, x, relaxed, gpu).atomic(there, x, relaxed, gpu).races({{1, 2}});
  Litmus().two_devices().atomic(here, x, relaxed, sys).atomic(there, x, relaxed, gpu).races({{1, 2}});
  Litmus().launch(2).atomic(here, x, relaxed, gpu).launch(3, 0, 1).atomic(there, x, relaxed, sys).races({{1, 2}});
  Litmus().launch(2).launch(3).atomic(here, x, relaxed, gpu).atomic(there, x, relaxed, gpu).none();
  const std::string why = Litmus().two_devices().atomic(here, x, relaxed, sys).atomic(there, x, relaxed, gpu).why();
  EXPECT_EQ(why.rfind("both are strong, but one has device scope (.gpu) and the other is on another device", 0), 0u)
      << why;
}

// A counter that blocks of both devices pass: whoever acquires of the last has what came before the others, as far as
// scopes let it.
TEST(LitmusDevices, ChainsOfSeveralDevices) {
  const auto counter = [](Scope first, Scope link, Scope last) {
    return Litmus()
        .two_devices()
        .write(here, x)
        .atomic(here, y, acq_rel, first)
        .write(At{1, 0}, z)
        .atomic(At{1, 0}, y, acq_rel, link)
        .atomic(there, y, acq_rel, last)
        .read(there, x)
        .read(there, z);
  };
  counter(sys, sys, sys).none();
  // The second has acquired from the first, on its own device, and hands it on.
  counter(gpu, sys, sys).none();
  counter(sys, gpu, sys).races({{1, 6}, {3, 7}, {4, 5}});
  counter(gpu, gpu, gpu).races({{1, 6}, {2, 5}, {3, 7}, {4, 5}});
}

// What a link of the chain could not acquire itself it does not hand on.
TEST(LitmusDevices, LinksThatAcquireOnlyAPart) {
  const At last{3, 0};
  Litmus()
      .two_devices()
      .write(here, x)
      .atomic(here, y, release, gpu)
      .atomic(At{1, 0}, y, relaxed, sys)
      .atomic(there, y, acq_rel, sys)
      .atomic(last, y, acquire, sys)
      .read(last, x)
      .races({{1, 6}, {2, 4}});
}

// An acquire of .gpu scope leaves something for a fence of .sys scope behind it.
TEST(LitmusDevices, FencesBehindAcquires) {
  const auto read = [](bool fenced) {
    const At last{3, 0};
    Litmus litmus;
    litmus.two_devices().write(here, x).atomic(here, y, release, sys).atomic(there, y, relaxed, sys);
    litmus.read(last, y, acquire, gpu);
    if (fenced) litmus.fence(last, sys);
    return litmus.read(last, x);
  };
  read(true).races({{2, 4}});
  read(false).races({{1, 5}, {2, 4}});
}

// 8.9.3: fences of a block before a flag, and of another behind one that a thread has read, with barriers between.
TEST(LitmusDevices, FencesOfBlocks) {
  const auto fences = [](Scope before, Scope after) {
    return Litmus()
        .two_devices()
        .write(At{0, 33}, x)
        .fence(At{0, 33}, before, Ordering::sc)
        .block_barrier(0)
        .atomic(here, y, relaxed, sys)
        .atomic(there, y, relaxed, sys)
        .block_barrier(2)
        .fence(there_too, after, Ordering::sc)
        .read(there_too, x);
  };
  fences(sys, sys).none();
  fences(gpu, sys).races({{1, 4}});
  fences(sys, gpu).races({{1, 4}});
  fences(gpu, gpu).races({{1, 4}});
  // A flag that blocks of both devices pass: a fence of .gpu scope follows those of its own device.
  Litmus()
      .two_devices()
      .write(At{2, 33}, x)
      .fence(At{2, 33}, gpu, Ordering::sc)
      .block_barrier(2)
      .atomic(there, y, relaxed, sys)
      .write(At{0, 33}, z)
      .fence(At{0, 33}, gpu, Ordering::sc)
      .block_barrier(0)
      .atomic(here, y, relaxed, sys)
      .atomic(At{3, 0}, y, relaxed, sys)
      .block_barrier(3)
      .fence(At{3, 33}, gpu, Ordering::sc)
      .read(At{3, 33}, x)
      .read(At{3, 33}, z)
      .races({{3, 7}});
}

// ---- causality over several threads (8.9.5: base causality is transitive)

TEST(LitmusISA2, Transitive) {
  Litmus()
      .write(t0, d)
      .write(t0, x, release, gpu)
      .read(t1, x, acquire, gpu)
      .write(t1, y, release, gpu)
      .read(t2, y, acquire, gpu)
      .read(t2, d)
      .none();
}
TEST(LitmusISA2, MiddleDoesNotAcquire) {
  Litmus()
      .write(t0, d)
      .write(t0, x, release, gpu)
      .read(t1, x, relaxed, gpu)
      .write(t1, y, release, gpu)
      .read(t2, y, acquire, gpu)
      .read(t2, d)
      .races({{1, 6}});
}
TEST(LitmusISA2, MiddleDoesNotRelease) {
  Litmus()
      .write(t0, d)
      .write(t0, x, release, gpu)
      .read(t1, x, acquire, gpu)
      .write(t1, y, relaxed, gpu)
      .read(t2, y, acquire, gpu)
      .read(t2, d)
      .races({{1, 6}});
}
TEST(LitmusISA2, ScopesOfEachLinkAreEnough) { // block scope within the block, device scope between blocks
  Litmus()
      .write(t0, d)
      .write(t0, x, release, cta)
      .read(same_block, x, acquire, cta)
      .write(same_block, y, release, gpu)
      .read(t1, y, acquire, gpu)
      .read(t1, d)
      .none();
}
TEST(LitmusISA2, BarrierForTheFirstLink) { // the last-block pattern: data, bar.sync, fence, flag
  Litmus()
      .write(same_block, d)
      .block_barrier(0)
      .fence(t0)
      .atomic(t0, y)
      .atomic(t1, y)
      .fence(t1)
      .block_barrier(1)
      .read(t2, d)
      .none();
}
TEST(LitmusISA2, FenceByTheWrongThread) { // a fence of the data's writer is no release of the flag's writer
  Litmus()
      .write(same_block, d)
      .fence(same_block)
      .block_barrier(0)
      .atomic(t0, y)
      .atomic(t1, y)
      .fence(t1)
      .read(t1, d)
      .races({{1, 4}});
}
TEST(LitmusWRC, RelaxedData) {
  Litmus()
      .write(t0, x, relaxed, gpu)
      .read(t1, x, relaxed, gpu)
      .write(t1, y, release, gpu)
      .read(t2, y, acquire, gpu)
      .read(t2, x, relaxed, gpu)
      .none();
}
TEST(LitmusWRC, ObservedThenPassedOn) { // 8.9.5, second clause: an observed strong write comes before what follows
  Litmus()
      .write(t0, x, relaxed, gpu)
      .read(t1, x, relaxed, gpu)
      .write(t1, y, release, gpu)
      .read(t2, y, acquire, gpu)
      .read(t2, x)
      .none();
}
TEST(LitmusWRC, WeakData) {
  Litmus()
      .write(t0, x)
      .read(t1, x)
      .write(t1, y, release, gpu)
      .read(t2, y, acquire, gpu)
      .read(t2, x)
      .races({{1, 2}, {1, 5}});
}

// ---- release sequences: observation order goes through read-modify-writes (8.9.2)

TEST(LitmusChains, ThroughAnAtomic) {
  Litmus().write(t0, x).write(t0, y, release, gpu).atomic(t1, y).read(t2, y, acquire, gpu).read(t2, x).none();
}
TEST(LitmusChains, ThroughAReduction) {
  Litmus().write(t0, x).write(t0, y, release, gpu).reduction(t1, y).read(t2, y, acquire, gpu).read(t2, x).none();
}
TEST(LitmusChains, ThroughTwo) {
  Litmus()
      .write(t0, x)
      .atomic(t0, y, release)
      .atomic(same_block, y)
      .atomic(t1, y)
      .atomic(t2, y, acquire)
      .read(t2, x)
      .none();
}
TEST(LitmusChains, BrokenByAStore) { // a plain write is no link, whoever makes it
  Litmus()
      .write(t0, x)
      .write(t0, y, release, gpu)
      .write(t1, y, relaxed, gpu)
      .read(t2, y, acquire, gpu)
      .read(t2, x)
      .races({{1, 5}});
}
TEST(LitmusChains, LinkOfTooNarrowScope) {
  Litmus()
      .write(t0, x)
      .write(t0, y, release, gpu)
      .atomic(t1, y, relaxed, cta)
      .read(t2, y, acquire, gpu)
      .read(t2, x)
      .races({{1, 5}, {2, 3}});
}
TEST(LitmusChains, LinkOfAnotherSize) {
  Litmus()
      .write(t0, x)
      .write(t0, y, release, gpu)
      .atomic(t1, y, relaxed, gpu, 8)
      .read(t2, y, acquire, gpu)
      .read(t2, x)
      .races({{1, 5}, {2, 3}, {3, 4}});
}
TEST(LitmusChains,
     LaterWriteOfTheReleaser) { // 8.8: a strong write after a release on the same location is of its pattern
  Litmus()
      .write(t0, x)
      .write(t0, y, release, gpu)
      .write(t0, y, relaxed, gpu)
      .read(t1, y, acquire, gpu)
      .read(t1, x)
      .none();
}
TEST(LitmusChains, EarlierReadOfTheAcquirer) { // 8.8: the same for a strong read before an acquire
  Litmus()
      .write(t0, x)
      .write(t0, y, release, gpu)
      .read(t1, y, relaxed, gpu)
      .write(t2, y, relaxed, gpu)
      .read(t1, y, acquire, gpu)
      .read(t1, x)
      .none();
}

// ---- what reads and writes

TEST(LitmusAtomics, FailedCompareAndSwapReads) {
  Litmus().write(t0, x).write(t0, y, release, gpu).failed_cas(t1, y, acquire).read(t1, x).none();
}
TEST(LitmusAtomics, FailedCompareAndSwapWritesNothing) {
  Litmus().write(t0, x).failed_cas(t0, y, release).read(t1, y, acquire, gpu).read(t1, x).races({{1, 4}});
}
TEST(LitmusAtomics, ReductionAcquiresNothing) { // 8.8: red forms no acquire pattern
  Litmus().write(t0, x).write(t0, y, release, gpu).reduction(t1, y).fence(t1).read(t1, x).races({{1, 4}});
}
TEST(LitmusAtomics, AcqRelBothWays) {
  Litmus()
      .write(t0, x)
      .atomic(t0, y, acq_rel)
      .atomic(t1, y, acq_rel)
      .write(t1, x)
      .atomic(t1, y, acq_rel)
      .atomic(t0, y, acq_rel)
      .read(t0, x)
      .none();
}

TEST(LitmusAtomics, AStoreBehindARelayBringsWhatItRelayed) { // 8.8: the pattern's first operation is the atomic one
  Litmus()
      .write(t1, x)
      .atomic(t1, y, acq_rel, gpu)
      .atomic(t0, y, acq_rel, gpu)
      .write(t0, y, relaxed, gpu)
      .read(same_block, y, acquire, gpu)
      .read(same_block, x)
      .none();
}

// ---- mixed sizes (8.2.1 overlap, 8.7 moral strength wants complete overlap)

TEST(LitmusSizes, HalfOfAFlag) {
  Litmus().write(t0, x).write(t0, y, release, gpu, 8).read(t1, y, acquire, gpu, 4).read(t1, x).races({{1, 4}, {2, 3}});
}
TEST(LitmusSizes, PartOfWhatAnAtomicStored) { // beyond the letter, by which the first two are as HalfOfAFlag
  Litmus().write(t0, x).atomic(t0, y, release, gpu, 4).read(t1, y + 2, acquire, gpu, 2).read(t1, x).none();
  Litmus().write(t0, x).atomic(t0, y, release, gpu, 8).read(t1, y, acquire, gpu, 1).read(t1, x).none();
  Litmus().write(t0, x).atomic(t0, y, relaxed, gpu, 4).read(t1, y, relaxed, gpu, 1).read(t1, x).races({{1, 4}, {2, 3}});
  Litmus().write(t0, x).atomic(t0, y, release, cta, 4).read(t1, y, acquire, gpu, 1).read(t1, x).races({{1, 4}, {2, 3}});
  Litmus().write(t0, x).atomic(t0, y, release, gpu, 4).read(t1, y, acquire, gpu, 8).read(t1, x).races({{1, 4}, {2, 3}});
  Litmus() // not what it read
      .write(t0, x)
      .atomic(t0, y, release, gpu, 4)
      .write(t0, y + 1, relaxed, gpu, 1)
      .read(t1, y + 1, acquire, gpu, 1)
      .read(t1, x)
      .races({{1, 5}, {2, 4}});
}
TEST(LitmusSizes, AtomicsOfDifferentSizes) {
  Litmus().atomic(t0, x, relaxed, gpu, 4).atomic(t1, x, relaxed, gpu, 8).races({{1, 2}});
}
TEST(LitmusSizes, NeighboursDoNotOverlap) {
  Litmus().write(t0, x, weak, no, 1).write(t1, x + 1, weak, no, 1).read(t0, x + 4, weak, no, 4).none();
}
TEST(LitmusSizes, OneByteOfAWord) { Litmus().write(t0, x, weak, no, 4).read(t1, x + 3, weak, no, 1).races({{1, 2}}); }

// ---- barriers (9.7.13.1 bar, 9.7.13.2 bar.warp.sync, 9.7.13.4 barrier.cluster)

TEST(LitmusBarriers, Block) {
  Litmus().write(t0, x).block_barrier(0).read(same_block, x).none();
  Litmus().write(t0, x).block_barrier(0).read(t1, x).races({{1, 2}});
}
TEST(LitmusBarriers, WhoHasExitedTakesNoPart) { // 9.7.13.1: "prior memory accesses requested by this thread"
  Litmus().write(same_block, x).exit(same_block).block_barrier(0).read(t0, x).races({{1, 2}});
  Litmus().read(same_block, x).exit(same_block).block_barrier(0).write(t0, x).races({{1, 2}});
  Litmus().write(t0, x).exit(t0).block_barrier(0).read(same_warp, x).races({{1, 2}});
  // Those who are left are ordered as ever, and so is what came before a barrier of them all.
  Litmus().exit(same_block).write(t0, x).block_barrier(0).read(same_warp, x).none();
  Litmus().write(same_block, x).block_barrier(0).exit(same_block).block_barrier(0).write(t0, x).none();
  Litmus()
      .write(t1, x)
      .exit(same_block)
      .write(t1, y, release, gpu)
      .read(t0, y, acquire, gpu)
      .block_barrier(0)
      .read(same_warp, x)
      .none();
  // What it had released before is for those who acquire it.
  Litmus()
      .write(same_block, x)
      .write(same_block, y, release, cta)
      .exit(same_block)
      .read(t0, y, acquire, cta)
      .block_barrier(0)
      .read(same_warp, x)
      .none();
}
TEST(LitmusBarriers, WhatAnExitedThreadHadAcquiredDiesWithIt) {
  Litmus()
      .write(t1, x)
      .write(t1, y, release, gpu)
      .read(same_block, y, acquire, gpu)
      .exit(same_block)
      .block_barrier(0)
      .read(t0, x)
      .races({{1, 4}});
}
TEST(LitmusBarriers, ArriveAndSync) { // the producer arrives, the consumer waits
  Litmus().write(t0, x).arrive(t0).sync(same_block).read(same_block, x).none();
}
TEST(LitmusBarriers, ArriveTooEarly) {
  Litmus().arrive(t0).write(t0, x).sync(same_block).read(same_block, x).races({{1, 2}});
}
TEST(LitmusBarriers, WhoOnlyArrivesWaitsForNobody) {
  Litmus().write(same_block, x).arrive(t0).sync(same_block).read(t0, x).races({{1, 2}});
}
TEST(LitmusBarriers, Warp) {
  Litmus().write(t0, x).warp_barrier(0).read(same_warp, x).none();
  Litmus().write(same_block, x).warp_barrier(0).read(t0, x).races({{1, 2}}); // not of the mask
}
TEST(LitmusBarriers, Cluster) {
  Litmus(2).write(t0, x).cluster_arrive(t0).cluster_arrive(t1).cluster_wait(t0).cluster_wait(t1).read(t1, x).none();
}
TEST(LitmusBarriers, ClusterAfterAnExit) { // 9.7.13.4: "prior to the preceding barrier.cluster.arrive"
  Litmus(2).write(t0, x).exit(t0).cluster_arrive(t1).cluster_wait(t1).read(t1, x).races({{1, 2}});
}
TEST(LitmusBarriers, ClusterRelaxedArrival) {
  Litmus(2)
      .write(t0, x)
      .cluster_arrive(t0, true)
      .cluster_arrive(t1, true)
      .cluster_wait(t0)
      .cluster_wait(t1)
      .read(t1, x)
      .races({{1, 2}});
}

// ---- fences alone (8.9.4: without a flag that is observed there is no pattern)

TEST(LitmusFences, OrderNothingAlone) {
  for (Ordering ordering : {acq_rel, Ordering::sc}) {
    Litmus().write(t0, x).fence(t0, sys, ordering).fence(t1, sys, ordering).read(t1, x).races({{1, 2}});
  }
}

// ---- asynchronous copies (9.7.9.25.3 cp.async: weak, in no program order until waited for)

TEST(LitmusCopies, WaitedForByItsThread) {
  Litmus().copy(t0, x).commit(t0).wait(t0).shared_read(t0).none();
  Litmus().copy(t0, x).commit(t0).wait(t0, 1).shared_read(t0).races({{1, 2}});
  Litmus().copy(t0, x).wait(t0).shared_read(t0).races({{1, 2}}); // never committed
}
TEST(LitmusCopies, OthersNeedABarrier) {
  Litmus().copy(t0, x).commit(t0).wait(t0).shared_read(same_block).races({{1, 2}});
  Litmus().copy(t0, x).commit(t0).wait(t0).block_barrier(0).shared_read(same_block).none();
  Litmus().copy(t0, x).commit(t0).block_barrier(0).wait(t0).shared_read(same_block).races({{1, 2}});
}
TEST(LitmusCopies, BufferReusedTooEarly) { // the copy comes after what its thread did, not after what others do
  Litmus().shared_read(t0).copy(t0, x).none();
  Litmus().shared_read(same_block).copy(t0, x).races({{1, 2}});
  Litmus().copy(t0, x).shared_write(t0).races({{1, 2}});
}

} // namespace
} // namespace deadheat::test
