// Litmus tests of the asynchronous proxy: fences between it and the generic one, and what copies overwrite. Told by
// detector and oracle alike (order_litmus.h).
#include <gtest/gtest.h>

#include "tests/unit/order_litmus.h"

namespace deadheat::test {
namespace {

constexpr std::uint32_t own = 1, other = 2, of_block_1 = 3; // objects: two of block 0, one of block 1

// ---- proxies (8.6; 8.9.5, proxy-preserved base causality order)

TEST(LitmusProxies, WriteThenBulkCopy) {
  Litmus().shared_write(t0).bulk_store(t0, x).races({{1, 2}});
  Litmus().shared_write(t0).proxy_fence(t0).bulk_store(t0, x).none();
  Litmus().shared_write(t0).proxy_fence(t0, false).bulk_store(t0, x).races({{1, 2}}); // a fence of global memory
  Litmus().proxy_fence(t0).shared_write(t0).bulk_store(t0, x).races({{1, 2}}); // too early
}
TEST(LitmusProxies, FenceOnThePath) { // on either side of the barrier, by whoever
  Litmus().shared_write(same_block).proxy_fence(same_block).block_barrier(0).bulk_store(t0, x).none();
  Litmus().shared_write(same_block).block_barrier(0).proxy_fence(t0).bulk_store(t0, x).none();
  Litmus().shared_write(same_block).block_barrier(0).bulk_store(t0, x).races({{1, 2}});
  Litmus().shared_write(same_block).block_barrier(0).proxy_fence(same_block).bulk_store(t0, x).races({{1, 2}});
}
TEST(LitmusProxies, OverwrittenByABulkCopy) {
  Litmus().shared_write(t0).bulk_load(t0, x, own).races({{1, 2}});
  Litmus().shared_write(t0).proxy_fence(t0).bulk_load(t0, x, own).none();
  Litmus().shared_read(t0).bulk_load(t0, x, own).none(); // what was read stays read
  Litmus().shared_read(same_block).bulk_load(t0, x, own).races({{1, 2}});
  Litmus().shared_read(same_block).block_barrier(0).bulk_load(t0, x, own).none();
}
TEST(LitmusProxies, CompletionBringsItsOwnFence) { // "an implicit generic-async proxy fence"
  Litmus().bulk_load(t0, x, own).complete().mbarrier_test(t0, own).shared_read(t0).shared_write(t0).none();
}
TEST(LitmusProxies, GlobalMemory) {
  Litmus().write(t0, x).bulk_load(t0, x, own).races({{1, 2}});
  Litmus().write(t0, x).proxy_fence(t0, false).bulk_load(t0, x, own).none();
  Litmus().write(t0, x).proxy_fence(t0).bulk_load(t0, x, own).races({{1, 2}}); // a fence of shared memory
}

// ---- proxy fences of one direction (9.7.13.4): release and acquire fences, of shared memory where .sync_restrict

TEST(LitmusOneWayFences, HandAPlaceBackToBulkCopies) {
  const auto read = [] { return Litmus(2).shared_read(t1); };
  read()
      .async_fence(t1, release)
      .cluster_arrive(t1, true)
      .cluster_wait(t0)
      .async_fence(t0, acquire)
      .bulk_load(t0, x, of_block_1)
      .none();
  read()
      .cluster_arrive(t1, true)
      .cluster_wait(t0)
      .async_fence(t0, acquire)
      .bulk_load(t0, x, of_block_1)
      .races({{1, 2}});
  read()
      .async_fence(t1, acquire)
      .cluster_arrive(t1, true)
      .cluster_wait(t0)
      .bulk_load(t0, x, of_block_1)
      .races({{1, 2}});
}
TEST(LitmusOneWayFences, MakeReleasedWritesVisible) {
  Litmus(2)
      .shared_write(t1)
      .async_fence(t1, release)
      .cluster_arrive(t1, true)
      .cluster_wait(t0)
      .async_fence(t0, acquire)
      .bulk_load(t0, x, of_block_1)
      .none();
  Litmus().shared_write(same_block).async_fence(same_block, release).block_barrier(0).bulk_store(t0, x).none();
  Litmus().shared_write(same_block).block_barrier(0).async_fence(t0, release).bulk_store(t0, x).none();
  Litmus().async_fence(t0, release).shared_write(t0).bulk_store(t0, x).races({{1, 2}}); // too early
}
TEST(LitmusOneWayFences, AcquireFormAloneMakesNothingVisible) {
  Litmus().shared_write(same_block).block_barrier(0).async_fence(t0, acquire).bulk_store(t0, x).races({{1, 2}});
  Litmus().shared_write(t0).async_fence(t0, acquire).bulk_store(t0, x).races({{1, 2}});
  Litmus(2)
      .shared_write(t1)
      .fence(t1, cluster)
      .cluster_arrive(t1, true)
      .cluster_wait(t0)
      .async_fence(t0, acquire)
      .bulk_load(t0, x, of_block_1)
      .races({{1, 2}});
  // What reads returned needs none.
  Litmus().shared_read(same_block).block_barrier(0).async_fence(t0, acquire).bulk_load(t0, x, own).none();
}
TEST(LitmusOneWayFences, AreOfSharedMemory) {
  Litmus().write(t0, x).async_fence(t0, release).bulk_load(t0, x, own).races({{1, 2}});
  const auto passed = [](Litmus litmus) { // by a flag
    return litmus.async_fence(t0, release)
        .write(t0, y, relaxed, gpu)
        .read(t1, y, relaxed, gpu)
        .async_fence(t1, acquire);
  };
  passed(Litmus(2).shared_write(t0)).shared_read(t1, 0).none();
  passed(Litmus(2).write(t0, x)).read(t1, x).races({{1, 4}});
}
TEST(LitmusOneWayFences, EachIsOneHalf) {
  const auto passed = [](Ordering first, Ordering second) {
    return Litmus(2)
        .shared_write(t0)
        .async_fence(t0, first)
        .write(t0, y, relaxed, gpu)
        .read(t1, y, relaxed, gpu)
        .async_fence(t1, second)
        .shared_read(t1, 0);
  };
  passed(release, acquire).none();
  passed(release, release).races({{1, 4}});
  passed(acquire, acquire).races({{1, 4}});
}
TEST(LitmusOneWayFences, OfTensorMaps) {
  const auto passed = [](Ordering first, Ordering second, Scope scope = gpu) {
    return Litmus()
        .write(t0, x)
        .tensormap_fence(t0, first, scope)
        .write(t0, y, relaxed, gpu)
        .read(t1, y, relaxed, gpu)
        .tensormap_fence(t1, second, scope);
  };
  passed(release, acquire).read(t1, x).none();
  passed(release, acquire, cta).read(t1, x).races({{1, 4}});
  passed(acquire, acquire).read(t1, x).races({{1, 4}});
  passed(release, release).read(t1, x).races({{1, 4}});
  passed(release, acquire).bulk_load(t1, x, of_block_1).races({{1, 4}}); // of another proxy
}

// ---- what a copy overwrites: its completion orders its own accesses alone (8.9.1.1)

TEST(LitmusOverwritten, WriteBeforeTheCopy) {
  const auto filled = [] {
    return Litmus()
        .shared_write(same_block)
        .proxy_fence(same_block)
        .mbarrier_arrive(same_block, other)
        .mbarrier_test(t0, other)
        .bulk_load(t0, x, own)
        .complete();
  };
  filled().mbarrier_test(same_warp, own).shared_read(same_warp).races({{1, 3}});
  filled().mbarrier_test(t0, own).shared_read(t0).none();
  filled().mbarrier_test(same_warp, own).mbarrier_test(same_warp, other).shared_read(same_warp).none();
  filled().mbarrier_test(same_block, own).shared_read(same_block).none(); // it wrote itself
}
TEST(LitmusOverwritten, ReadBeforeTheCopy) {
  const auto filled = [] {
    return Litmus()
        .shared_read(same_block)
        .mbarrier_arrive(same_block, other)
        .mbarrier_test(t0, other)
        .bulk_load(t0, x, own)
        .complete();
  };
  filled().mbarrier_test(same_warp, own).shared_read(same_warp).none();
  filled().mbarrier_test(same_warp, own).shared_write(same_warp).races({{1, 3}});
  filled().mbarrier_test(t0, own).shared_write(t0).none();
}
TEST(LitmusOverwritten, WhatTheIssuerKnewIsToldWithTheArrival) { // a ring's producer arrives with the bytes to come
  const auto filled = [](bool first) {
    Litmus litmus;
    litmus.shared_write(same_block).proxy_fence(same_block).mbarrier_arrive(same_block, other);
    if (!first) litmus.mbarrier_arrive(t0, own);
    litmus.mbarrier_test(t0, other);
    if (first) litmus.mbarrier_arrive(t0, own);
    return litmus.bulk_load(t0, x, own).complete().mbarrier_test(same_warp, own).shared_read(same_warp);
  };
  filled(true).none();
  filled(false).races({{1, 3}}); // it had not seen that the place was free
}
TEST(LitmusOverwritten, OwnAccessSinceTheArrival) {
  const auto filled = [](bool first) {
    Litmus litmus;
    if (first) litmus.mbarrier_arrive(t0, own);
    litmus.shared_write(t0).proxy_fence(t0);
    if (!first) litmus.mbarrier_arrive(t0, own);
    return litmus.bulk_load(t0, x, own).complete().mbarrier_test(same_block, own).shared_read(same_block);
  };
  filled(true).races({{1, 3}});
  filled(false).none();
  const auto filled_again = [](AccessKind first, bool by_copy) { // nothing is learned in between
    Litmus litmus;
    litmus.mbarrier_arrive(t0, own);
    if (first == AccessKind::read)
      litmus.shared_read(t0);
    else
      litmus.shared_write(t0);
    by_copy ? litmus.bulk_load(t0, x, own) : litmus.async_store(t0, own);
    return litmus.complete().mbarrier_test(same_block, own).shared_write(same_block);
  };
  filled_again(AccessKind::read, true).races({{1, 3}});
  filled_again(AccessKind::write, false).races({{1, 3}});
}
TEST(LitmusOverwritten, OneCopyByAnother) {
  const auto filled_twice = [](std::uint32_t first, std::uint32_t second) {
    return Litmus()
        .bulk_load(t0, x, first)
        .complete()
        .mbarrier_test(t0, first)
        .bulk_load(t0, y, second)
        .complete(first == second)
        .mbarrier_test(same_block, second, first == second)
        .shared_read(same_block);
  };
  filled_twice(own, own).none(); // who has seen its second phase complete has seen the first
  filled_twice(own, other).races({{1, 3}});
}
TEST(LitmusOverwritten, BeforeTheBarrierOfTheBlock) {
  Litmus()
      .shared_write(same_block)
      .proxy_fence(same_block)
      .block_barrier(0)
      .bulk_load(t0, x, own)
      .complete()
      .mbarrier_test(same_warp, own)
      .shared_read(same_warp)
      .shared_write(same_warp)
      .none();
}
TEST(LitmusOverwritten, BeforeTheBarrierOfTheBlockByAnotherCopy) { // which needs a proxy fence of its own
  const auto filled = [](bool all, bool told = false) {
    Litmus litmus;
    litmus.shared_write(same_block);
    if (all) litmus.proxy_fence(same_block);
    litmus.block_barrier(0);
    if (!all) litmus.proxy_fence(t0);
    if (told) litmus.mbarrier_arrive(t0, own);
    return litmus.bulk_load(t0, x, own).complete().mbarrier_test(same_warp, own);
  };
  filled(true).bulk_load(same_warp, x, other).none();
  filled(false).bulk_load(same_warp, x, other).races({{1, 3}}); // the completion does not tell of t0's fence
  filled(false).shared_read(same_warp).bulk_load(same_warp, x, other).races({{1, 4}});
  filled(false).mbarrier_test(t0, own).bulk_load(t0, x, other).none();
  filled(false, true).bulk_load(same_warp, x, other).none();
  filled(false).proxy_fence(same_warp).bulk_load(same_warp, x, other).none();
  filled(false).block_barrier(0).bulk_load(same_warp, x, other).none();
  filled(false)
      .bulk_load(same_warp, x, own)
      .complete(1)
      .mbarrier_test(same_block, own, 1)
      .shared_read(same_block)
      .races({{1, 3}});
}
TEST(LitmusOverwritten, ReadsByCopies) { // what they read before is as little told
  const auto loaded = [] {
    return Litmus().read(t1, x).write(t1, y, release, gpu).read(t0, y, acquire, gpu).bulk_load(t0, x, own).complete();
  };
  loaded().mbarrier_test(same_block, own).write(same_block, x).races({{1, 5}});
  loaded().mbarrier_test(t0, own).write(t0, x).none();
}

} // namespace
} // namespace deadheat::test
