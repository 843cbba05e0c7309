// What the host finds where several operations wrote its memory (replay/device/deliveries.h).
#include "replay/device/deliveries.h"

#include <gtest/gtest.h>

#include <map>

namespace deadheat::device_test {

using device::Deliveries;
using Bytes = std::vector<std::uint8_t>;
using Ids = std::vector<std::uint32_t>;

struct DeliveriesTest : testing::Test {
  static constexpr std::uint64_t place = 0x10'0000 - 2; // over the edge of a page
  static trace::MemoryRange at(std::uint64_t offset, std::uint64_t bytes) { return {place + offset, bytes, bytes}; }

  Deliveries::Found note() {
    return [this](std::uint32_t operation, std::uint64_t source, const Bytes& bytes) {
      EXPECT_TRUE(found.emplace(operation, bytes).second) << "found twice";
      EXPECT_EQ(source, operation * 100);
    };
  }
  void submit(std::uint32_t operation, const Ids& after = {}) { deliveries.submitted(operation, after); }
  void bring(std::uint32_t operation, Bytes bytes, std::uint64_t offset = 0) {
    const trace::MemoryRange range = at(offset, bytes.size());
    deliveries.brought(operation, operation * 100, range, std::move(bytes));
  }
  void write(std::uint32_t operation, const Bytes& bytes, std::uint64_t offset = 0) {
    deliveries.wrote(operation, at(offset, bytes.size()), [&] { return bytes; });
  }

  std::map<std::uint32_t, Bytes> found;
  Deliveries deliveries{note()};
};

TEST_F(DeliveriesTest, NothingIsFoundBeforeTheHostHasWaited) {
  submit(1);
  bring(1, {1, 2, 3});
  EXPECT_TRUE(found.empty());
  deliveries.waited_for({7}); // of something else
  EXPECT_TRUE(found.empty());
  deliveries.waited_for({1});
  EXPECT_EQ(found[1], (Bytes{1, 2, 3}));
}

TEST_F(DeliveriesTest, WhatCameLastIsFoundForBoth) {
  submit(1);
  submit(2);
  bring(2, {7, 7, 7});
  bring(1, {1, 2}, 1);
  deliveries.waited_for({1, 2});
  EXPECT_EQ(found[1], (Bytes{1, 2}));
  EXPECT_EQ(found[2], (Bytes{7, 1, 2}));
}

TEST_F(DeliveriesTest, AWaitIsForWhatComesBeforeToo) {
  submit(1);
  submit(2, {1});
  submit(3, {2});
  bring(1, {1});
  bring(2, {2});
  deliveries.waited_for({3});
  EXPECT_EQ(found[1], (Bytes{2}));
  EXPECT_EQ(found[2], (Bytes{2}));
}

// The host may look before it, whenever it happens to be performed.
TEST_F(DeliveriesTest, WhatTheHostDidNotWaitForIsNotThereYet) {
  submit(1);
  submit(2, {1});
  bring(1, {1, 1});
  bring(2, {2, 2});
  deliveries.waited_for({1});
  EXPECT_EQ(found[1], (Bytes{1, 1}));
  deliveries.waited_for({2});
  EXPECT_EQ(found[2], (Bytes{2, 2}));
}

TEST_F(DeliveriesTest, WhatLiesOnTopIsKeptUntilAllBelowHaveBeenLookedAt) {
  submit(1);
  submit(2);
  bring(2, {2, 2});
  bring(1, {1, 1});
  deliveries.waited_for({1});
  EXPECT_EQ(found[1], (Bytes{1, 1}));
  deliveries.waited_for({2});
  EXPECT_EQ(found[2], (Bytes{1, 1})) << "the first had come behind it";
}

TEST_F(DeliveriesTest, SetsAndFunctionsCoverWhatWasBrought) {
  submit(1);
  deliveries.submitted(2, {1});
  write(2, {9, 9, 9, 9}); // meets nothing: it does not matter to what comes later
  bring(1, {1, 2, 3});
  write(2, {8}, 1);
  deliveries.begun(2); // a host function knows what comes before it
  EXPECT_EQ(found[1], (Bytes{1, 2, 3}));
}

TEST_F(DeliveriesTest, AWriteOfOneThatWasWaitedForCovers) {
  submit(1);
  deliveries.submitted(2, {1});
  bring(1, {1, 2, 3});
  write(2, {8}, 1);
  deliveries.waited_for({2});
  EXPECT_EQ(found[1], (Bytes{1, 8, 3}));
}

TEST_F(DeliveriesTest, WhatAKernelWroteIsFoundByComparison) {
  Bytes memory{1, 2, 3, 4};
  const trace::MemoryRange range{std::uint64_t(memory.data()), 4, 4};
  submit(1);
  deliveries.submitted(2, {1});
  deliveries.brought(1, 100, range, memory);
  memory[2] = 77;
  deliveries.may_have_written(2, [](std::uint64_t) { return false; });
  deliveries.may_have_written(2, [](std::uint64_t) { return true; });
  deliveries.may_have_written(3, [](std::uint64_t) { return true; }); // changed nothing more
  deliveries.waited_for({2});
  EXPECT_EQ(found[1], (Bytes{1, 2, 77, 4}));
}

TEST_F(DeliveriesTest, WhatKernelsWroteIsNotLookedForInTooMuch) {
  Deliveries few(note(), {.operations = 100, .bytes = 100, .compared = 3});
  Bytes memory{1, 2, 3, 4};
  for (std::uint32_t id : {1u, 2u}) few.submitted(id, {});
  few.brought(1, 100, {std::uint64_t(memory.data()), 4, 4}, memory);
  memory[2] = 77;
  few.may_have_written(2, [](std::uint64_t) { return true; });
  few.waited_for({1, 2});
  EXPECT_EQ(found[1], (Bytes{1, 2, 3, 4}));
}

// A hang ends the waiting, and the device may go on behind it.
TEST_F(DeliveriesTest, WhatComesBehindTheEndIsFoundAtOnce) {
  submit(1);
  deliveries.end();
  bring(1, {5});
  EXPECT_EQ(found[1], (Bytes{5}));
}

TEST_F(DeliveriesTest, RowsMeetWhereTheyDo) {
  submit(1);
  submit(2);
  deliveries.brought(1, 100, {place, 4, 2, 3}, {1, 1, 1, 1, 1, 1}); // columns 0 and 1 of three rows
  deliveries.brought(2, 200, {place + 1, 4, 2, 2}, {2, 2, 2, 2});   // columns 1 and 2 of two
  deliveries.waited_for({1, 2});
  EXPECT_EQ(found[1], (Bytes{1, 2, 1, 2, 1, 1}));
  EXPECT_EQ(found[2], (Bytes{2, 2, 2, 2}));
}

TEST_F(DeliveriesTest, PlacesOfWindowsLieNowhere) {
  submit(1);
  submit(2);
  deliveries.brought(1, 100, {0, 2, 2}, {1, 1});
  deliveries.brought(2, 200, {0, 2, 2}, {2, 2});
  EXPECT_EQ(found[1], (Bytes{1, 1}));
  EXPECT_EQ(found[2], (Bytes{2, 2}));
}

TEST_F(DeliveriesTest, TheEndShowsWhatNobodyWaitedFor) {
  submit(1);
  submit(2);
  bring(1, {1});
  bring(2, {2});
  deliveries.end();
  EXPECT_EQ(found[1], (Bytes{2}));
  EXPECT_EQ(found[2], (Bytes{2}));
}

TEST_F(DeliveriesTest, TheOldestCountAsLookedAtWhereThereAreTooMany) {
  Deliveries few(note(), {.operations = 2, .bytes = 1 << 20});
  for (std::uint32_t id : {1u, 2u}) few.submitted(id, {});
  few.brought(1, 100, at(0, 1), {1});
  few.submitted(3, {});
  EXPECT_EQ(found[1], (Bytes{1}));
  few.submitted(4, {}); // the second was not even performed
  few.brought(2, 200, at(0, 1), {2});
  EXPECT_EQ(found[2], (Bytes{2}));
  few.brought(4, 400, at(0, 1), {4});
  few.waited_for({4});
  EXPECT_EQ(found[4], (Bytes{4}));
  EXPECT_FALSE(found.count(3)) << "it was never performed";
}

TEST_F(DeliveriesTest, TheOldestBytesCountAsLookedAtWhereThereAreTooMany) {
  Deliveries few(note(), {.operations = 100, .bytes = 5});
  for (std::uint32_t id : {1u, 2u, 3u}) few.submitted(id, {});
  few.brought(1, 100, at(0, 2), {1, 1});
  few.brought(2, 200, at(0, 2), {2, 2});
  EXPECT_TRUE(found.empty());
  few.brought(3, 300, at(0, 2), {3, 3});
  EXPECT_EQ(found[1], (Bytes{1, 1}));
  EXPECT_EQ(found.size(), 1u);
  few.waited_for({1, 2, 3});
  EXPECT_EQ(found[2], (Bytes{3, 3}));
  EXPECT_EQ(found.size(), 3u);
}

} // namespace deadheat::device_test
