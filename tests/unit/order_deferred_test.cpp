// What is left for later (analyzer/order/deferred.h) orders what it would have ordered at once, whenever somebody asks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "analyzer/order/causality.h"
#include "analyzer/order/operation_clocks.h"
#include "tests/unit/seeds.h"

namespace deadheat::order {
namespace {

constexpr std::uint32_t blocks = 3, warps = 2, launches = 2;

// Random events of two launches, beside each other or not, of which one Causality leaves for later what happens within
// some blocks.
class Deferring {
 public:
  explicit Deferring(unsigned seed) : random_(seed) {
    unused_ = seed % 5 == 0;
    for (Causality* of : both()) {
      if (unused_) of->unused_tests();
    }
    const std::uint32_t left = 1 + below((1u << blocks) - 1);
    later_.leave_for_later([left](std::uint32_t block) { return (left >> block & 1) != 0; });
    for (std::uint32_t number = 1; number <= launches; ++number) {
      trace::Launch launch;
      launch.grid = {blocks, 1, 1};
      launch.block = {warps * 32, 1, 1};
      trace::Operation operation;
      operation.id = operation.launch = number;
      operation.stream = seed % 2 ? 1 : number;
      operation.what = launch;
      operations_of_.push_back(operations_.submitted(operation));
      if (seed % 2 == 0) begin(number - 1);
    }
    if (seed % 2) begin(0);
  }

  void step() {
    if (current_ + 1 < launches && operations_begun_ == current_ + 1 && below(100) == 0) {
      for (Causality* of : both()) of->launch_end(operations_of_[current_]);
      for (std::uint32_t block = 0; block < blocks; ++block)
        over_.insert(ThreadKey(operations_of_[current_], block, 0).block_bits());
      begin(++current_);
    }
    const OperationIndex operation = operations_of_[current_ + (operations_begun_ > current_ + 1 ? below(2) : 0)];
    const ThreadKey lane0(operation, below(blocks), below(warps) * 32);
    const ThreadKey thread(operation, lane0.block(), lane0.thread() + below(3));
    const std::uint32_t lanes = below(3) ? ~0u : 1 + below(~0u), phase = below(3);
    const Location object{lane0.block_bits() + 1, 64 + 8 * below(2), 0};
    const Scope scope = below(2) ? Scope::cta : below(2) ? Scope::cluster : Scope::gpu;
    ++now_;
    switch (below(20)) {
      case 0:
      case 1:
        for (Causality* of : both()) of->mbarrier_arrive(lane0, lanes, object, phase, Ordering::release, scope, now_);
        break;
      case 2:
      case 3: {
        const Ordering ordering = below(2) ? Ordering::acquire : Ordering::relaxed;
        const bool unused = unused_ && below(2);
        for (Causality* of : both()) of->mbarrier_test(lane0, lanes, object, phase, ordering, scope, unused);
        break;
      }
      case 4: {
        const bool shared = below(2), global = !shared || below(2);
        for (Causality* of : both()) of->proxy_fence(lane0, lanes, shared, global, now_);
        break;
      }
      case 5:
        for (Causality* of : both()) of->mbarrier_async_arrive(lane0, lanes, object, phase, now_);
        break;
      case 6:
        for (Causality* of : both()) of->fence(thread, below_same() ? Ordering::acq_rel : Ordering::sc, scope, now_);
        break;
      case 7:
      case 8:
        for (Causality* of : both()) of->warp_barrier(operation, lane0.block(), lane0.warp(), lanes, now_);
        break;
      case 9: {
        const bool whole = below(2), unseen = below(8) == 0;
        for (Causality* of : both()) {
          of->barrier_arrive(operation, lane0.block(), 0, whole ? ~0u : lanes, 1, named_, true, now_);
          of->barrier_arrive(operation, lane0.block(), 1, lanes, 1, named_, false, now_ + 1);
          of->barrier_complete(operation, lane0.block(), 1, named_, unseen);
        }
        ++named_, ++now_;
        break;
      }
      case 10:
      case 11:
        for (Causality* of : both()) of->block_barrier(operation, lane0.block(), now_);
        break;
      case 12: {
        const bool by_object = below(4) != 0;
        Causality::BulkGroups groups[2];
        for (unsigned i = 0; i < 2; ++i) groups[i] = both()[i]->bulk_issue(thread, by_object ? &object : nullptr);
        ASSERT_EQ(groups[0].read, groups[1].read);
        ASSERT_EQ(groups[0].write, groups[1].write);
        copies_.push_back({thread, now_, groups[0].read, true});
        copies_.push_back({thread, now_, groups[0].write, true});
        break;
      }
      case 13:
        if (const Copy* copy = any_copy(); copy && copy->bulk)
          for (Causality* of : both())
            of->bulk_complete(copy->thread, {copy->thread.block_bits() + 1, object.address, 0}, phase, now_);
        break;
      case 14: {
        const std::uint32_t pending = below(2);
        for (Causality* of : both()) {
          of->bulk_commit(thread);
          of->bulk_wait(thread, pending, false, now_);
        }
        break;
      }
      case 15: {
        AsyncGroup group[2];
        for (unsigned i = 0; i < 2; ++i) {
          Causality& of = *both()[i];
          group[i] = of.matrix_issue(thread);
          of.matrix_commit(thread);
          of.matrix_wait(thread, named_ % 2);
        }
        ASSERT_EQ(group[0], group[1]);
        copies_.push_back({thread, now_, group[0], true});
        break;
      }
      case 16: {
        AsyncGroup group[2];
        for (unsigned i = 0; i < 2; ++i) group[i] = both()[i]->async_issue(thread);
        ASSERT_EQ(group[0], group[1]);
        copies_.push_back({thread, now_, group[0], false});
        break;
      }
      case 17:
        for (Causality* of : both()) {
          of->async_commit(thread);
          of->async_wait(thread, 0, false, now_);
        }
        break;
      case 18:
        if (below(2)) return strong(thread);
        if (below(20) == 0)
          for (Causality* of : both()) of->missing(now_ / 2);
        break;
      case 19:
        if (below(5)) return strong(thread);
        if (below(2)) {
          for (Causality* of : both()) of->mbarrier_init(object);
        } else {
          const std::uint32_t exited = below(4) ? 1u << (20 + below(12)) : ~0u;
          const auto over = both()[0]->thread_exit(operation, lane0.block(), lane0.warp(), exited);
          EXPECT_EQ(both()[1]->thread_exit(operation, lane0.block(), lane0.warp(), exited), over);
          for (const std::uint32_t block : over) over_.insert(ThreadKey(operation, block, 0).block_bits());
        }
    }
  }

  void compare() {
    const ThreadKey first = any(), second = any();
    const Stamp stamp = 1 + below(std::uint32_t(now_));
    const auto same = [&](const char* what, auto&& ask) {
      EXPECT_EQ(ask(later_), ask(at_once_))
          << what << ": launch " << first.operation() << " block " << first.block() << " thread " << first.thread()
          << " at " << stamp << ", launch " << second.operation() << " block " << second.block() << " thread "
          << second.thread() << " at " << now_;
    };
    switch (below(11)) {
      case 0: return same("ordered", [&](const Causality& of) { return of.ordered(first, stamp, 0, second); });
      case 1:
        return same("read", [&](const Causality& of) {
          return of.ordered(first, stamp, 0, second, Restriction::shared, true);
        });
      case 2: {
        const bool shared = below(2);
        return same("proxies",
                    [&](const Causality& of) { return of.ordered_across_proxies(first, stamp, 0, second, shared); });
      }
      case 3:
        same("barrier", [&](const Causality& of) { return of.last_barrier(second); });
        return same("synchronized", [&](const Causality& of) { return of.last_sync(second); });
      case 4: return same("warp", [&](const Causality& of) { return of.warp_ordered(first, stamp, second); });
      case 5: return same("warp for", [&](const Causality& of) { return of.warp_ordered_for(first, stamp, second); });
      case 6:
        return same("block", [&](const Causality& of) {
          return of.block_ordered(first.operation(), first.block(), stamp, second);
        });
      case 7:
        return same("operation",
                    [&](const Causality& of) { return of.operation_ordered(first.operation(), stamp, second); });
      case 8:
        if (later_.knows_no_other_block(second) && first.operation() == second.operation() &&
            first.block() != second.block()) {
          EXPECT_FALSE(at_once_.ordered(first, stamp, 0, second));
        }
        if (later_.alike(second, first.block_bits()) && first.block_bits() != second.block_bits()) {
          const bool is = at_once_.ordered(first, stamp, 0, second);
          for (std::uint32_t lane = 0; lane < 32; ++lane) {
            const ThreadKey other(second.operation(), second.block(), second.warp() * 32 + lane);
            EXPECT_EQ(at_once_.ordered(first, stamp, 0, other), is);
          }
        }
        return;
      case 9:
        // Of a block that is over, only who knows that the copy is complete asks what its thread knew. Told 0 is what
        // is said where clocks are the same but not the same objects, as somebody's question can make them.
        if (const Copy* copy = any_copy()) {
          const Stamp told = at_once_.told(copy->group), later = later_.told(copy->group);
          if (!over_.count(copy->thread.block_bits()) && told) {
            if (later) {
              EXPECT_EQ(told, later) << "copy of block " << copy->thread.block() << " at " << copy->stamp;
            }
            ++(later ? told_ : untold_);
          }
          if (told == later || at_once_.ordered(copy->thread, copy->stamp, copy->group, second))
            same("issue", [&](const Causality& of) {
              return of.knows_issue(copy->thread, copy->stamp, copy->group, second, told != later);
            });
        }
        return;
      case 10:
        if (const Copy* copy = any_copy()) {
          same("copy", [&](const Causality& of) {
            return of.ordered(copy->thread, copy->stamp, copy->group, second, Restriction::shared, stamp % 2);
          });
          same("copy across", [&](const Causality& of) {
            return of.ordered_across_proxies(copy->thread, copy->stamp, copy->group, second, stamp % 2);
          });
        }
    }
  }
  std::size_t deferred() const { return later_.deferred(); }
  std::size_t told() const { return told_; }
  std::size_t untold() const { return untold_; }

 private:
  struct Copy {
    ThreadKey thread;
    Stamp stamp = 0;
    AsyncGroup group = 0;
    bool bulk = false;
  };
  std::array<Causality*, 2> both() { return {&later_, &at_once_}; }
  void begin(std::uint32_t number) {
    for (Causality* of : both())
      of->launch_begin(operations_of_[number], {blocks, 1, 1}, {warps * 32, 1, 1}, {1, 1, 1});
    ++operations_begun_;
  }
  // Of a flag in global memory, or in the block's own.
  void strong(ThreadKey thread) {
    StrongAccess access;
    access.thread = thread;
    access.location = {below(3) ? 0 : thread.block_bits() + 1, 4096 + 4 * below(2), 0};
    access.bytes = 4;
    const std::uint32_t kind = below(3);
    access.reads = kind != 0, access.writes = kind != 1;
    access.ordering = below(3) == 0 ? Ordering::relaxed
                      : kind == 0   ? Ordering::release
                      : kind == 1   ? Ordering::acquire
                                    : Ordering::acq_rel;
    access.scope = below(3) ? Scope::gpu : Scope::cta;
    std::uint64_t& value = values_[access.location.address + (access.location.block << 20)];
    access.value_read = value;
    if (access.writes) access.value_written = value = now_;
    const Stamp continues = later_.strong_access(access, now_);
    EXPECT_EQ(at_once_.strong_access(access, now_), continues);
  }
  const Copy* any_copy() { return copies_.empty() ? nullptr : &copies_[below(std::uint32_t(copies_.size()))]; }
  std::uint32_t below(std::uint32_t limit) { return std::uint32_t(random_() % limit); }
  bool below_same() const { return now_ % 3 != 0; }
  ThreadKey any() {
    return {operations_of_[below(launches)], below(blocks), below(warps) * 32 + (below(2) ? below(3) : below(32))};
  }

  std::mt19937 random_;
  OperationClocks operations_;
  Causality later_{operations_}, at_once_{operations_};
  std::vector<OperationIndex> operations_of_;
  std::uint32_t current_ = 0, operations_begun_ = 0;
  Stamp now_ = 0;
  std::uint32_t named_ = 0;
  bool unused_ = false;
  std::size_t told_ = 0, untold_ = 0; // answers: compared, missing
  std::vector<Copy> copies_;
  std::set<std::uint64_t> over_; // block_bits
  std::map<std::uint64_t, std::uint64_t> values_;
};

TEST(Deferred, OrdersWhatItWouldHaveAtOnce) {
  std::size_t left = 0, told = 0, untold = 0;
  for (const std::uint64_t seed : test::seeds(1, 600)) {
    if (::testing::Test::HasFailure()) break;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Deferring twins{unsigned(seed)};
    const unsigned rarely = 1 + seed % 40; // who asks seldom finds much left
    for (unsigned step = 0; step < 200; ++step) {
      twins.step();
      if (step % rarely == 0) twins.compare();
      if (step % 70 == 0)
        for (unsigned question = 0; question < 20; ++question) twins.compare();
      left += twins.deferred();
    }
    for (unsigned question = 0; question < 300; ++question) twins.compare();
    told += twins.told(), untold += twins.untold();
  }
  EXPECT_GT(left, 100'000u);
  EXPECT_GT(told, 1'000u);
  EXPECT_LT(untold, told / 10);
}

// One launch, of which nothing is applied before somebody asks.
class AllDeferred : public ::testing::Test {
 protected:
  explicit AllDeferred(std::uint32_t blocks_of_cluster = 1) {
    causality_.leave_for_later([](std::uint32_t) { return true; });
    trace::Operation operation;
    operation.id = operation.launch = operation.stream = 1;
    operation.what = trace::Launch{};
    index_ = operations_.submitted(operation);
    causality_.launch_begin(index_, {4, 1, 1}, {64, 1, 1}, {blocks_of_cluster, 1, 1});
  }
  ThreadKey thread(std::uint32_t number, std::uint32_t block = 0) const { return {index_, block, number}; }
  Location object() const { return {thread(0).block_bits() + 1, 64, 0}; }

  OperationClocks operations_;
  Causality causality_{operations_};
  OperationIndex index_ = 0;
};

// Blocks that nobody asks about cost what they wrote down, and nothing when they are over.
TEST_F(AllDeferred, WhatNobodyAsksAboutIsNeverApplied) {
  for (Stamp now = 1; now <= 100; ++now) causality_.block_barrier(index_, 0, now);
  EXPECT_EQ(causality_.deferred(), 100u);
  // What lies before the last barrier, what another block did: nothing has to be known for that.
  EXPECT_TRUE(causality_.ordered(thread(1), 100, 0, thread(40)));
  EXPECT_FALSE(causality_.ordered(thread(1, 1), 1, 0, thread(40)));
  EXPECT_EQ(causality_.last_barrier(thread(3)), 100u);
  EXPECT_EQ(causality_.deferred(), 100u);
  EXPECT_FALSE(causality_.ordered(thread(1), 101, 0, thread(40)));
  EXPECT_EQ(causality_.deferred(), 0u);
  causality_.block_barrier(index_, 0, 102);
  EXPECT_EQ(causality_.deferred(), 1u);
  causality_.thread_exit(index_, 0, 0, ~0u);
  EXPECT_EQ(causality_.thread_exit(index_, 0, 1, ~0u), std::vector<std::uint32_t>{0});
  EXPECT_EQ(causality_.deferred(), 0u);
}

// A relaxed test of a phase begins an acquire pattern that a fence ends.
TEST_F(AllDeferred, AFenceAppliesWhatItEnds) {
  causality_.mbarrier_arrive(thread(32), ~0u, object(), 0, Ordering::release, Scope::cta, 1);
  causality_.mbarrier_test(thread(0), object(), 0, Ordering::relaxed, Scope::cta);
  EXPECT_EQ(causality_.deferred(), 2u);
  causality_.fence(thread(0), Ordering::acq_rel, Scope::cta, 2);
  EXPECT_TRUE(causality_.ordered(thread(37), 1, 0, thread(0)));
  EXPECT_FALSE(causality_.ordered(thread(37), 1, 0, thread(1)));
}

TEST_F(AllDeferred, WhatACopysThreadHadToldIsKnown) {
  causality_.mbarrier_arrive(thread(0), object(), 0, Ordering::release, Scope::cta, 1);
  const Location at = object();
  const auto groups = causality_.bulk_issue(thread(0), &at);
  EXPECT_EQ(causality_.deferred(), 2u);
  EXPECT_EQ(causality_.told(groups.write), 1u);
  EXPECT_EQ(causality_.deferred(), 0u);
  EXPECT_EQ(causality_.told(groups.read), 1u);
}

// Who acquires what another block did is asked about it.
TEST_F(AllDeferred, OpenBlocksKnowOthers) {
  StrongAccess flag;
  flag.location = {0, 4096, 0};
  flag.bytes = 4;
  flag.thread = thread(0, 1);
  flag.writes = true;
  flag.value_written = 1;
  flag.ordering = Ordering::release;
  causality_.strong_access(flag, 1);
  causality_.block_barrier(index_, 0, 2);
  std::swap(flag.reads, flag.writes);
  flag.value_read = 1;
  flag.thread = thread(0);
  flag.ordering = Ordering::acquire;
  causality_.strong_access(flag, 3);
  EXPECT_FALSE(causality_.ordered(thread(0, 1), 1, 0, thread(40)));
  causality_.block_barrier(index_, 0, 4);
  EXPECT_EQ(causality_.deferred(), 1u);
  EXPECT_TRUE(causality_.ordered(thread(0, 1), 1, 0, thread(40)));
  EXPECT_FALSE(causality_.ordered(thread(0, 2), 1, 0, thread(40)));
}

// However much nobody asks about, no more than so many events are kept.
TEST_F(AllDeferred, TakesNoMoreThanItMay) {
  std::size_t most = 0;
  for (Stamp now = 1; now <= 600'000; ++now) {
    causality_.block_barrier(index_, std::uint32_t(now % 4), now);
    most = std::max(most, causality_.deferred());
  }
  EXPECT_EQ(most, 1u << 17);
}

// Of a cluster others reach the block's shared memory, and nothing is left.
class ClustersDeferred : public AllDeferred {
 protected:
  ClustersDeferred() : AllDeferred(2) {}
};
TEST_F(ClustersDeferred, LeaveNothing) {
  causality_.block_barrier(index_, 0, 1);
  EXPECT_EQ(causality_.deferred(), 0u);
}

} // namespace
} // namespace deadheat::order
