// What the host wrote into page-locked memory, told from what operations may be writing there.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "tracer/cupti/host_memory.h"

namespace deadheat::cupti {
namespace {

struct HostMemoryTest : testing::Test {
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(5 * HostMemory::page_bytes);
  HostMemory memory;
  std::uint64_t left = ~std::uint64_t(0);
  using Stretch = std::pair<std::uint64_t, std::vector<std::uint8_t>>;  // offset
  std::vector<Stretch> told;

  std::uint64_t at(std::uint64_t offset) const { return reinterpret_cast<std::uint64_t>(bytes.data()) + offset; }
  HostMemory::Room room() {
    return [this](std::uint64_t wanted) {
      if (wanted > left) return false;
      left -= wanted;
      return true;
    };
  }
  bool reads(std::uint64_t offset, std::uint64_t count) {
    told.clear();
    return memory.device_reads(at(offset), count, room(),
                               [&](std::uint64_t address, const std::uint8_t* data, std::uint64_t many) {
                                 told.push_back({address - at(0), {data, data + many}});
                                 return true;
                               });
  }
  void writes(std::uint64_t offset, std::uint64_t count, std::uint32_t operation) {
    EXPECT_TRUE(memory.device_writes({at(offset), count, 1, operation, nullptr}, room()));
  }
  void ended(std::uint32_t operation) {
    memory.completed([&](const HostMemory::Writer& writer) { return writer.operation == operation; });
  }
  static Stretch stretch(std::uint64_t offset, std::vector<std::uint8_t> data) { return {offset, std::move(data)}; }
};

TEST_F(HostMemoryTest, WhatWasNotSeenCountsAsWrittenAndWhatHasNotChangedDoesNot) {
  std::iota(bytes.begin(), bytes.end(), 0);
  EXPECT_TRUE(reads(100, 3 * HostMemory::page_bytes));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0], stretch(100, {bytes.begin() + 100, bytes.begin() + 100 + 3 * HostMemory::page_bytes}));
  EXPECT_TRUE(reads(100, 3 * HostMemory::page_bytes));
  EXPECT_TRUE(told.empty());
  EXPECT_TRUE(reads(99, 2));
  EXPECT_EQ(told, std::vector<Stretch>{stretch(99, {99})});
}

TEST_F(HostMemoryTest, ChangesAreToldOnce) {
  EXPECT_TRUE(reads(0, bytes.size()));
  bytes[10] = 1;
  bytes[20] = 2;
  bytes[4000] = 3;
  EXPECT_TRUE(reads(0, bytes.size()));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0], stretch(10, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}));
  EXPECT_EQ(told[1], stretch(4000, {3}));
  EXPECT_TRUE(reads(0, bytes.size()));
  EXPECT_TRUE(told.empty());
}

TEST_F(HostMemoryTest, WhatAnOperationMayBeWritingIsItsOwnUntilItHasEnded) {
  EXPECT_TRUE(reads(0, 100));
  writes(10, 20, 5);
  std::fill(bytes.begin() + 8, bytes.begin() + 40, 9);
  EXPECT_TRUE(reads(0, 100));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0], stretch(8, {9, 9}));
  EXPECT_EQ(told[1], stretch(30, std::vector<std::uint8_t>(10, 9)));
  ended(5);
  EXPECT_TRUE(reads(0, 100));
  EXPECT_TRUE(told.empty());
  bytes[15] = 1;
  EXPECT_TRUE(reads(0, 100));
  EXPECT_EQ(told, std::vector<Stretch>{stretch(15, {1})});
}

TEST_F(HostMemoryTest, OneOfTwoWritersIsStillAtIt) {
  EXPECT_TRUE(reads(0, 100));
  writes(0, 20, 5);
  writes(10, 20, 6);
  ended(5);
  bytes[5] = bytes[15] = bytes[25] = 1;
  EXPECT_TRUE(reads(0, 100));
  EXPECT_EQ(told, std::vector<Stretch>{stretch(5, {1})});
  ended(6);
  EXPECT_FALSE(memory.anybody_writes());
  bytes[15] = 2;
  EXPECT_TRUE(reads(0, 100));
  EXPECT_EQ(told, std::vector<Stretch>{stretch(15, {2})});
}

TEST_F(HostMemoryTest, ALaunchGetsItsNumberWhenItIsSubmitted) {
  memory.device_writes({at(0), 8, 0, HostMemory::not_submitted, nullptr}, room());
  ended(7);
  EXPECT_TRUE(memory.anybody_writes());
  memory.submitted({at(0), 8, 1, 7, nullptr});
  ended(7);
  EXPECT_FALSE(memory.anybody_writes());
}

TEST_F(HostMemoryTest, WhereALaunchFailsTheHostWritesAgain) {
  EXPECT_TRUE(reads(0, 16));
  memory.device_writes({at(0), 8, 0, HostMemory::not_submitted, this}, room());
  memory.withdraw(at(0), nullptr); // another stream's
  EXPECT_TRUE(memory.anybody_writes());
  memory.withdraw(at(0), this);
  EXPECT_FALSE(memory.anybody_writes());
  bytes[3] = 1;
  EXPECT_TRUE(reads(0, 16));
  EXPECT_EQ(told, std::vector<Stretch>{stretch(3, {1})});
  memory.withdraw(at(0), this); // it is gone already
}

TEST_F(HostMemoryTest, MemoryThatIsGoneIsForgotten) {
  EXPECT_TRUE(reads(0, 16));
  writes(4, 4, 5);
  memory.forget(at(0), 8);
  EXPECT_FALSE(memory.anybody_writes());
  EXPECT_TRUE(reads(0, 16));
  EXPECT_EQ(told, std::vector<Stretch>{stretch(0, std::vector<std::uint8_t>(8))});
}

TEST_F(HostMemoryTest, WhereThereIsNoRoomItSaysSo) {
  left = 2 * HostMemory::cost;
  EXPECT_FALSE(reads(0, bytes.size()));
  EXPECT_FALSE(memory.device_reads(at(0), 16, room(), [](auto, auto, auto) { return false; }) &&
               memory.device_writes({at(0), bytes.size(), 1, 1, nullptr}, room()));
  memory.completed([](const HostMemory::Writer&) { return true; });
  EXPECT_FALSE(memory.anybody_writes());
  memory.device_wrote(at(0), bytes.size());
  memory.forget(at(0), bytes.size());
  EXPECT_TRUE(memory.device_reads(at(0), 1, room(), [](auto, auto, auto) { return true; }));
}

}  // namespace
}  // namespace deadheat::cupti
