// Where store histories keep writes: granules are found again among many, remember eight writes and what was before,
// and clear() forgets all of them.
#include <gtest/gtest.h>

#include <map>
#include <random>

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
    EXPECT_EQ(table.find(block, number), nullptr);
    EXPECT_EQ(table.make(block, number).count, 0);
    table.clear();
    for (const auto& [key, stamp] : made) ASSERT_EQ(table.find(key.first, key.second), nullptr);
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

} // namespace
} // namespace deadheat::order
