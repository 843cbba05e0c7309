// Store histories beside copies, mbarriers, proxies and clusters: what binds a read, and what does not.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "analyzer/order/histories.h"

namespace deadheat::order {
namespace {

constexpr std::uint64_t s = 0x40, global = 0x1000, object_at = 0x800;

class Copies : public ::testing::Test {
 protected:
  void begin(std::uint32_t blocks = 1, std::uint32_t cluster = 1) {
    launch_ = histories_.launch_begin({blocks, 1, 1}, {64, 1, 1}, {cluster, 1, 1});
    clustered_ = cluster > 1;
  }
  ThreadKey thread(std::uint32_t t, std::uint32_t block = 0) const { return {launch_, block, t}; }
  Location shared(std::uint64_t at, std::uint32_t bytes = 4, std::uint32_t block = 0) const {
    return {thread(0, block).block_bits() + 1, at, bytes};
  }
  Location object() const { return shared(object_at, 0); }
  HistoryAccess access(ThreadKey who, Location where) const {
    HistoryAccess a;
    a.thread = who;
    a.location = where;
    a.clustered = clustered_;
    return a;
  }
  HistoryAccess copy(ThreadKey who, Location where, bool async_proxy, AsyncGroup group = 0) const {
    HistoryAccess a = access(who, where);
    a.copy = true;
    a.async_proxy = async_proxy;
    a.group = group;
    return a;
  }
  // Writes a number where there were zeros, and reads.
  void write(const HistoryAccess& a) {
    const std::uint32_t before = held_;
    held_ += 7;
    histories_.write(a, bytes(before), bytes(held_));
  }
  std::size_t choices(const HistoryAccess& a) { return histories_.choices(a, bytes(held_)); }
  const std::uint8_t* bytes(std::uint32_t value) {
    auto& at = scratch_[next_++ % 2];
    std::memcpy(at, &value, 4);
    return at;
  }
  Causality& causality() { return histories_.causality(); }
  Stamp tick() { return histories_.tick(); }

  Histories histories_;
  OperationIndex launch_ = 0;
  bool clustered_ = false;
  std::uint32_t held_ = 0;
  unsigned next_ = 0;
  std::uint8_t scratch_[2][4];
};

// A copy completes on an mbarrier: who has seen the phase has the bytes, and nobody else, its issuer neither.
TEST_F(Copies, OfAnMbarrierBindWhoSawThePhase) {
  begin();
  causality().mbarrier_init(object());
  const Location at = object();
  const auto groups = causality().bulk_issue(thread(0), &at);
  write(copy(thread(0), shared(s), true, groups.write));
  EXPECT_EQ(choices(access(thread(0), shared(s))), 2u);
  causality().bulk_complete(thread(0), object(), 0, tick());
  causality().block_barrier(launch_, 0, tick());
  for (std::uint32_t t : {0u, 33u}) EXPECT_EQ(choices(access(thread(t), shared(s))), 2u) << t;
  causality().mbarrier_test(thread(33), object(), 0, Ordering::acquire, Scope::cta);
  EXPECT_EQ(choices(access(thread(33), shared(s))), 1u);
  EXPECT_EQ(choices(access(thread(0), shared(s))), 2u);
  // The value from before it is what the others may see.
  const HistoryAccess read = access(thread(0), shared(s));
  ASSERT_EQ(choices(read), 2u);
  std::uint32_t seen = held_;
  histories_.look(read, 1, reinterpret_cast<std::uint8_t*>(&seen));
  EXPECT_EQ(seen, 0u);
}

TEST_F(Copies, RelaxedArrivalsBindNobody) {
  for (const Ordering ordering : {Ordering::relaxed, Ordering::release}) {
    begin();
    write(access(thread(0), shared(s)));
    causality().mbarrier_arrive(thread(0), object(), 0, ordering, Scope::cta, tick());
    EXPECT_EQ(choices(access(thread(40), shared(s))), 2u);
    causality().mbarrier_test(thread(40), object(), 0, Ordering::acquire, Scope::cta);
    EXPECT_EQ(choices(access(thread(40), shared(s))), ordering == Ordering::release ? 1u : 2u);
    histories_.launch_end(launch_);
  }
}

// A copy through the asynchronous proxy reads what was written before a fence of that proxy; one through the generic
// proxy what its thread wrote.
TEST_F(Copies, ReadWhatAProxyFenceMadeVisible) {
  begin();
  write(access(thread(5), shared(s)));
  causality().block_barrier(launch_, 0, tick());
  EXPECT_EQ(choices(copy(thread(0), shared(s), false)), 1u);
  EXPECT_EQ(choices(copy(thread(0), shared(s), true)), 2u);
  EXPECT_EQ(choices(copy(thread(5), shared(s), true)), 2u);
  causality().proxy_fence(thread(5), false, true, tick());
  EXPECT_EQ(choices(copy(thread(5), shared(s), true)), 2u) << "it was of global memory";
  causality().proxy_fence(thread(5), true, false, tick());
  EXPECT_EQ(choices(copy(thread(5), shared(s), true)), 1u);
  EXPECT_EQ(choices(copy(thread(0), shared(s), true)), 2u);
  causality().block_barrier(launch_, 0, tick());
  EXPECT_EQ(choices(copy(thread(0), shared(s), true)), 1u);
}

// cp.async: its thread's wait completes the group, and a barrier passes that on.
TEST_F(Copies, OfAGroupBindAfterTheWait) {
  begin();
  const AsyncGroup group = causality().async_issue(thread(3));
  write(copy(thread(3), shared(s), false, group));
  causality().async_commit(thread(3));
  causality().block_barrier(launch_, 0, tick());
  EXPECT_EQ(choices(access(thread(3), shared(s))), 2u);
  causality().async_wait(thread(3), 0, false, tick());
  EXPECT_EQ(choices(access(thread(3), shared(s))), 1u);
  EXPECT_EQ(choices(access(thread(4), shared(s))), 2u);
  causality().block_barrier(launch_, 0, tick());
  EXPECT_EQ(choices(access(thread(4), shared(s))), 1u);
}

// A bulk group: its reads may be complete before its writes.
TEST_F(Copies, OfABulkGroupBindAfterTheWholeWait) {
  begin();
  const auto groups = causality().bulk_issue(thread(3), nullptr);
  write(copy(thread(3), {0, global, 4}, true, groups.write));
  causality().bulk_commit(thread(3));
  causality().bulk_wait(thread(3), 0, true, tick());
  EXPECT_EQ(choices(access(thread(3), {0, global, 4})), 2u);
  causality().bulk_wait(thread(3), 0, false, tick());
  EXPECT_EQ(choices(access(thread(3), {0, global, 4})), 1u);
}

// An atomic never comes before a reduction of a copy whose scope has both in it.
TEST_F(Copies, ReductionsAreAtomic) {
  begin();
  const auto groups = causality().bulk_issue(thread(3), nullptr);
  HistoryAccess reduction = copy(thread(3), {0, global, 4}, true, groups.write);
  reduction.ordering = Ordering::relaxed;
  reduction.scope = Scope::gpu;
  write(reduction);
  HistoryAccess other = access(thread(9), {0, global, 4});
  EXPECT_EQ(choices(other), 2u);
  other.atomic = true;
  other.ordering = Ordering::relaxed;
  other.scope = Scope::gpu;
  EXPECT_EQ(choices(other), 1u);
}

// Shared memory that other blocks reach: a barrier of the reader's block says nothing of what others wrote there.
TEST_F(Copies, OfClustersAndTheirBarrier) {
  begin(2, 2);
  write(access(thread(1, 1), shared(s, 4, 0)));
  causality().block_barrier(launch_, 0, tick());
  EXPECT_EQ(choices(access(thread(2, 0), shared(s, 4, 0))), 2u);
  for (std::uint32_t block : {0u, 1u}) {
    causality().block_barrier(launch_, block, tick());
    for (std::uint32_t warp : {0u, 1u}) causality().cluster_barrier(launch_, block, warp, ~0u, 0, false, false, tick());
  }
  EXPECT_EQ(choices(access(thread(2, 0), shared(s, 4, 0))), 2u);
  causality().cluster_barrier(launch_, 0, 0, ~0u, 0, true, false, tick());
  EXPECT_EQ(choices(access(thread(2, 0), shared(s, 4, 0))), 1u);
}

} // namespace
} // namespace deadheat::order
