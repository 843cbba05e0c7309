// wgmma and boxes of tensors in traces: what is read of shared memory beside the threads, until somebody waited for it.
#include <gtest/gtest.h>

#include "deadheat/address.h"
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

// One block of two warpgroups; the first multiplies what lies in shared memory from 1024 on.
class Warpgroups : public testing::Test {
 protected:
  Warpgroups() {
    using enum SiteKind;
    using enum AccessKind;
    multiply_ = site(10, bulk_copy, read, "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", Proxy::async);
    commit_ = site(11, async_commit, read, "wgmma.commit_group.sync.aligned", Proxy::async);
    wait_ = site(12, async_wait, read, "wgmma.wait_group.sync.aligned", Proxy::async);
    bulk_wait_ = site(13, async_wait, read, "cp.async.bulk.wait_group", Proxy::async);
    load_ = site(20, bulk_copy, write, "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
                 Proxy::async);
    store_ = site(30, access, write, "st.shared.u32");
    arrive_ = site(40, SiteKind::mbarrier, atomic, "mbarrier.arrive.shared.b64");
    test_ = site(41, SiteKind::mbarrier, read, "mbarrier.test_wait.shared.b64");
    fence_ = site(50, proxy_fence, read, "fence.proxy.async.shared::cta", Proxy::async);
    launch_ = trace_.launch(1, {1, 1, 1}, {256, 1, 1});
  }

  std::uint32_t site(unsigned line, SiteKind kind, AccessKind access, const char* opcode,
                     Proxy proxy = Proxy::generic) {
    LittleTrace::SiteOf of;
    of.space = Space::shared;
    of.kind = kind;
    of.access = access;
    of.opcode = opcode;
    of.proxy = proxy;
    return trace_.site(line, of);
  }
  template <typename R>
  R by_warp(std::uint32_t warp, std::uint32_t site, std::uint32_t mask = ~0u) {
    R record;
    record.warp = {launch_, 0, warp};
    record.module = 1;
    record.site = site;
    record.mask = mask;
    return record;
  }
  void multiply(std::uint32_t warp, std::uint32_t at = 1024) {
    auto read = by_warp<trace::BulkCopy>(warp, multiply_, 1);
    read.source[0] = shared_window + at + 128 * warp;
    read.bytes[0] = 128;
    trace_.add(read);
  }
  void commit(std::uint32_t warp) { trace_.add(by_warp<trace::AsyncCommit>(warp, commit_)); }
  void wait(std::uint32_t warp, std::uint32_t pending = 0, bool of_copies = false) {
    auto record = by_warp<trace::AsyncWait>(warp, of_copies ? bulk_wait_ : wait_);
    record.pending = pending;
    trace_.add(record);
  }
  void multiply_all(std::uint32_t at = 1024) {
    for (std::uint32_t warp = 0; warp < 4; ++warp) multiply(warp, at), commit(warp);
  }
  // By the first thread of the warp, of its part of the matrix or another's.
  void store(std::uint32_t warp, std::uint32_t at) { trace_.access(launch_, 0, 32 * warp, store_, at); }
  void mbarrier(trace::Mbarrier::What what, std::uint32_t warp, std::uint32_t phase, std::uint32_t object = 64) {
    auto record = by_warp<trace::Mbarrier>(warp,
                                           what == trace::Mbarrier::What::test          ? test_
                                           : what == trace::Mbarrier::What::complete_tx ? load_
                                                                                        : arrive_,
                                           1);
    record.what = what;
    record.address[0] = object;
    record.phase[0] = phase;
    record.count[0] = 1;
    if (what == trace::Mbarrier::What::test) {
      record.ordering = Ordering::acquire;
      record.succeeded = 1;
    }
    trace_.add(record);
  }
  void load(std::uint32_t warp, std::uint32_t at, std::uint32_t bytes) {
    auto copy = by_warp<trace::BulkCopy>(warp, load_, 1);
    copy.destination[0] = shared_window + at;
    copy.source[0] = memory;
    copy.mbarrier[0] = shared_window + 72;
    copy.bytes[0] = bytes;
    trace_.add(copy);
  }
  void expect(const std::vector<std::string>& races) {
    trace_.end_launch(launch_);
    EXPECT_EQ(trace_.races(), races);
  }
  using Op = trace::Mbarrier::What;
  LittleTrace trace_;
  std::uint32_t launch_ = 0, multiply_ = 0, commit_ = 0, wait_ = 0, bulk_wait_ = 0, load_ = 0, store_ = 0, arrive_ = 0,
                test_ = 0, fence_ = 0;
};

TEST_F(Warpgroups, WhatIsReadMustNotBeOverwrittenBeforeTheWait) {
  multiply_all();
  store(0, 1024);
  wait(0);
  expect({"10-30"});
}
TEST_F(Warpgroups, AfterTheWaitItMayBe) {
  multiply_all();
  wait(0);
  store(0, 1024);
  expect({});
}
TEST_F(Warpgroups, OneWarpsWaitIsForAllOfItsWarpgroup) { // also for the parts that the others read
  multiply_all();
  wait(1);
  store(1, 1024);
  expect({});
}
TEST_F(Warpgroups, ButForNoOther) {
  multiply_all();
  wait(5);
  store(5, 1024);
  expect({"10-30"});
}
TEST_F(Warpgroups, GroupsThatMayBePending) {
  multiply_all();
  multiply_all(4096);
  wait(0, 1);
  store(0, 1024);
  expect({});
}
TEST_F(Warpgroups, TheLatestGroupIsPending) {
  multiply_all();
  multiply_all(4096);
  wait(0, 1);
  store(0, 4096);
  expect({"10-30"});
}
// The second warp's commit is missing: it counts its groups differently, but what it waited for is over.
TEST_F(Warpgroups, WhoseCommitsAreMissing) {
  for (std::uint32_t warp : {0, 2, 3}) multiply(warp), commit(warp);
  trace_.gap();
  multiply_all(4096);
  store(5, 8192);
  wait(1);
  store(1, 4096);
  store(6, 8192); // nobody waited for this
  expect({"30-30"});
}
TEST_F(Warpgroups, BulkGroupsAreOthers) {
  multiply_all();
  wait(0, 0, true);
  store(0, 1024);
  expect({"10-30"});
}
TEST_F(Warpgroups, AnArrivalTellsOthers) { // the consumer of a pipeline gives its stage back
  multiply_all();
  wait(2);
  mbarrier(Op::arrive, 2, 0);
  mbarrier(Op::test, 4, 0);
  load(4, 1024, 512);
  expect({});
}
TEST_F(Warpgroups, TheProducerMustWait) {
  multiply_all();
  wait(2);
  mbarrier(Op::arrive, 2, 0);
  load(4, 1024, 512);
  expect({"10-20"});
}
TEST_F(Warpgroups, GivenBackTooEarly) {
  multiply_all();
  mbarrier(Op::arrive, 2, 0);
  wait(2);
  mbarrier(Op::test, 4, 0);
  load(4, 1024, 512);
  expect({"10-20"});
}
TEST_F(Warpgroups, AStoreNeedsAProxyFence) {
  store(0, 1024);
  trace_.block_barrier(launch_, 0);
  multiply_all();
  expect({"10-30"});
}
TEST_F(Warpgroups, AndHasOne) {
  store(0, 1024);
  auto fence = by_warp<trace::Fence>(0, fence_);
  fence.proxy = Proxy::async;
  trace_.add(fence);
  trace_.block_barrier(launch_, 0);
  multiply_all();
  expect({});
}
TEST_F(Warpgroups, ALoadedBoxMustBeWaitedFor) {
  load(4, 1024, 512);
  mbarrier(Op::complete_tx, 4, 0, 72);
  for (std::uint32_t warp = 0; warp < 4; ++warp) {
    if (warp != 2) mbarrier(Op::test, warp, 0, 72);
  }
  multiply_all();
  expect({"10-20"}); // the third warp did not
}
TEST_F(Warpgroups, ALoadedBoxThatAllWaitFor) {
  load(4, 1024, 512);
  mbarrier(Op::complete_tx, 4, 0, 72);
  for (std::uint32_t warp = 0; warp < 4; ++warp) mbarrier(Op::test, warp, 0, 72);
  multiply_all();
  expect({});
}
// Two lanes of a warp issue copies to global memory, unordered: whether they write one value.
struct SameValue : Warpgroups {
  bool of(std::uint32_t digest, std::uint32_t offset) {
    const std::uint32_t to_memory = site(60, SiteKind::bulk_copy, AccessKind::write,
                                         "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", Proxy::async);
    for (std::uint32_t lane = 0; lane < 2; ++lane) {
      auto copy = by_warp<trace::BulkCopy>(0, to_memory, 1u << lane);
      copy.destination[lane] = memory + (lane ? offset : 0);
      copy.source[lane] = shared_window + 1024;
      copy.bytes[lane] = 16384; // several pages of shadow
      copy.digest[lane] = lane ? digest : 7;
      trace_.add(copy);
    }
    trace_.end_launch(launch_);
    const Analysis analysis = trace_.analyze();
    EXPECT_EQ(analysis.races.size(), 1u);
    return !analysis.races.empty() && analysis.races[0].same_value;
  }
};
TEST_F(SameValue, CopiesOfTheSameToOnePlace) { EXPECT_TRUE(of(7, 0)); }
TEST_F(SameValue, CopiesOfOtherBytes) { EXPECT_FALSE(of(8, 0)); }
TEST_F(SameValue, CopiesOfTheSameToPlacesThatOverlap) { EXPECT_FALSE(of(7, 16)); }

// cp.async.bulk.relaxed.b128 (PTX ISA 9.3) moves strong elements: what copies of one place do to each other is defined.
TEST(StrongCopies, ToOnePlace) {
  const auto races = [](Ordering ordering, Scope scope, bool two_blocks) {
    LittleTrace trace;
    LittleTrace::SiteOf of;
    of.kind = SiteKind::bulk_copy;
    of.access = AccessKind::write;
    of.proxy = Proxy::async;
    of.opcode = "cp.async.bulk.relaxed.gpu.global.shared::cta.bulk_group.b128";
    of.ordering = ordering;
    of.scope = scope;
    of.bytes = 16;
    const std::uint32_t site = trace.site(60, of), launch = trace.launch();
    for (std::uint32_t i = 0; i < 2; ++i) {
      trace::BulkCopy copy;
      copy.warp = {launch, two_blocks ? i : 0, two_blocks ? 0 : i};
      copy.module = 1;
      copy.site = site;
      copy.mask = 1;
      copy.destination[0] = memory + 32 * i;
      copy.source[0] = shared_window + 1024;
      copy.bytes[0] = 64;
      trace.add(copy);
    }
    trace.end_launch(launch);
    return trace.races();
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(races(Ordering::weak, Scope::none, true), Lines{"60-60"});
  EXPECT_EQ(races(Ordering::relaxed, Scope::gpu, true), Lines{"60-60 strong"});
  EXPECT_EQ(races(Ordering::relaxed, Scope::cta, true), Lines{"60-60"});
  EXPECT_EQ(races(Ordering::relaxed, Scope::cta, false), Lines{"60-60 strong"});
}

} // namespace
} // namespace deadheat::test
