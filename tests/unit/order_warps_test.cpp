// What lanes of a warp do at once orders what it orders when they do it one after another.
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <string>

#include "analyzer/order/causality.h"
#include "analyzer/order/operation_clocks.h"
#include "tests/unit/seeds.h"

namespace deadheat::order {
namespace {

constexpr std::uint32_t blocks = 2, warps = 2, objects = 2;

class Twins {
 public:
  explicit Twins(unsigned seed) : random_(seed) {
    trace::Launch launch;
    launch.grid = {blocks, 1, 1};
    launch.block = {warps * 32, 1, 1};
    launch.cluster = {seed % 2 ? blocks : 1, 1, 1};
    trace::Operation operation;
    operation.id = operation.launch = 1;
    operation.stream = 1;
    operation.what = launch;
    operation_ = operations_.submitted(operation);
    for (Causality* of : {&at_once_, &one_by_one_}) {
      of->launch_begin(operation_, launch.grid, launch.block, launch.cluster);
      if (seed % 3 == 0) of->unused_tests();
    }
    unused_ = seed % 3 == 0;
  }

  void step() {
    const ThreadKey lane0(operation_, below(blocks), below(warps) * 32);
    const std::uint32_t lanes = some_lanes(), phase = now_ < 40 ? 0 : below(3);
    // Rarely another block's.
    const Location object{ThreadKey(operation_, below(4) ? lane0.block() : below(blocks), 0).block_bits() + 1,
                          64 + 8 * below(objects), 0};
    const Scope scope = below(2) ? Scope::cta : Scope::cluster;
    ++now_;
    switch (below(12)) {
      case 0:
      case 1:
      case 2: {
        const Ordering ordering = below(4) ? Ordering::release : Ordering::relaxed;
        at_once_.mbarrier_arrive(lane0, lanes, object, phase, ordering, scope, now_);
        each(lane0, lanes,
             [&](ThreadKey thread) { one_by_one_.mbarrier_arrive(thread, object, phase, ordering, scope, now_); });
        break;
      }
      case 3:
      case 4:
      case 5: {
        const Ordering ordering = below(4) ? Ordering::acquire : Ordering::relaxed;
        const bool unused = unused_ && below(2);
        at_once_.mbarrier_test(lane0, lanes, object, phase, ordering, scope, unused);
        each(lane0, lanes,
             [&](ThreadKey thread) { one_by_one_.mbarrier_test(thread, object, phase, ordering, scope, unused); });
        break;
      }
      case 6: {
        const bool shared = below(2), global = !shared || below(2);
        at_once_.proxy_fence(lane0, lanes, shared, global, now_);
        each(lane0, lanes, [&](ThreadKey thread) { one_by_one_.proxy_fence(thread, shared, global, now_); });
        break;
      }
      case 7:
        at_once_.mbarrier_async_arrive(lane0, lanes, object, phase, now_);
        each(lane0, lanes, [&](ThreadKey thread) { one_by_one_.mbarrier_async_arrive(thread, object, phase, now_); });
        break;
      case 8:
        for (Causality* of : {&at_once_, &one_by_one_})
          each(lane0, lanes, [&](ThreadKey thread) { of->fence(thread, Ordering::acq_rel, scope, now_); });
        break;
      case 9:
        for (Causality* of : {&at_once_, &one_by_one_})
          of->warp_barrier(operation_, lane0.block(), lane0.warp(), lanes, now_);
        break;
      case 10: { // some wait, some arrive
        const bool whole = below(2);
        for (Causality* of : {&at_once_, &one_by_one_}) {
          of->barrier_arrive(operation_, lane0.block(), 0, whole ? ~0u : lanes, 1, named_, true, now_);
          of->barrier_arrive(operation_, lane0.block(), 1, lanes, 1, named_, false, now_ + 1);
          of->barrier_complete(operation_, lane0.block(), 1, named_);
        }
        ++named_, ++now_;
        break;
      }
      case 11:
        if (below(3)) break;
        for (Causality* of : {&at_once_, &one_by_one_}) of->block_barrier(operation_, lane0.block(), now_);
    }
  }

  void compare() {
    const ThreadKey first = any(), second = any();
    const Stamp stamp = 1 + below(std::uint32_t(now_));
    const auto both = [&](const char* what, auto&& ask) {
      EXPECT_EQ(ask(at_once_), ask(one_by_one_))
          << what << ": block " << first.block() << " thread " << first.thread() << " at " << stamp << ", block "
          << second.block() << " thread " << second.thread() << " at " << now_;
    };
    both("ordered", [&](const Causality& of) { return of.ordered(first, stamp, 0, second); });
    both("read", [&](const Causality& of) { return of.ordered(first, stamp, 0, second, Restriction::none, true); });
    for (const bool shared : {false, true})
      both("proxies", [&](const Causality& of) { return of.ordered_across_proxies(first, stamp, 0, second, shared); });
    both("synchronized", [&](const Causality& of) { return of.last_sync(second); });
    // What is said of a warp holds of its lanes.
    const ThreadKey lane0(first.operation(), first.block(), first.warp() * 32);
    const bool other = second.block() != first.block() || second.warp() != first.warp();
    if (at_once_.warp_ordered_for(first, stamp, second)) {
      each(lane0, ~0u, [&](ThreadKey lane) { EXPECT_TRUE(one_by_one_.ordered(lane, stamp, 0, second)); });
    }
    for (const bool shared : {false, true}) {
      if (!at_once_.warp_ordered_across_proxies(first, stamp, second, shared)) continue;
      each(lane0, ~0u,
           [&](ThreadKey lane) { EXPECT_TRUE(one_by_one_.ordered_across_proxies(lane, stamp, 0, second, shared)); });
    }
    if (other && at_once_.alike(second, first.block_bits())) {
      const bool is = one_by_one_.ordered(first, stamp, 0, second);
      each(ThreadKey(second.operation(), second.block(), second.warp() * 32), ~0u,
           [&](ThreadKey lane) { EXPECT_EQ(one_by_one_.ordered(first, stamp, 0, lane), is); });
    }
  }

 private:
  std::uint32_t below(std::uint32_t limit) { return std::uint32_t(random_() % limit); }
  std::uint32_t some_lanes() {
    switch (below(4)) {
      case 0: return 1u << below(2); // one of few
      case 1: return 1u + below(~0u);
      default: return ~0u;
    }
  }
  ThreadKey any() { return {operation_, below(blocks), below(warps) * 32 + (below(2) ? below(3) : below(32))}; }
  template <typename Each>
  static void each(ThreadKey lane0, std::uint32_t lanes, Each&& each) {
    for (; lanes; lanes &= lanes - 1)
      each(ThreadKey(lane0.operation(), lane0.block(), lane0.thread() + std::uint32_t(std::countr_zero(lanes))));
  }

  std::mt19937 random_;
  OperationClocks operations_;
  Causality at_once_{operations_}, one_by_one_{operations_};
  OperationIndex operation_ = 0;
  Stamp now_ = 0;
  std::uint32_t named_ = 0;
  bool unused_ = false;
};

TEST(Warps, DoAtOnceWhatLanesDoOneByOne) {
  for (const std::uint64_t seed : test::seeds(1, 400)) {
    if (::testing::Test::HasFailure()) break;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Twins twins{unsigned(seed)};
    for (unsigned step = 0; step < 60; ++step) {
      twins.step();
      for (unsigned question = 0; question < 20; ++question) twins.compare();
    }
  }
}

} // namespace
} // namespace deadheat::order
