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

TEST(LitmusWRC, WhatALaneObservedItsWarpHasNot) {
  const auto observed = [] { return Litmus().write(t0, y, relaxed, gpu).read(t1, y, relaxed, gpu); };
  observed().read(t1, y).none();
  observed().read(t1, y).with_other_lane().races({{1, 3}});
  observed().warp_barrier(1).read(t1, y).with_other_lane().none();
  observed().with_other_lane().read(t1, y).with_other_lane().none();
  observed().write(t1, y).none(); // it comes after the first lane's look
  Litmus().write(t0, y, relaxed, gpu).read({1, 1}, y, relaxed, gpu).read(t1, y).with_other_lane().races({{1, 3}});
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
