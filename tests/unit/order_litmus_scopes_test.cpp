// Litmus tests of what scopes reach (PTX ISA 9.0, 8.5): flags and fences of blocks, clusters and devices, and the order
// that fences of wide scopes have among each other (8.9.3). As order_litmus_test.cpp has them.
#include <gtest/gtest.h>

#include "tests/unit/order_litmus.h"

namespace deadheat::test {
namespace {

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
TEST(LitmusFenceOrder, AllOfTheBlockPoll) { // more threads than are remembered, each with a fence of its own
  Litmus litmus = fenced();
  litmus.write(t0, y, relaxed, gpu);
  for (std::uint32_t thread = 0; thread < 48; ++thread) litmus.read({1, thread}, y, relaxed, gpu);
  for (const std::uint32_t thread : {0u, 40u}) litmus.fence({1, thread}, gpu, Ordering::sc).read({1, thread}, x);
  litmus.none();
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
// As far as reads of a block are remembered, those of one flag do not make another's forgotten.
TEST(LitmusFenceOrder, ManyReadOfAnotherFlag) {
  Litmus litmus;
  litmus.write(t0, x).fence(t0, gpu, Ordering::sc).atomic(t0, y).atomic(t1, y).warp_barrier(1);
  litmus.fence({1, 40}, gpu, Ordering::sc).atomic({1, 40}, z);
  for (std::uint32_t thread = 2; thread < 40; ++thread) litmus.read({1, thread}, z, relaxed, gpu);
  litmus.fence({1, 1}, gpu, Ordering::sc).read({1, 1}, x).none();
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
  fenced().atomic(t0, y).atomic(t1, y).fence(t1, cta, Ordering::sc).read(t1, x).races({{1, 4}});
}
// A lane fences before its warp meets, and another tells; or another is told, and one fences once the warp has met.
TEST(LitmusFenceOrder, WithinABlock) {
  const auto told = [](Scope first, Scope second, bool writer_meets) {
    const At from = writer_meets ? same_warp : same_block, to = writer_meets ? same_block : same_warp;
    Litmus litmus;
    litmus.write(from, x).fence(from, first, Ordering::sc);
    if (writer_meets) litmus.warp_barrier(0);
    litmus.atomic(writer_meets ? t0 : from, y).atomic(writer_meets ? to : t0, y);
    if (!writer_meets) litmus.warp_barrier(0);
    return litmus.fence(to, second, Ordering::sc).read(to, x);
  };
  for (const bool writer_meets : {false, true})
    for (const Scope first : {cta, cluster, gpu, sys})
      for (const Scope second : {cta, cluster, gpu, sys}) told(first, second, writer_meets).none();
}
TEST(LitmusFenceOrder, WithinABlockReadTooEarly) {
  Litmus litmus;
  litmus.atomic(same_block, y).write(same_warp, x).fence(same_warp, cta, Ordering::sc).warp_barrier(0).atomic(t0, y);
  litmus.fence(same_block, cta, Ordering::sc).read(same_block, x).races({{2, 4}});
}
TEST(LitmusFenceOrder, WithinABlockWriteAfterTheFence) {
  Litmus litmus;
  litmus.fence(same_warp, cta, Ordering::sc).write(same_warp, x).warp_barrier(0).atomic(t0, y).atomic(same_block, y);
  litmus.fence(same_block, cta, Ordering::sc).read(same_block, x).races({{1, 4}});
}
TEST(LitmusFenceOrder, BeforeTheOtherDeviceIsKnown) {
  const auto told = [](Scope first) {
    Litmus litmus;
    litmus.launch(2).read({0, 33}, x).fence({0, 33}, first, Ordering::sc).atomic({0, 33}, y, relaxed, sys);
    const std::uint32_t other = blocks_per_launch; // of the second launch the first
    litmus.launch(3, 0, 1).atomic({other, 33}, y, relaxed, sys).block_barrier(other);
    return litmus.fence({other, 1}, sys, Ordering::sc).write({other, 1}, x);
  };
  told(sys).none();
  told(gpu).races({{1, 4}});
}
TEST(LitmusFenceOrder, OfClusterScope) {
  const auto told = [](Scope scope, std::uint32_t blocks_per_cluster) {
    Litmus litmus(blocks_per_cluster);
    litmus.write(same_warp, x).fence(same_warp, scope, Ordering::sc).warp_barrier(0);
    return litmus.atomic(t0, y).atomic(t1, y).fence(t1, scope, Ordering::sc).read(t1, x);
  };
  told(cluster, 2).none();
  told(cluster, 1).races({{1, 4}});
  told(cta, 2).races({{1, 4}});
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
  EXPECT_EQ(why.rfind("both are strong, but the second has device scope (.gpu), and they are on different devices", 0),
            0u)
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

} // namespace
} // namespace deadheat::test
