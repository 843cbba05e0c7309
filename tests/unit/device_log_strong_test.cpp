// The order of strong accesses whose tickets overlap, where values must tell it: what each read saw came before it.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <memory>
#include <utility>

#include "tests/unit/device_log_segments.h"

namespace deadheat::device_log {
namespace {

constexpr std::uint64_t flag = 0x1000;

enum Segment : std::uint32_t { store, load, add, pair_store, pair_load, vector_add, wrap, leave };

struct Access {
  std::uint32_t warp;
  std::uint64_t before, after; // tickets
  Segment what;
  std::uint32_t value; // stored, read, or read by an addition of 1; wrap: which makes 0 of 3
  std::uint64_t address = flag;
};

// One lane a block, each access a segment of its own. Places are in the order in which accesses are given.
class StrongOrder : public ::testing::Test, public Output {
 protected:
  StrongOrder() {
    make("st.release.gpu.global.u32", AccessKind::write, true);
    make("ld.acquire.gpu.global.u32", AccessKind::read, false);
    make("atom.relaxed.gpu.global.add.u32", AccessKind::atomic, true);
    make("st.release.gpu.global.v2.u32", AccessKind::write, true, 2);
    make("ld.acquire.gpu.global.v2.u32", AccessKind::read, false, 2);
    make("red.relaxed.gpu.global.add.v4.f32", AccessKind::atomic, false, 4);
    make("atom.relaxed.gpu.global.inc.u32", AccessKind::atomic, true);
    code.add_exit();
  }

  // The places that the accesses get, in the order in which they are given; whichever of several launches their warps
  // are of.
  std::vector<std::uint64_t> order(const std::vector<Access>& accesses) {
    const std::vector<std::uint64_t> found = order(accesses, 1);
    if (accesses.size() > 100) return found;
    for (const std::uint32_t launches : {2, 3}) EXPECT_EQ(ranks(order(accesses, launches)), ranks(found));
    return found;
  }
  static std::vector<std::size_t> ranks(const std::vector<std::uint64_t>& places) {
    std::vector<std::size_t> ranks;
    for (const std::uint64_t place : places)
      ranks.push_back(std::size_t(std::count_if(places.begin(), places.end(), [&](auto one) { return one < place; })));
    return ranks;
  }
  // Warps are dealt to so many launches.
  std::vector<std::uint64_t> order(const std::vector<Access>& accesses, std::uint32_t launches) {
    std::uint32_t warps = 0;
    for (const Access& access : accesses) warps = std::max(warps, access.warp + 1);
    places.clear();
    std::vector<std::unique_ptr<LaunchLog>> logs;
    std::uint64_t last_place = 0;
    for (std::uint32_t number = 0; number < launches; ++number) {
      Shape shape = code.shape((warps + launches - 1) / launches, 1);
      shape.launch = number;
      shape.places = &last_place;
      logs.push_back(std::make_unique<LaunchLog>(shape, *this));
    }
    const auto give = [&](Access access) {
      const std::uint32_t warp = std::exchange(access.warp, access.warp / launches);
      logs[warp % launches]->segment(bytes_of(access).data());
    };
    for (const Access& access : accesses) give(access);
    for (std::uint32_t w = 0; w < warps; ++w) give({w, 0, 0, leave, 0});
    if (launches > 1) {
      std::vector<LaunchLog*> all;
      for (const auto& log : logs) all.push_back(log.get());
      LaunchLog::put_in_order(all);
    }
    for (const auto& log : logs) {
      log->finish();
      EXPECT_EQ(log->damaged(), 0u);
      EXPECT_EQ(log->guessed(), 0u);
    }
    std::map<std::uint32_t, std::size_t> next; // of a warp
    std::vector<std::uint64_t> found;
    for (const Access& access : accesses)
      found.push_back(places[{access.warp % launches, access.warp / launches}].at(next[access.warp]++));
    return found;
  }

  void access(const trace::AccessView& view) override {
    EXPECT_EQ(view.mask, 1u);
    EXPECT_EQ(view.order_first[0], view.order_last[0]);
    places[{view.warp.launch, view.warp.block}].push_back(view.order_first[0]);
  }
  void record(const trace::Record&) override {}

 private:
  void make(const char* opcode, AccessKind access, bool operand, std::uint8_t elements = 1) {
    ptx::Slot slot;
    slot.kind = ptx::Slot::Kind::strong;
    slot.valued = operand || access == AccessKind::read;
    slot.short_values = elements == 1;
    slot.address = header + 32;
    slot.value_read = slot.valued && access != AccessKind::write ? slot.address + lanes8 : 0;
    slot.operand = operand ? slot.address + 2 * lanes8 : 0;
    slot.digest = access == AccessKind::write ? slot.operand + lanes8 : 0;
    Site& site = code.add(opcode, SiteKind::access, slot, 32 + 3 * lanes8 + lanes4);
    site.access = access;
    site.elements = elements;
  }
  std::vector<std::uint8_t> bytes_of(const Access& access) const {
    std::vector<std::uint8_t> bytes(code.segments[access.what].bytes, 0);
    SegmentHeader head;
    head.segment = access.what;
    head.block = access.warp;
    head.mask = 1;
    put(bytes, 0, head);
    if (access.what == leave) return bytes;
    const ptx::Slot& slot = code.slot(access.what);
    put(bytes, slot.offset, access.before);
    put(bytes, slot.offset + 8, access.after);
    put(bytes, slot.address, access.address);
    if (slot.value_read) put(bytes, slot.value_read, access.value);
    if (slot.operand)
      put(bytes, slot.operand,
          access.what == add    ? std::uint32_t(1)
          : access.what == wrap ? std::uint32_t(3)
                                : access.value);
    return bytes;
  }

  Segments code;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> places; // by launch and block
};

TEST_F(StrongOrder, WhatWasReadFirstWasStoredBefore) { // the store ends after the read, and nobody saw the beginning
  const auto at = order({{0, 1, 4, store, 101}, {1, 2, 3, load, 101}});
  EXPECT_LT(at[0], at[1]);
}

TEST_F(StrongOrder, WhatWasThereBeforeTheFirstStore) { // whichever ends first
  auto at = order({{0, 1, 4, store, 101}, {1, 2, 3, load, 99}});
  EXPECT_GT(at[0], at[1]);
  at = order({{0, 1, 3, store, 101}, {1, 2, 4, load, 99}});
  EXPECT_GT(at[0], at[1]);
  at = order({{0, 1, 3, store, 101}, {1, 2, 4, load, 99}, {2, 2, 5, load, 101}, {3, 1, 6, load, 99}});
  EXPECT_GT(at[0], at[1]);
  EXPECT_LT(at[0], at[2]);
  EXPECT_GT(at[0], at[3]);
}

TEST_F(StrongOrder, WhatIsWrittenAfterTheFirstStoreWasNotThereBeforeIt) {
  // The read of 102 overlaps with the first store; the one that it saw has not begun when that one ends.
  auto at = order({{0, 1, 3, store, 101}, {1, 2, 8, load, 102}, {2, 4, 6, store, 102}, {3, 2, 9, load, 99}});
  EXPECT_LT(at[0], at[2]);
  EXPECT_LT(at[2], at[1]);
  EXPECT_LT(at[3], at[0]);
  // By an addition.
  at = order({{0, 1, 3, store, 101}, {1, 2, 8, load, 102}, {2, 4, 6, add, 101}, {3, 2, 9, load, 99}});
  EXPECT_LT(at[0], at[2]);
  EXPECT_LT(at[2], at[1]);
  EXPECT_LT(at[3], at[0]);
}

TEST_F(StrongOrder, AdditionsBehindAStoreThatNobodySaw) { // read before the addition ends, that one before the store
  const auto at = order({{0, 1, 6, store, 100}, {1, 2, 5, add, 100}, {2, 3, 4, load, 101}});
  EXPECT_LT(at[0], at[1]);
  EXPECT_LT(at[1], at[2]);
}

TEST_F(StrongOrder, WhatAStoreReplacesWasAddedToBeforeIt) { // the additions end after it, and so does the second
  const auto at =
      order({{0, 1, 2, store, 5}, {1, 3, 8, add, 5}, {3, 4, 9, add, 6}, {2, 5, 7, store, 100}, {4, 10, 11, load, 100}});
  EXPECT_LT(at[0], at[1]);
  EXPECT_LT(at[1], at[2]);
  EXPECT_LT(at[2], at[3]);
  EXPECT_LT(at[3], at[4]);
}

TEST_F(StrongOrder, PollsThatSawTheStoreOneByOne) {
  const auto at = order({{1, 1, 2, load, 99}, {0, 3, 7, store, 101}, {2, 4, 5, load, 99}, {1, 4, 6, load, 101}});
  EXPECT_LT(at[0], at[1]);
  EXPECT_LT(at[2], at[1]);
  EXPECT_LT(at[1], at[3]);
}

TEST_F(StrongOrder, WhereOperationsGoRoundTheyBeganWithZero) { // whichever ends first
  for (std::uint64_t first = 0; first < 4; ++first) {
    std::vector<Access> accesses;
    for (std::uint32_t value = 0; value < 4; ++value)
      accesses.push_back({value, value + 1, 10 + (value - first) % 4, wrap, value});
    const auto at = order(accesses);
    EXPECT_TRUE(std::is_sorted(at.begin(), at.end())) << first;
  }
  const auto at = order({{0, 1, 8, wrap, 3}, {1, 2, 7, wrap, 1}, {2, 3, 9, wrap, 2}}); // which they do not here
  EXPECT_LT(at[1], at[2]);
  EXPECT_LT(at[2], at[0]);
}

TEST_F(StrongOrder, MoreAdditionsInFlightThanAnyBoundOnTheirChain) {
  constexpr std::uint32_t count = 20'000;
  std::vector<Access> accesses;
  for (std::uint32_t i = 0; i < count; ++i) accesses.push_back({i, i + 1, 3 * count - i, add, i});
  accesses.push_back({count, count + 1, count + 2, load, count});
  const std::clock_t begin = std::clock();
  const auto at = order(accesses);
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 5) << "time grows with the square of what is in flight";
  for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(at[i], i + 1);
  EXPECT_EQ(at[count], count + 1);
}

TEST_F(StrongOrder, BlocksThatHaveNotBegunCostTheWritesOfOthersNothing) {
  // Each reads a counter, and adds to it, one after the other. The log is put in order at its end.
  constexpr std::uint32_t count = 60'000;
  std::vector<Access> accesses;
  for (std::uint32_t i = 0; i < count; ++i) {
    accesses.push_back({i, 4 * i + 1, 4 * i + 2, load, i});
    accesses.push_back({i, 4 * i + 3, 4 * i + 4, add, i});
  }
  const std::clock_t begin = std::clock();
  const auto at = order(accesses);
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 5) << "time grows with the square of the blocks";
  for (std::uint32_t i = 1; i < 2 * count; ++i) ASSERT_LT(at[i - 1], at[i]);
}

TEST_F(StrongOrder, ReadersWaitForWhatTheySawOnly) {
  // All add to a counter and poll it, at the same time: each addition replaces what few have read.
  constexpr std::uint32_t count = 30'000;
  std::vector<Access> accesses;
  for (std::uint32_t i = 0; i < count; ++i) {
    accesses.push_back({i, i + 1, 3 * count + i, add, i});
    accesses.push_back({count + i, i + 1, 5 * count + i, load, i});
  }
  const std::clock_t begin = std::clock();
  const auto at = order(accesses);
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 5) << "time grows with the square of what is in flight";
  for (std::uint32_t i = 1; i < count; ++i) {
    ASSERT_LT(at[2 * i - 2], at[2 * i + 1]); // after what it saw
    ASSERT_LT(at[2 * i + 1], at[2 * i]);
  }
}

TEST_F(StrongOrder, WhatHasNoValuesTellsNothingOfWhatHas) { // of the same bytes; the store of 0 begins after the read
  const auto at = order({{0, 1, 2, store, 5},
                         {1, 3, 4, vector_add, 0},
                         {2, 5, 6, load, 5},
                         {1, 7, 8, vector_add, 0},
                         {2, 9, 14, load, 5},
                         {0, 10, 12, store, 0},
                         {1, 11, 13, vector_add, 0}});
  EXPECT_LT(at[0], at[2]);
  EXPECT_LT(at[1], at[3]);
  EXPECT_LT(at[4], at[5]);
}

TEST_F(StrongOrder, VectorsTellNothingOfTheirElements) {
  const auto at = order({{0, 1, 2, pair_store, 1234},
                         {1, 3, 4, load, 5},
                         {2, 5, 6, pair_load, 1234},
                         {1, 7, 8, load, 5},
                         {0, 9, 12, pair_store, 4321},
                         {2, 10, 11, pair_load, 4321}});
  EXPECT_LT(at[0], at[2]);
  EXPECT_LT(at[2], at[4]);
  EXPECT_LT(at[4], at[5]);
}

TEST_F(StrongOrder, SharedMemoryIsOfOneBlockOfOneLaunch) { // both saw zero there first
  const std::uint64_t here = shared_mark | 16;
  const auto at = order({{0, 1, 2, add, 0, here}, {1, 3, 4, add, 0, here}, {1, 5, 6, load, 1, here}}, 2);
  EXPECT_LT(at[0], at[1]);
  EXPECT_LT(at[1], at[2]);
}

TEST_F(StrongOrder, ATicketThatCannotBeHoldsNothingUp) { // of a log that was damaged
  const auto at = order({{0, 1, ~std::uint64_t(0), store, 101}, {0, 3, 4, load, 101}, {1, 2, 3, load, 101}});
  EXPECT_LT(at[0], at[1]);
}

} // namespace
} // namespace deadheat::device_log
