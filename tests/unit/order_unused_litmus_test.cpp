// Litmus tests of strong reads whose value nobody looks at: what they happened to see released orders nothing, but what
// they would have seen in any case (analyzer/order/unused_reads.cpp). x is data, y a flag.
#include <gtest/gtest.h>

#include "tests/unit/order_litmus.h"

namespace deadheat::test {
namespace {

// t0 writes the data, releases it with its flag, or adds to a counter.
Litmus released() { return Litmus().write(t0, x).write(t0, y, release, gpu); }
Litmus counted() { return Litmus().write(t0, x).atomic(t0, y, release, gpu); }

TEST(LitmusUnused, AcquiresNothing) {
  released().read(t1, y, acquire, gpu).read(t1, x).none();
  released().read(t1, y, acquire, gpu).unused().read(t1, x).races({{1, 4}});
  released().read(t1, y, relaxed, gpu).unused().fence(t1).read(t1, x).races({{1, 4}});
  released().read(t1, y, vol, sys).unused().fence(t1).read(t1, x).races({{1, 4}});
  released().read_pair(t1, y, acquire, gpu).read(t1, x).none();
}
TEST(LitmusUnused, AtomicsWithoutAResult) { // arrivals at a counter that nobody waits at
  counted().atomic(t1, y, acq_rel, gpu).read(t1, x).none();
  counted().atomic(t1, y, acq_rel, gpu).unused().read(t1, x).races({{1, 4}});
  counted().atomic(t1, y).unused().fence(t1).read(t1, x).races({{1, 4}});
  counted().failed_cas(t1, y, acquire).unused().read(t1, x).races({{1, 4}});
}
TEST(LitmusUnused, AtomicsAreLinksAsBefore) { // of a chain, whose end somebody looks at
  counted().atomic(t2, y).unused().read(t1, y, acquire, gpu).read(t1, x).none();
  counted().atomic(t2, y, acq_rel, gpu).unused().read(t1, y, acquire, gpu).read(t1, x).none();
  Litmus() // the last block's ticket
      .write(t0, x)
      .fence(t0)
      .atomic(t0, y)
      .unused()
      .fence(t1)
      .atomic(t1, y)
      .fence(t1)
      .read(t1, x)
      .none();
}
TEST(LitmusUnused, AtomicsObserveNothing) { // they may as well have come before each other
  Litmus().atomic(t0, y).atomic(t1, y).read(t1, y).none();
  Litmus().atomic(t0, y).atomic(t1, y).unused().read(t1, y).races({{1, 3}});
  Litmus().atomic(t0, y).reduction(t1, y).read(t1, y).races({{1, 3}});
  Litmus().atomic(t0, y).failed_cas(t1, y, relaxed).unused().read(t1, y).races({{1, 3}});
  Litmus().atomic(t0, y).reduction(t1, y).atomic(t1, y).read(t1, y).none(); // the last has seen both
}
TEST(LitmusUnused, AnAtomicReleasesNoneOfWhatItDidNotAcquire) { // by another location; by its own the chain brings it
  counted()
      .atomic(t1, y, acq_rel, gpu)
      .unused()
      .write(t1, z, release, gpu)
      .read(t2, z, acquire, gpu)
      .read(t2, x)
      .races({{1, 6}});
  counted()
      .atomic(t1, y, acq_rel, gpu)
      .unused()
      .write(t1, y, release, gpu) // no link: of the pattern that began with the atomic operation
      .read(t2, y, acquire, gpu)
      .read(t2, x)
      .races({{1, 6}});
}
TEST(LitmusUnused, AnAtomicRelaysNothingToItsBlock) { // a chain brings a reader what it has the scope for
  counted().atomic(t1, y, acq_rel, gpu).read(t2, y, acquire, cta).read(t2, x).none();
  counted().atomic(t1, y, acq_rel, gpu).unused().read(t2, y, acquire, cta).read(t2, x).races({{1, 5}, {2, 4}});
}
TEST(LitmusUnused, BehindAReadOfItsOwn) { // a loop of relaxed reads, and one that acquires in place of a fence (8.8)
  released().read(t1, y, relaxed, gpu).read(t1, y, acquire, gpu).unused().read(t1, x).none();
  released().read(t1, y, relaxed, gpu).read(t1, y, vol, sys).unused().fence(t1).read(t1, x).none();
  released().read(t1, y, relaxed, gpu).atomic(t1, y, acquire, gpu).unused().read(t1, x).none();
  released() // of another location
      .read(t1, y, relaxed, gpu)
      .read(t1, z, acquire, gpu)
      .unused()
      .read(t1, x)
      .races({{1, 5}});
  Litmus() // too early
      .read(t1, y, relaxed, gpu)
      .write(t0, x)
      .write(t0, y, release, gpu)
      .read(t1, y, acquire, gpu)
      .unused()
      .read(t1, x)
      .races({{2, 5}});
}
// What it read was released by a launch that came after the one whose flag the other had read, or beside it.
TEST(LitmusUnused, BehindAReadOfAnotherWhatALaterLaunchReleased) {
  const auto looked = [] {
    Litmus litmus;
    return litmus.launch(2).launch(3).write({0, 0}, x).write({0, 0}, y, release, gpu).read({2, 0}, y, relaxed, gpu);
  };
  const auto not_looked = [](Litmus litmus) {
    return litmus.write({4, 0}, y, release, gpu)
        .block_barrier(2)
        .read({2, 33}, y, acquire, gpu)
        .unused()
        .read({2, 33}, x);
  };
  not_looked(looked().end(0).launch(2)).none();
  not_looked(looked().launch(4)).races({{1, 6}});
}
// The other read the second of two flags of a thread; this one reads what somebody released who knew the first.
TEST(LitmusUnused, BehindAReadOfAnotherWhatWasKnownThen) {
  const auto two_flags = [](bool knew) {
    Litmus litmus;
    litmus.launch(2).launch(3).write({0, 0}, x).write({0, 0}, z, release, gpu).write({0, 0}, d);
    litmus.write({0, 0}, y, release, gpu).read({2, 0}, y, relaxed, gpu).block_barrier(2);
    if (knew) litmus.read({1, 0}, z, acquire, gpu);
    litmus.write({1, 0}, y, release, gpu).read({2, 33}, y, acquire, gpu).unused();
    return litmus;
  };
  two_flags(true).read({2, 33}, x).none();
  two_flags(true).read({2, 33}, d).races({{3, 9}}); // what came after the first flag
  two_flags(false).read({2, 33}, x).races({{1, 8}});
}
TEST(LitmusUnused, BehindAReadOfAnother) { // who looks tells the others of its block that the flag is there (8.10.4)
  const auto looked = [](At reader) { return released().read(reader, y, relaxed, gpu); };
  looked(t2).block_barrier(1).read(t1, y, acquire, gpu).unused().read(t1, x).none();
  looked(t2).block_barrier(1).read(t1, y, relaxed, gpu).unused().fence(t1).read(t1, x).none();
  looked(t2).block_barrier(1).atomic(t1, y, acquire, gpu).unused().read(t1, x).none();
  looked(t2).block_barrier(1).read(t1, x).races({{1, 4}});
  looked(t2).read(t1, y, acquire, gpu).unused().read(t1, x).races({{1, 5}}); // no barrier
  released()
      .read(t2, y, relaxed, gpu)
      .unused()
      .block_barrier(1)
      .read(t1, y, acquire, gpu)
      .unused()
      .read(t1, x)
      .races({{1, 5}});
}
// The other read a part of what an atomic operation stored. Had this one read the same, it would have observed that as
// a load of the part, and not as an atomic operation on it (analyzer/order/causality.h).
TEST(LitmusUnused, BehindAReadOfAPart) {
  const auto looked = [] {
    return Litmus()
        .write(t0, x)
        .atomic(t0, y, release, gpu, 8)
        .read(t2, y + 4, relaxed, gpu)
        .block_barrier(0)
        .write(same_block, y + 4, release, gpu)
        .block_barrier(1);
  };
  looked().read(t1, y + 4, acquire, gpu).unused().read(t1, x).races({{2, 3}}); // of different sizes
  looked().atomic(t1, y + 4, acquire, gpu).unused().read(t1, x).races({{1, 6}, {2, 3}});
}
// The other read what was stored with the scope of its own block: from another that is no observation.
TEST(LitmusUnused, BehindAReadOfWhatItsBlockAloneObserves) {
  const auto looked = [](Scope scope) {
    return Litmus()
        .write(t1, x)
        .fence(t1)
        .write(t1, y, relaxed, scope)
        .read(t2, y, relaxed, gpu)
        .write(t2, z, release, gpu)
        .write(t1, y, release, gpu)
        .read(t0, z, acquire, gpu)
        .read(t0, y, acquire, gpu)
        .unused()
        .read(t0, x);
  };
  looked(gpu).none();
  looked(cta).races({{1, 8}});
}
TEST(LitmusUnused, BehindAReadAsSuch) { // an arrival that hands on what was read (9.7.13.15.16, item 4)
  constexpr std::uint32_t object = 1; // of block 0
  const auto handed_on = [](bool looked) {
    Litmus litmus(2);
    litmus.write(t0, x).write(t0, y, release, gpu);
    if (looked) litmus.read(t2, y, relaxed, gpu);
    return litmus.mbarrier_arrive(t2, object)
        .mbarrier_test(same_block, object)
        .read(same_block, y, acquire, gpu)
        .unused()
        .read(same_block, x);
  };
  handed_on(true).none();
  handed_on(false).races({{1, 4}});
}
TEST(LitmusUnused, BehindAReadOfSharedMemory) { // handed on by a fence of that alone
  for (const bool fenced : {true, false}) {
    Litmus litmus(2);
    litmus.write(t0, x).shared_write(t0, 1, release, cluster).shared_read(t2, 1, relaxed, cluster);
    if (fenced) litmus.fence(t2, cluster, release, true);
    for (const At at : {t0, t1, t2}) litmus.cluster_arrive(at, true);
    for (const At at : {t0, t1, t2}) litmus.cluster_wait(at);
    litmus.shared_read(t1, 1, acquire, cluster).unused().read(t1, x);
    if (fenced)
      litmus.none();
    else
      litmus.races({{1, 5}});
  }
}
TEST(LitmusUnused, ReductionsLookAtNothing) {
  counted().reduction(t2, y).block_barrier(1).read(t1, y, acquire, gpu).unused().read(t1, x).races({{1, 5}});
}
TEST(LitmusUnused, OnlyUpToWhatWasSeen) { // of a counter: t2 has seen the first, t1 happens to see both
  Litmus()
      .write(t0, x)
      .atomic(t0, y, release, gpu)
      .read(t2, y, relaxed, gpu)
      .write(same_block, z)
      .atomic(same_block, y, release, gpu)
      .block_barrier(1)
      .read(t1, y, acquire, gpu)
      .unused()
      .read(t1, x)
      .read(t1, z)
      .races({{4, 8}});
}
TEST(LitmusUnused, OnlyUpToWhatALaterStoreReleasesToo) {
  Litmus() // of one thread: what was released before the first was released before the second
      .write(t0, x)
      .write(t0, y, release, gpu)
      .read(t2, y, relaxed, gpu)
      .write(t0, z)
      .write(t0, y, release, gpu)
      .block_barrier(1)
      .read(t1, y, acquire, gpu)
      .unused()
      .read(t1, x)
      .read(t1, z)
      .races({{4, 8}});
  Litmus() // of another: it knows nothing of the first
      .write(t0, x)
      .write(t0, y, release, gpu)
      .read(t2, y, relaxed, gpu)
      .write(same_block, y, release, gpu)
      .block_barrier(1)
      .read(t1, y, acquire, gpu)
      .unused()
      .read(t1, x)
      .races({{1, 6}});
}
TEST(LitmusUnused, ObservesNothing) { // 8.9.5, second clause
  Litmus().write(t0, x, relaxed, gpu).read(t1, x, relaxed, gpu).write(t1, x).none();
  Litmus().write(t0, x, relaxed, gpu).read(t1, x, relaxed, gpu).unused().write(t1, x).races({{1, 3}});
}
TEST(LitmusUnused, TellsNoFenceOrder) {
  const auto fences = [](bool unused) {
    Litmus litmus;
    litmus.write(t0, x).fence(t0, gpu, Ordering::sc).block_barrier(0).atomic(same_block, y).atomic(t1, y);
    if (unused) litmus.unused();
    return litmus.block_barrier(1).fence(t2, gpu, Ordering::sc).read(t2, x);
  };
  fences(false).none();
  fences(true).races({{1, 4}});
}
TEST(LitmusUnused, TheFirstLookIsKnownAndNotTheSecond) {
  Litmus()
      .write(t0, x)
      .atomic(t0, y, release, gpu)
      .read(t2, y, relaxed, gpu)
      .write(t2, z, release, gpu)
      .atomic(same_block, y, release, gpu)
      .read(t2, y, relaxed, gpu)
      .read(t1, z, acquire, gpu)
      .read(t1, y, acquire, gpu)
      .unused()
      .read(t1, x)
      .none();
}

// Beyond the readers that are remembered of a location every read counts as looked at: nobody is accused in vain.
TEST(UnusedReads, OfWhatManyLookedAt) {
  const auto ordered = [](std::uint32_t readers) {
    order::OperationClocks operations;
    trace::Operation launch; // the first
    launch.id = launch.launch = 1;
    launch.what = trace::Launch{};
    operations.submitted(launch);
    order::Causality causality(operations);
    causality.unused_reads();
    causality.launch_begin(1, {4096, 1, 1}, {32, 1, 1}, {1, 1, 1});
    order::Stamp now = 1;
    const auto access = [&](std::uint32_t block, bool reads, bool unused) {
      order::StrongAccess strong;
      strong.thread = order::ThreadKey(1, block, 0);
      strong.location = {0, y, 0};
      strong.bytes = 4;
      strong.ordering = reads ? Ordering::acquire : Ordering::release;
      strong.reads = reads, strong.writes = !reads;
      strong.unused = unused;
      strong.value_read = strong.value_written = 1;
      causality.strong_access(strong, ++now);
    };
    access(0, false, false);
    const order::Stamp released = now;
    for (std::uint32_t reader = 0; reader < readers; ++reader) access(2 + reader, true, false);
    access(1, true, true);
    return causality.ordered(order::ThreadKey(1, 0, 0), released, 0, order::ThreadKey(1, 1, 0));
  };
  EXPECT_FALSE(ordered(0));
  EXPECT_FALSE(ordered(100));
  EXPECT_TRUE(ordered(200));
}

TEST(LitmusWords, NobodyLooksAtTheFlag) {
  const std::string why = released().read(t1, y, acquire, gpu).unused().read(t1, x).why();
  EXPECT_NE(why.find("nobody looks at what the read returned: it may have been the value from before"),
            std::string::npos)
      << why;
  const std::string other = released().read(t1, y, relaxed, gpu).read(t1, y, relaxed, gpu).unused().read(t1, x).why();
  EXPECT_EQ(other.find("nobody looks"), std::string::npos) << other;
}

} // namespace
} // namespace deadheat::test
