// Litmus tests of what runs beside the threads: mbarriers, cp.async and bulk copies, the asynchronous proxy, clusters'
// shared memory, programmatic dependent launches. Told by detector and oracle alike (order_litmus.h).
#include <gtest/gtest.h>

#include "tests/unit/order_litmus.h"

namespace deadheat::test {
namespace {

constexpr At dependent{2, 0}, dependent_beside{2, 33};
constexpr std::uint32_t own = 1, other = 2, of_block_1 = 3; // objects: two of block 0, one of block 1

// ---- mbarriers (9.7.13.15: an arrival releases into its phase, a test that saw it complete acquires)

TEST(LitmusMbarriers, MessagePassing) {
  Litmus().write(t0, x).mbarrier_arrive(t0, own).mbarrier_test(same_block, own).read(same_block, x).none();
  Litmus().write(t0, x).mbarrier_arrive(t0, own).read(same_block, x).races({{1, 2}}); // nobody looked
  Litmus().write(t0, x).mbarrier_arrive(t0, own).mbarrier_test(same_block, other).read(same_block, x).races({{1, 2}});
}
TEST(LitmusMbarriers, NobodyLooksAtTheOutcome) {
  const auto sent = [] { return Litmus().write(same_block, x).mbarrier_arrive(same_block, own); };
  sent().unused_test(t0, own).read(t0, x).races({{1, 2}});
  sent().unused_test(t0, own).mbarrier_test(t0, own).read(t0, x).none(); // a hint before the wait
  sent().mbarrier_test(t0, own).unused_test(t0, own).read(t0, x).none();
  // What is known to be complete makes the test certain: it acquires.
  sent().mbarrier_test(t0, own, 0, cluster, relaxed).read(t0, x).races({{1, 2}});
  sent().mbarrier_test(t0, own, 0, cluster, relaxed).unused_test(t0, own).read(t0, x).none();
  sent().unused_test(t0, own).mbarrier_test(t0, own, 0, cluster, relaxed).read(t0, x).races({{1, 2}});
  sent().mbarrier_test(t0, other, 0, cluster, relaxed).unused_test(t0, own).read(t0, x).races({{1, 2}});
  // Another thread has looked, and tells.
  const auto seen = [&] { return sent().mbarrier_test(t0, own, 0, cluster, relaxed); };
  seen().unused_test(same_warp, own).read(same_warp, x).races({{1, 2}});
  seen().warp_barrier(0).unused_test(same_warp, own).read(same_warp, x).none();
  seen().unused_test(same_warp, own).warp_barrier(0).read(same_warp, x).races({{1, 2}});
  // A fence ends the pattern of a relaxed one, but not of one that nobody looks at.
  seen().fence(t0, cta).read(t0, x).none();
  sent().unused_test(t0, own, 0, cluster, relaxed).fence(t0, cta).read(t0, x).races({{1, 2}});
  seen().unused_test(t0, own, 0, cluster, relaxed).fence(t0, cta).read(t0, x).none();
}
// A fence behind a relaxed test ends a pattern that reaches no farther than the test does.
TEST(LitmusMbarriers, ARelaxedTestHasAScope) {
  const auto sent = [] { return Litmus(2).write(t0, x).mbarrier_arrive(t0, of_block_1, 0, cluster); };
  sent().mbarrier_test(t1, of_block_1, 0, cluster, relaxed).fence(t1).read(t1, x).none();
  sent().mbarrier_test(t1, of_block_1, 0, cta, relaxed).fence(t1).read(t1, x).races({{1, 2}});
  sent() // the one that does
      .mbarrier_test(t1, of_block_1, 0, cta, relaxed)
      .mbarrier_test(t1, of_block_1, 0, cluster, relaxed)
      .fence(t1)
      .read(t1, x)
      .none();
  sent()
      .mbarrier_test(t1, of_block_1, 0, cluster, relaxed)
      .mbarrier_test(t1, of_block_1, 0, cta, relaxed)
      .fence(t1)
      .read(t1, x)
      .none();
}
TEST(LitmusMbarriers, PhasesThatNobodyLooksAt) {
  const auto sent = [] {
    return Litmus().mbarrier_arrive(same_block, own, 0).write(same_block, x).mbarrier_arrive(same_block, own, 1);
  };
  sent().mbarrier_test(t0, own, 0, cluster, relaxed).unused_test(t0, own, 1).read(t0, x).races({{1, 2}});
  sent().mbarrier_test(t0, own, 1, cluster, relaxed).unused_test(t0, own, 1).read(t0, x).none();
  Litmus()
      .write(same_block, x)
      .mbarrier_arrive(same_block, own, 0)
      .mbarrier_arrive(same_block, own, 1)
      .mbarrier_test(t0, own, 1, cluster, relaxed) // the earlier one's too
      .unused_test(t0, own, 0)
      .read(t0, x)
      .none();
}
// What is known of an object that was made anew says nothing of its new phases.
TEST(LitmusMbarriers, ObjectsMadeAnew) {
  order::OperationClocks operations;
  trace::Operation launch; // the first
  launch.id = launch.launch = 1;
  launch.what = trace::Launch{};
  operations.submitted(launch);
  order::Causality causality(operations);
  causality.unused_tests();
  causality.launch_begin(1, {1, 1, 1}, {64, 1, 1}, {1, 1, 1});
  const order::ThreadKey writer(1, 0, 33), reader(1, 0, 0);
  const order::Location object{reader.block_bits() + 1, 64};
  order::Stamp now = 0;
  for (const bool anew : {false, true}) {
    if (anew) causality.mbarrier_init(object);
    const order::Stamp written = ++now;
    causality.mbarrier_arrive(writer, object, 0, Ordering::release, cta, ++now);
    if (!anew) causality.mbarrier_test(reader, object, 0, Ordering::relaxed, cta);
    causality.mbarrier_test(reader, object, 0, Ordering::acquire, cta, true);
    EXPECT_EQ(causality.ordered(writer, written, 0, reader), !anew);
  }
}
TEST(LitmusMbarriers, AccessAfterTheArrival) {
  Litmus().mbarrier_arrive(t0, own).write(t0, x).mbarrier_test(same_block, own).read(same_block, x).races({{1, 2}});
}
TEST(LitmusMbarriers, Phases) {
  // A later phase's completion tells of the earlier ones', not the other way round.
  Litmus()
      .write(t0, x)
      .mbarrier_arrive(t0, own, 0)
      .mbarrier_arrive(t0, own, 1)
      .mbarrier_test(same_block, own, 1)
      .read(same_block, x)
      .none();
  Litmus()
      .mbarrier_arrive(t0, own, 0)
      .write(t0, x)
      .mbarrier_arrive(t0, own, 1)
      .mbarrier_test(same_block, own, 0)
      .read(same_block, x)
      .races({{1, 2}});
}
TEST(LitmusMbarriers, RelaxedArrivalNeedsAFence) {
  Litmus(2)
      .write(t0, x)
      .mbarrier_arrive(t0, own, 0, cluster, relaxed)
      .mbarrier_test(same_block, own, 0, cluster)
      .read(same_block, x)
      .races({{1, 2}});
  Litmus(2)
      .write(t0, x)
      .fence(t0, cluster, release)
      .mbarrier_arrive(t0, own, 0, cluster, relaxed)
      .mbarrier_test(same_block, own, 0, cluster)
      .read(same_block, x)
      .none();
}
TEST(LitmusMbarriers, RemoteArrival) { // block 0 arrives at an object of block 1, in its cluster
  Litmus(2)
      .write(t0, x)
      .mbarrier_arrive(t0, of_block_1, 0, cluster)
      .mbarrier_test(t1, of_block_1, 0, cluster)
      .read(t1, x)
      .none();
  Litmus(2)
      .write(t0, x)
      .mbarrier_arrive(t0, of_block_1, 0, cluster)
      .mbarrier_test(t1, of_block_1, 0, cta)
      .read(t1, x)
      .races({{1, 2}}); // the wait's scope is the block
  Litmus(2)
      .write(t0, x)
      .mbarrier_arrive(t0, of_block_1, 0, cta)
      .mbarrier_test(t1, of_block_1, 0, cluster)
      .read(t1, x)
      .races({{1, 2}});
}
// "All memory accesses requested after the mbarrier.try_wait, in program order, are not performed and not visible to
// memory accesses performed prior to mbarrier.arrive having release semantics, in program order, by other threads
// participating in the mbarrier" (9.7.13.15.16, item 4): whatever the scopes, reads have been performed.
TEST(LitmusMbarriers, RemoteArrivalHandsBackWhatWasRead) {
  for (const Scope arrival : {cta, cluster}) {
    for (const Scope wait : {cta, cluster}) {
      Litmus(2)
          .read(t0, x)
          .mbarrier_arrive(t0, of_block_1, 0, arrival)
          .mbarrier_test(t1, of_block_1, 0, wait)
          .write(t1, x)
          .none();
    }
  }
  Litmus(2)
      .write(t0, x)
      .mbarrier_arrive(t0, of_block_1, 0, cta)
      .mbarrier_test(t1, of_block_1, 0, cta)
      .write(t1, x)
      .races({{1, 2}}); // it need not have been performed
  Litmus(2)
      .read(t0, x)
      .mbarrier_arrive(t0, of_block_1, 0, cta)
      .write(t1, x)
      .mbarrier_test(t1, of_block_1, 0, cta)
      .races({{1, 2}}); // requested before the wait
  Litmus(2)
      .read(t0, x)
      .mbarrier_arrive(t0, of_block_1, 0, cluster, Ordering::relaxed)
      .mbarrier_test(t1, of_block_1, 0, cluster)
      .write(t1, x)
      .races({{1, 2}}); // "having release semantics"
  Litmus(2)
      .read(same_block, x)
      .block_barrier(0)
      .mbarrier_arrive(t0, of_block_1, 0, cta)
      .mbarrier_test(t1, of_block_1, 0, cta)
      .write(t1, x)
      .none(); // what others read is known to the arriving thread
  Litmus(2)
      .read(same_block, x)
      .mbarrier_arrive(t0, of_block_1, 0, cta)
      .mbarrier_test(t1, of_block_1, 0, cta)
      .write(t1, x)
      .races({{1, 2}}); // it is not
  for (const bool observed : {false, true}) { // a bulk copy: its read and its write
    Litmus copied(2);
    copied.bulk_load(t0, x, own).complete();
    if (observed) copied.mbarrier_test(t0, own);
    copied.mbarrier_arrive(t0, of_block_1, 0, cta)
        .mbarrier_test(t1, of_block_1, 0, cta)
        .write(t1, x)
        .shared_write(t1, 0);
    if (observed)
      copied.none();
    else
      copied.races({{1, 2}, {1, 3}});
  }
}

// ---- cp.async and mbarriers (9.7.9.25.3; 8.9.1.1)

TEST(LitmusCopyArrival, CoversTheCopiesBeforeIt) {
  Litmus().copy(t0, x).copy_arrive(t0, own).mbarrier_test(same_block, own).shared_read(same_block).none();
  Litmus().copy_arrive(t0, own).copy(t0, x).mbarrier_test(same_block, own).shared_read(same_block).races({{1, 2}});
  Litmus().copy(t0, x).mbarrier_arrive(t0, own).mbarrier_test(same_block, own).shared_read(same_block).races({{1, 2}});
}
TEST(LitmusCopyArrival, CoversNothingElse) { // "not to those of any other instruction issued by the thread"
  Litmus()
      .write(t0, y)
      .copy(t0, x)
      .copy_arrive(t0, own)
      .mbarrier_test(same_block, own)
      .read(same_block, y)
      .races({{1, 3}});
}

// ---- bulk copies: completion (9.7.9.25.4)

TEST(LitmusBulk, PhaseOfItsMbarrier) {
  Litmus().bulk_load(t0, x, own).complete().mbarrier_test(same_block, own).shared_read(same_block).none();
  Litmus().bulk_load(t0, x, own).complete().shared_read(same_block).races({{1, 2}});
  Litmus().bulk_load(t0, x, own).complete().shared_read(t0).races({{1, 2}}); // not even its issuer
}
TEST(LitmusBulk, CompletionSaysNothingOfTheIssuer) { // it does not order what the issuer did before
  Litmus()
      .write(t0, y)
      .bulk_load(t0, x, own)
      .complete()
      .mbarrier_test(same_block, own)
      .read(same_block, y)
      .races({{1, 3}});
  Litmus()
      .write(t0, y)
      .bulk_load(t0, x, own)
      .mbarrier_arrive(t0, own)
      .complete()
      .mbarrier_test(same_block, own)
      .read(same_block, y)
      .none();
}
TEST(LitmusBulk, Groups) {
  Litmus().bulk_store(t0, x).bulk_commit(t0).bulk_wait(t0).read(t0, x).none();
  Litmus().bulk_store(t0, x).bulk_wait(t0).read(t0, x).races({{1, 2}}); // never committed
  Litmus().bulk_store(t0, x).bulk_commit(t0).bulk_wait(t0, 1).read(t0, x).races({{1, 2}});
  Litmus().bulk_store(t0, x).bulk_commit(t0).bulk_wait(same_block).read(same_block, x).races({{1, 2}}); // not its
                                                                                                        // issuer
}
TEST(LitmusBulk, WaitForReadsFreesTheSource) { // .read: the source may be written again, the result is not there yet
  Litmus().bulk_store(t0, x).bulk_commit(t0).bulk_wait(t0, 0, true).shared_write(t0).none();
  Litmus().bulk_store(t0, x).shared_write(t0).races({{1, 2}});
  Litmus().bulk_store(t0, x).bulk_commit(t0).bulk_wait(t0, 0, true).read(t0, x).races({{1, 2}});
}
TEST(LitmusBulk, IntoTheOtherBlock) {
  Litmus(2).bulk_load(t0, x, of_block_1).complete().mbarrier_test(t1, of_block_1, 0, cluster).shared_read(t1).none();
  Litmus(2).bulk_load(t0, x, of_block_1).complete().shared_read(t1).races({{1, 2}});
  Litmus(2).bulk_load(t0, x, of_block_1).shared_read(t0).none(); // its own block's memory is another
}
TEST(LitmusBulk, SourceWrittenMeanwhile) {
  Litmus().bulk_load(t0, x, own).write(t1, x).races({{1, 2}});
  Litmus().bulk_load(t0, x, own).complete().mbarrier_test(t0, own).write(t0, x).none();
}

// ---- st.async (9.7.9.12): an agent of its own, through the generic proxy

TEST(LitmusAsyncStores, CompletionOrdersThem) {
  Litmus(2).async_store(t0, of_block_1).complete().mbarrier_test(t1, of_block_1, 0, cluster).shared_read(t1).none();
  Litmus(2).async_store(t0, of_block_1).complete().shared_read(t1).races({{1, 2}});
  Litmus().async_store(t0, own).shared_write(t0).races({{1, 2}}); // not even its issuer waits
}
TEST(LitmusAsyncStores, NeedNoProxyFence) {
  Litmus().shared_write(t0).async_store(t0, own).none();
  Litmus().shared_write(same_block).block_barrier(0).async_store(t0, own).none();
  Litmus().shared_write(same_block).async_store(t0, own).races({{1, 2}});
}
TEST(LitmusAsyncStores, CompletionSaysNothingOfTheIssuer) {
  Litmus()
      .write(t0, y)
      .async_store(t0, own)
      .complete()
      .mbarrier_test(same_block, own)
      .read(same_block, y)
      .races({{1, 3}});
}

// ---- distributed shared memory (5.1.7.1) and barrier.cluster (9.7.13.4)

TEST(LitmusClusters, SharedMemoryOfTheOtherBlock) {
  Litmus(2).shared_write(t1).shared_read(t0, 1).races({{1, 2}});
  Litmus(2).shared_write(t1).shared_read(t0).none(); // its own
  Litmus(2).shared_write(t1).cluster_arrive(t1).cluster_arrive(t0).cluster_wait(t0).shared_read(t0, 1).none();
  Litmus(2).shared_write(t1).cluster_arrive(t1).cluster_arrive(t0).shared_read(t0, 1).races({{1, 2}});
}
TEST(LitmusClusters, RelaxedArrivalBehindAFence) {
  Litmus(2)
      .shared_write(t1)
      .fence(t1, cluster, release)
      .cluster_arrive(t1, true)
      .cluster_arrive(t0)
      .cluster_wait(t0)
      .shared_read(t0, 1)
      .none();
  Litmus(2)
      .shared_write(t1)
      .fence(t1, cta, release)
      .cluster_arrive(t1, true)
      .cluster_arrive(t0)
      .cluster_wait(t0)
      .shared_read(t0, 1)
      .races({{1, 2}});
}

// ---- programmatic dependent launches (9.7.13.13 griddepcontrol)

TEST(LitmusDependents, Wait) {
  Litmus().write(t0, x).dependency_wait(dependent).read(dependent, x).none();
  Litmus().write(t0, x).read(dependent, x).races({{1, 2}});
  Litmus().write(t0, x).read(dependent, x).dependency_wait(dependent).races({{1, 2}}); // too late
}
TEST(LitmusDependents, OthersNeedABarrier) {
  Litmus().write(t0, x).dependency_wait(dependent).read(dependent_beside, x).races({{1, 2}});
  Litmus().write(t0, x).dependency_wait(dependent).block_barrier(2).read(dependent_beside, x).none();
}
TEST(LitmusDependents, CopiesOfTheLaunchBefore) { // it is over with all its copies, visible to all proxies
  Litmus().bulk_store(t0, x).dependency_wait(dependent).read(dependent, x).none();
  Litmus().write(t0, x).dependency_wait(dependent).bulk_load(dependent, x, 5).none();
  Litmus().write(t0, x).bulk_load(dependent, x, 5).races({{1, 2}});
}
TEST(LitmusDependents, WaitsAreNoProxyFenceForOthers) { // the launch that writes is none that is waited for
  const At waits{4, 0};
  constexpr std::uint32_t of_waits = 9;
  const auto acquired = [&](Litmus& litmus) -> Litmus& {
    return litmus.launch(2)
        .launch(3)
        .dependent_launch(3)
        .write(t0, x)
        .write(t0, y, release, gpu)
        .read(waits, y, acquire, gpu);
  };
  Litmus by_wait, by_fence;
  acquired(by_wait).dependency_wait(waits).bulk_load(waits, x, of_waits).races({{1, 4}});
  acquired(by_fence).proxy_fence(waits, false).bulk_load(waits, x, of_waits).none();
}
TEST(LitmusDependents, TheEndOfALaunchIsAProxyFence) { // also for what another, which still runs, had told it of
  const At waits{3, 0};
  constexpr std::uint32_t of_waits = 7;
  const auto told = [&](Litmus& litmus) -> Litmus& {
    return litmus.launch(2)
        .dependent_launch(2)
        .write(dependent, x)
        .write(dependent, y, release, gpu)
        .read(t0, y, acquire, gpu)
        .dependency_wait(waits);
  };
  Litmus by_end, untold;
  told(by_end).bulk_load(waits, x, of_waits).none();
  untold.launch(2).dependent_launch(2).write(dependent, x).dependency_wait(waits);
  untold.bulk_load(waits, x, of_waits).races({{1, 2}});
}
TEST(LitmusDependents, OverwritesWhatIsStillRead) {
  Litmus().read(t0, x).write(dependent, x).races({{1, 2}});
  Litmus().read(t0, x).dependency_wait(dependent).write(dependent, x).none();
}

// What has been read comes before what follows the wait at an mbarrier of another block of the cluster, whatever the
// scopes (RemoteArrivalHandsBackWhatWasRead), by launches that are over, too.
TEST(LitmusDependents, RemoteArrivalHandsBackWhatWasRead) {
  const At peer{3, 0};
  constexpr std::uint32_t of_peer = 7;
  const auto hands_back = [&](Litmus& litmus) -> Litmus& {
    return litmus.dependency_wait(dependent)
        .mbarrier_arrive(dependent, of_peer)
        .mbarrier_test(peer, of_peer)
        .write(peer, x);
  };
  Litmus read(2), written(2);
  hands_back(read.read(t0, x)).none();
  hands_back(written.write(t0, x)).races({{1, 2}});
}
TEST(LitmusDependents, RemoteArrivalHandsBackWhatWasReadBeforeAnother) {
  const At releases{2, 0}, acquires{4, 0}, peer{5, 0};
  constexpr std::uint32_t of_peer = 11;
  const auto hands_back = [&](Litmus& litmus) -> Litmus& { // through a launch that began behind the first
    return litmus.end(0)
        .launch(2)
        .launch(3)
        .write(releases, y, release, gpu)
        .read(acquires, y, acquire, gpu)
        .mbarrier_arrive(acquires, of_peer)
        .mbarrier_test(peer, of_peer)
        .write(peer, x);
  };
  Litmus read(2), written(2);
  hands_back(read.read(t0, x)).none();
  hands_back(written.write(t0, x)).races({{1, 4}});
}

// ---- what a report says

void says(std::string why, const char* what) { EXPECT_NE(why.find(what), std::string::npos) << why; }

TEST(LitmusWords, Mbarriers) {
  says(Litmus().write(t0, x).mbarrier_arrive(t0, own).read(same_block, x).why(), "waits for no phase of it");
  says(Litmus().write(t0, x).mbarrier_arrive(t0, own).mbarrier_test(same_block, other).read(same_block, x).why(),
       "but the second waits at");
  says(Litmus()
           .mbarrier_arrive(t0, own, 0)
           .write(t0, x)
           .mbarrier_arrive(t0, own, 1)
           .mbarrier_test(same_block, own, 0)
           .read(same_block, x)
           .why(),
       "wrong parity");
  says(Litmus(2)
           .write(t0, x)
           .mbarrier_arrive(t0, of_block_1, 0, cluster)
           .mbarrier_test(t1, of_block_1, 0, cta)
           .read(t1, x)
           .why(),
       "has block (.cta) scope");
  says(Litmus().mbarrier_arrive(t0, own).write(t0, x).mbarrier_test(same_block, own).read(same_block, x).why(),
       "before it made its access");
  says(Litmus().write(t0, x).mbarrier_arrive(same_warp, own).mbarrier_test(same_block, own).read(same_block, x).why(),
       "does not arrive between the two");
  says(Litmus().write(t0, x).mbarrier_arrive(t0, own).unused_test(same_block, own).read(same_block, x).why(),
       "nothing depends on the outcome of the wait at a.cu:");
  says(Litmus().bulk_load(t0, x, own).complete().unused_test(same_block, own).shared_read(same_block).why(),
       "though it succeeded in this run");
}
TEST(LitmusWords, Copies) {
  says(Litmus().bulk_load(t0, x, own).complete().shared_read(same_block).why(), "the copy completes on the mbarrier");
  says(Litmus().bulk_load(t0, x, own).complete().mbarrier_test(same_block, other).shared_read(same_block).why(),
       "but the second waits at");
  says(Litmus().bulk_store(t0, x).bulk_commit(t0).bulk_wait(t0, 0, true).read(t0, x).why(), "has .read");
  says(Litmus().bulk_store(t0, x).bulk_commit(t0).bulk_wait(t0, 1).read(t0, x).why(), "leaves up to 1");
}
TEST(LitmusWords, Proxies) {
  says(Litmus().shared_write(t0).bulk_store(t0, x).why(), "no fence.proxy.async");
  says(Litmus().shared_write(t0).proxy_fence(t0, false).bulk_store(t0, x).why(), "is of global memory only");
  says(Litmus().proxy_fence(t0).shared_write(t0).bulk_store(t0, x).why(), "comes before the first");
  says(Litmus().shared_write(t0).async_fence(t0, acquire).bulk_store(t0, x).why(), "makes nothing visible by itself");
}
TEST(LitmusWords, Clusters) {
  says(Litmus(2).shared_write(t1).cluster_arrive(t1).cluster_arrive(t0).shared_read(t0, 1).why(),
       "does not wait there");
  says(Litmus(2).shared_write(t1).cluster_arrive(t1, true).cluster_arrive(t0).cluster_wait(t0).shared_read(t0, 1).why(),
       "is .relaxed");
  says(Litmus(2).cluster_arrive(t1).shared_write(t1).cluster_arrive(t0).cluster_wait(t0).shared_read(t0, 1).why(),
       "before it made its access");
}
TEST(LitmusWords, Dependents) { says(Litmus().write(t0, x).read(dependent, x).why(), "griddepcontrol.wait"); }

} // namespace
} // namespace deadheat::test
