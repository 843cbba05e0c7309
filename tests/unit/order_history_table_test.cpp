// Where store histories keep writes: granules are found again among many, remember eight writes and what was before,
// and clear() forgets all of them.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "analyzer/order/histories.h"
#include "analyzer/order/history_table.h"

namespace deadheat::order {
namespace {

void write(HistoryTable& table, Granule& granule, Stamp stamp, std::uint8_t mask, std::uint64_t value) {
  Version& version = table.push(granule);
  version.stamp = stamp;
  version.mask = mask;
  version.value = value;
}

TEST(HistoryTable, MasksBecomeWide) {
  for (unsigned mask = 0; mask < 256; ++mask) {
    std::uint64_t expected = 0;
    for (unsigned byte = 0; byte < 8; ++byte) expected |= std::uint64_t(mask >> byte & 1 ? 0xff : 0) << 8 * byte;
    EXPECT_EQ(HistoryTable::wide(std::uint8_t(mask)), expected);
  }
}

TEST(HistoryTable, GranulesAreFoundAgainAndClearForgetsThem) {
  std::mt19937_64 random(3);
  HistoryTable table;
  for (int round = 0; round < 3; ++round) {
    std::map<std::pair<std::uint64_t, std::uint64_t>, Stamp> made;
    for (Stamp n = 1; n <= 20000; ++n) {
      const std::pair<std::uint64_t, std::uint64_t> key{random() % 50, random() % (n % 2 ? 1000 : 1u << 30)};
      if (made.emplace(key, n).second) write(table, table.make(key.first, key.second), n, 0xff, n);
    }
    for (const auto& [key, stamp] : made) {
      Granule* granule = table.find(key.first, key.second);
      ASSERT_TRUE(granule);
      EXPECT_EQ(table.newest(*granule, 0).stamp, stamp);
      EXPECT_EQ(&table.make(key.first, key.second), granule);
    }
    const auto& [block, number] = made.begin()->first;
    table.forget(block, number);
    EXPECT_EQ(table.find(block, number)->count, 0);
    EXPECT_EQ(table.make(block, number).count, 0);
    table.clear();
    for (const auto& [key, stamp] : made) ASSERT_EQ(table.find(key.first, key.second), nullptr);
  }
}

TEST(HistoryTable, WhatIsForgottenIsUsedAgain) {
  HistoryTable table;
  Granule& granule = table.make(0, 5);
  Version* third = nullptr;
  for (int round = 0; round < 3; ++round) {
    for (Stamp n = 1; n <= 10; ++n) write(table, granule, n, 0xff, n);
    granule.base_mask = granule.settled = 0xff;
    granule.returned = granule.strong = granule.asynchronous = true;
    table.forget(0, 5);
    EXPECT_EQ(&table.make(0, 5), &granule);
    EXPECT_EQ(granule.count + granule.base_mask + granule.settled, 0);
    EXPECT_FALSE(granule.returned || granule.strong || granule.asynchronous);
    if (const HistoryTable::Stamps* forgotten = table.forgotten(granule)) {
      EXPECT_EQ(*forgotten, HistoryTable::Stamps{});
    }
    for (Stamp n = 1; n <= 3; ++n) write(table, granule, n, 0xff, n);
    for (Stamp back = 0; back < 3; ++back) EXPECT_EQ(table.newest(granule, unsigned(back)).stamp, 3 - back);
    if (round) {
      EXPECT_EQ(&table.newest(granule, 0), third);
    }
    third = &table.newest(granule, 0);
  }
}

TEST(HistoryTable, EightWritesAreRememberedAndWhatWasBefore) {
  HistoryTable table;
  Granule& granule = table.make(0, 5);
  granule.base = 0x8877665544332211;
  for (Stamp n = 1; n <= 10; ++n) {
    write(table, granule, n, n == 1 ? 0x0f : 0xf0, n * 0x0101010101010101);
    for (Stamp back = 0; back < granule.count; ++back) EXPECT_EQ(table.newest(granule, unsigned(back)).stamp, n - back);
  }
  EXPECT_EQ(granule.count, HistoryTable::longest);
  EXPECT_EQ(granule.base, 0x0202020201010101u);
  ASSERT_TRUE(table.forgotten(granule));
  EXPECT_EQ(*table.forgotten(granule), (HistoryTable::Stamps{1, 1, 1, 1, 2, 2, 2, 2}));
}

TEST(HistoryTable, SettledWritesArePartOfWhatWasBefore) {
  HistoryTable table;
  for (Stamp writes : {2u, 5u}) {
    Granule& granule = table.make(0, writes);
    granule.base = 0x8877665544332211;
    for (Stamp n = 1; n <= writes; ++n) write(table, granule, n, n == 1 ? 0x03 : 0x0c, n * 0x0101010101010101);
    table.settle(granule);
    EXPECT_EQ(granule.count, 0);
    EXPECT_EQ(granule.settled, 0x0f);
    EXPECT_EQ(granule.base, 0x8877665500000101u | writes * 0x01010000);
    write(table, granule, 9, 0xff, 9);
    EXPECT_EQ(table.newest(granule, 0).stamp, 9u);
    EXPECT_EQ(granule.count, 1);
  }
}

// What is remembered of readers does not grow with a word that is written and read again and again.
class Readers : public testing::Test {
 protected:
  Readers() { launch_ = histories_.launch_begin({4, 1, 1}, {64, 1, 1}, {1, 1, 1}); }
  HistoryAccess access(std::uint32_t block, std::uint32_t thread, Scope scope) const {
    HistoryAccess access;
    access.thread = ThreadKey(launch_, block, thread);
    access.location = {shared_ ? ThreadKey(launch_, 0, 0).block_bits() + 1 : 0, 64, 4};
    access.ordering = scope == Scope::none ? Ordering::weak : Ordering::relaxed;
    access.scope = scope;
    return access;
  }
  void write(const HistoryAccess& access) {
    const std::uint32_t before = value_++;
    histories_.write(access, reinterpret_cast<const std::uint8_t*>(&before), bytes());
  }
  void read(const HistoryAccess& access) {
    histories_.choices(access, bytes());
    histories_.read(access, 0, bytes());
  }
  const std::uint8_t* bytes() const { return reinterpret_cast<const std::uint8_t*>(&value_); }

  Histories histories_;
  OperationIndex launch_ = 0;
  bool shared_ = false;
  std::uint32_t value_ = 0;
};

TEST_F(Readers, OfVersionsThatHaveNoRoomAreForgotten) {
  constexpr std::uint32_t readers = 3;
  for (int round = 0; round < 100; ++round) {
    write(access(0, 0, Scope::gpu));
    for (std::uint32_t block = 1; block <= readers; ++block) read(access(block, 0, Scope::gpu));
  }
  EXPECT_EQ(histories_.remembered_readers(), Histories::longest + readers);
}

TEST_F(Readers, OfVersionsThatABarrierSettlesAreForgotten) {
  shared_ = true;
  for (int round = 0; round < 100; ++round) {
    write(access(0, 0, Scope::none));
    read(access(0, 32, Scope::cta));
    histories_.causality().block_barrier(launch_, 0, histories_.tick());
  }
  EXPECT_EQ(histories_.remembered_readers(), 2u);
}

TEST_F(Readers, OfOverwrittenMemoryAreForgotten) {
  for (int round = 0; round < 100; ++round) {
    write(access(0, 0, Scope::gpu));
    read(access(1, 0, Scope::gpu));
    histories_.overwritten({0, 64, 4});
  }
  EXPECT_EQ(histories_.remembered_readers(), 1u);
}

} // namespace
} // namespace deadheat::order
