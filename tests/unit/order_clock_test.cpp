// Clocks against a list of all that was ever added to them.
#include "analyzer/order/clock.h"
#include "tests/unit/seeds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace deadheat::test {
namespace {

using order::Clock, order::ClockEntry, order::ClockPointer, order::Stamp, order::ThreadKey;

// Everything that was added, by block and group.
class Naive {
 public:
  void add(const ClockEntry& entry) {
    Stamp& known = stamps_[{entry.block, entry.group}];
    known = std::max(known, entry.stamp);
  }
  void join(const Naive& other) {
    for (const auto& [at, stamp] : other.stamps_) add({at.first, at.second, stamp});
  }
  Stamp at(std::uint64_t block, std::uint32_t group) const {
    const auto found = stamps_.find({block, group});
    return found == stamps_.end() ? 0 : found->second;
  }
  Stamp seen(ThreadKey thread, std::uint32_t space = 0) const {
    const std::uint64_t block = thread.block_bits();
    return std::max({at(block, space), at(block, space + order::warp_group(thread.warp())),
                     at(block, space + order::thread_group(thread.thread()))});
  }
  Stamp seen_warp(ThreadKey thread) const { // of all its threads
    Stamp least = ~Stamp(0);
    for (std::uint32_t lane = 0; lane < 32; ++lane)
      least = std::min(least, seen(ThreadKey(thread.operation(), thread.block(), thread.warp() * 32 + lane)));
    return least;
  }
  bool knows(std::uint64_t block) const {
    const auto found = stamps_.lower_bound({block, 0});
    return found != stamps_.end() && found->first.first == block;
  }
  std::uint64_t blocks_seen(std::uint32_t operation, Stamp stamp, std::uint32_t except) const {
    return std::uint64_t(std::count_if(stamps_.begin(), stamps_.end(), [&](const auto& at) {
      const auto& [block, group] = at.first;
      return order::operation_of_block(block) == operation && group == order::whole_block && at.second >= stamp &&
             (block & ThreadKey::last_block) != except;
    }));
  }

 private:
  std::map<std::pair<std::uint64_t, std::uint32_t>, Stamp> stamps_;
};

class Clocks {
 public:
  explicit Clocks(unsigned seed) : random_(seed) {}

  void step() {
    const std::size_t into = below(pool), from = below(pool);
    if (below(3) == 0) {
      clocks_[into] = Clock::join(clocks_[into], clocks_[from]);
      naive_[into].join(naive_[from]);
      return;
    }
    const std::uint64_t crowded = below(4) == 0 ? block() : 0; // many threads of one
    std::vector<ClockEntry> more(1 + below(crowded ? 200 : 4));
    for (ClockEntry& entry : more) {
      entry = crowded ? ClockEntry{crowded, order::thread_group(std::uint32_t(below(1024))), below(60)}
                      : ClockEntry{block(), group(), below(60)}; // stamp 0 says nothing
      if (entry.stamp) naive_[into].add(entry);
    }
    if (below(4) == 0) { // all threads of a warp, or nearly
      const std::uint64_t bits = block();
      const std::uint32_t space = below(2) ? 0 : order::proxied_shared, first = 32 * std::uint32_t(below(2));
      for (std::uint32_t lane = std::uint32_t(below(8)) / 7; lane < 32; ++lane) {
        more.push_back({bits, space + order::thread_group(first + lane), 1 + below(60)});
        naive_[into].add(more.back());
      }
    }
    clocks_[into] = Clock::with(clocks_[into], more);
  }

  void compare(std::size_t n) {
    const Naive& naive = naive_[n];
    if (!clocks_[n]) {
      EXPECT_FALSE(naive.knows(block()));
      return;
    }
    const Clock& clock = *clocks_[n];
    for (int round = 0; round < 20; ++round) {
      ThreadKey thread;
      thread.bits = block() << 10 | lane();
      EXPECT_EQ(clock.seen(thread), naive.seen(thread));
      EXPECT_EQ(clock.seen_proxied(thread, order::proxied_shared), naive.seen(thread, order::proxied_shared));
      EXPECT_EQ(clock.seen_async(thread), naive.at(thread.block_bits(), order::async_group(thread.thread())));
      EXPECT_EQ(clock.seen_block(thread), naive.at(thread.block_bits(), order::whole_block));
      EXPECT_EQ(clock.seen_warp(thread), naive.seen_warp(thread));
      EXPECT_EQ(clock.entry(thread.block_bits(), order::mbarrier_group(16)),
                naive.at(thread.block_bits(), order::mbarrier_group(16)));
      EXPECT_EQ(clock.knows(thread.block_bits()), naive.knows(thread.block_bits()));
    }
    const auto operation = std::uint32_t(1 + below(3)), except = std::uint32_t(below(40));
    const Stamp stamp = 1 + below(60);
    EXPECT_EQ(clock.blocks_seen(operation, stamp, except), naive.blocks_seen(operation, stamp, except));
  }

  // However it was made, a clock of the same content is the same tree; and a join that adds nothing to a clock gives it
  // back.
  void compare_joins(std::size_t a, std::size_t b) {
    const ClockPointer both = Clock::join(clocks_[a], clocks_[b]), again = Clock::join(clocks_[b], clocks_[a]);
    if (!both) return;
    EXPECT_EQ(*both, *again);
    EXPECT_EQ(Clock::join(both, clocks_[a]), both);
    EXPECT_EQ(Clock::join(both, clocks_[b]), both);
    EXPECT_EQ(Clock::join(both, again), both);
    EXPECT_EQ(clocks_[a] && *both == *clocks_[a], both == clocks_[a]);
  }

  void compare_meets(std::size_t a, std::size_t b) {
    const ClockPointer both = Clock::meet(clocks_[a], clocks_[b]);
    for (int round = 0; round < 20; ++round) {
      ThreadKey thread;
      thread.bits = block() << 10 | lane();
      const std::uint32_t object = order::mbarrier_group(16), proxied = order::proxied_shared;
      EXPECT_EQ(both ? both->seen(thread) : 0, std::min(naive_[a].seen(thread), naive_[b].seen(thread)));
      EXPECT_EQ(both ? both->seen_proxied(thread, proxied) : 0,
                std::min(naive_[a].seen(thread, proxied), naive_[b].seen(thread, proxied)));
      EXPECT_EQ(both ? both->entry(thread.block_bits(), object) : 0,
                std::min(naive_[a].at(thread.block_bits(), object), naive_[b].at(thread.block_bits(), object)));
    }
    if (clocks_[a]) {
      EXPECT_EQ(*Clock::meet(clocks_[a], clocks_[a]), *clocks_[a]);
    }
    EXPECT_EQ(Clock::join(clocks_[a], both), clocks_[a]);
  }

  static constexpr std::size_t pool = 5;

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::uint32_t lane() { return std::uint32_t(below(2) ? below(3) : below(1024)); }
  std::uint64_t block() { // near ones, far ones, of several operations
    const std::uint64_t number = below(2) ? below(40) : std::uint64_t(1) << below(ThreadKey::block_width);
    return ThreadKey(std::uint32_t(1 + below(3)), std::uint32_t(number), 0).block_bits();
  }
  std::uint32_t group() {
    const std::uint32_t space = below(4) ? 0 : below(2) ? order::proxied_shared : order::proxied_global;
    switch (below(6)) {
      case 0: return space + order::whole_block;
      case 1: return space + order::warp_group(std::uint32_t(below(32)));
      case 2: return order::async_group(lane());
      case 3: return order::mbarrier_group(16);
      default: return space + order::thread_group(lane());
    }
  }

  std::mt19937 random_;
  ClockPointer clocks_[pool];
  Naive naive_[pool];
};

TEST(Clock, SeesWhatWasAdded) {
  for (const std::uint64_t seed : test::seeds(1, 200)) {
    if (::testing::Test::HasFailure()) break;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Clocks clocks{unsigned(seed)};
    for (unsigned step = 0; step < 150; ++step) {
      clocks.step();
      clocks.compare(step % Clocks::pool);
      clocks.compare_joins(step % Clocks::pool, seed % Clocks::pool);
      if (step % 10 == 9) clocks.compare_meets(step % Clocks::pool, seed % Clocks::pool);
    }
  }
}

// What one has seen of many blocks all others take over at the cost of a few nodes.
TEST(Clock, SharesWhatItWasMadeOf) {
  constexpr std::uint32_t blocks = 100'000;
  ClockPointer clock;
  std::vector<ClockPointer> all; // a flat list each would be 10^10 entries
  for (std::uint32_t block = 0; block < blocks; ++block) {
    clock = Clock::with(clock, {{ThreadKey(1, block, 0).block_bits(), order::whole_block, block + 1}});
    all.push_back(clock);
  }
  EXPECT_EQ(clock->blocks_seen(1, 1, blocks), blocks);
  EXPECT_EQ(all[999]->blocks_seen(1, 1, blocks), 1000u);
  EXPECT_EQ(Clock::join(all[999], clock), clock);
}

} // namespace
} // namespace deadheat::test
