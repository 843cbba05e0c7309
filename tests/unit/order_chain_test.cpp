// What is acquired of chains of releases: of all so far, and of the first of them.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <vector>

#include "analyzer/order/chain.h"

namespace deadheat::test {
namespace {

using namespace deadheat::order;

bool same(const ClockPointer& a, const ClockPointer& b) { return a && b ? *a == *b : !a && !b; }

Released released(std::uint64_t bits, Stamp now) {
  const ThreadKey thread(1, std::uint32_t(bits % 40), std::uint32_t(bits / 40 % 96));
  const std::uint64_t rest = bits / 40 / 96;
  ClockPointer known;
  if (rest % 3) known = Clock::with(nullptr, {{rest / 3 % 50, thread_group(std::uint32_t(rest % 7)), 1 + now / 2}});
  return {known, thread, rest % 5 ? 0 : now / 3, rest % 2 ? now / 4 : 0, rest % 11 ? now : 0};
}

// The same without a thought of the cost.
ClockPointer naive(const Released& of) {
  if (!of.now) return of.known;
  const std::uint64_t block = of.thread.block_bits();
  return Clock::with(of.known, {{block, whole_block, of.block},
                                {block, warp_group(of.thread.warp()), of.warp},
                                {block, thread_group(of.thread.thread()), of.now}});
}

RC_GTEST_PROP(Chains, WhatTheFirstOfThemReleased, (const std::vector<std::uint64_t>& numbers)) {
  std::vector<Contribution> chain;
  Selection selection; // of every contribution but each third
  std::size_t looked_at = 0;
  for (const std::uint64_t number : numbers) {
    Contribution more;
    more.released = make_counted<const Released>(released(number, chain.size() + 1));
    more.with_earlier = number % 13 == 0;
    chain.push_back(more);
    if (number % 4 == 0) continue; // who asks, asks about some now and then
    const std::size_t count = number / 8 % (chain.size() + 1);
    for (; looked_at < count; ++looked_at)
      if (looked_at % 3) selection.add(chain[looked_at], looked_at);
    ClockPointer expected;
    std::size_t whole = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (i % 3 == 0) continue;
      expected = Clock::join(expected, naive(*chain[i].released));
      if (chain[i].with_earlier) whole = i;
    }
    RC_ASSERT(same(selection.released(chain, count), expected));
    RC_ASSERT(selection.whole(count) == whole);
    if (number % 64 != 1 || chain.empty()) continue;
    const std::size_t first = number / 64 % chain.size(); // they change from there on, to what contains them
    const ReleasedPointer all = only_known(selection.released(chain, chain.size()));
    if (looked_at < chain.size()) continue;
    for (std::size_t i = first; i < chain.size(); ++i) chain[i].released = all;
    selection.changed(first);
  }
}

RC_GTEST_PROP(Chains, GatheredIsJoined, (const std::vector<std::uint64_t>& numbers)) {
  Gathered gathered;
  ClockPointer expected;
  Stamp now = 0;
  for (const std::uint64_t number : numbers) {
    const Released more = released(number, ++now);
    gathered.add(more);
    expected = Clock::join(expected, naive(more));
    RC_ASSERT(same(more.clock(), naive(more)));
    if (number % 3 == 0) RC_ASSERT(same(gathered.clock(), expected));
  }
  RC_ASSERT(same(gathered.clock(), expected));
}

TEST(Chains, FencesByGroup) {
  Chain chain;
  const FenceGroup first{Reach::device, 0}, second{Reach::device, 1}, block{Reach::block, 1}, all{Reach::system, 0};
  for (const FenceGroup& group : {first, second, first, all, first}) chain.add_fenced(group, nullptr);
  const auto last = [&](const FenceGroup& group, std::size_t count) -> std::size_t {
    const Chain::Fenced* of = chain.last_fenced(group, count);
    return of ? of->place : 0;
  };
  EXPECT_EQ(last(first, 5), 5u);
  EXPECT_EQ(last(first, 4), 3u);
  EXPECT_EQ(last(second, 5), 2u);
  EXPECT_EQ(last(second, 1), 0u);
  EXPECT_EQ(last(all, 5), 4u);
  EXPECT_EQ(last(block, 5), 0u);
}

TEST(Chains, FencesLongPast) { // are forgotten, a group's for itself
  Chain chain;
  const FenceGroup busy{Reach::block, 1}, quiet{Reach::block, 2};
  const ClockPointer something = Clock::with(nullptr, {{1, whole_block, 1}});
  chain.add_fenced(quiet, something);
  for (std::size_t i = 0; i < 5000; ++i) chain.add_fenced(busy, something);
  EXPECT_TRUE(chain.last_fenced(quiet, 5001)->before);
  EXPECT_TRUE(chain.last_fenced(busy, 5001)->before);
  EXPECT_FALSE(chain.last_fenced(busy, 2)->before);
}

} // namespace
} // namespace deadheat::test
