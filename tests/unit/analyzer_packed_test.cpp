// Records with a value a lane come out of a batch as they went in, in the lanes that take part; and packed ones are
// small. Whose a lane's page is, is said of many lanes as of each.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "analyzer/detect/packed.h"
#include "analyzer/detect/partition.h"
#include "deadheat/lanes.h"
#include "tests/unit/seeds.h"
#include "tests/unit/trace_generate.h"

namespace deadheat::test {
namespace {

// Forgets what lanes outside of the mask have.
struct OfMask {
  template <typename... Number>
  void operator()(Number&...) {}
  void site(std::uint32_t&) {}
  void mask(std::uint32_t&) {}
  template <typename Value>
  void column(std::array<Value, 32>& values, std::uint32_t mask) {
    for (unsigned lane = 0; lane < 32; ++lane)
      if (!(mask >> lane & 1)) values[lane] = 0;
  }
};

template <typename T>
std::string text(T record) {
  OfMask of_mask;
  fields(of_mask, record);
  trace::Flat flat;
  flat.item(record);
  return flat.out.str();
}

template <typename T>
void come_out_as_they_went_in() {
  for (const std::uint64_t seed : seeds(1, 3000)) {
    trace::Random random(seed);
    std::vector<T> records(1 + random.below(3));
    std::vector<std::uint64_t> packed(random.below(2)), places;
    for (T& record : records) {
      record = random.record<T>();
      record.module = std::uint32_t(random.below(100));
      places.push_back(packed.size());
      detect::pack(record, packed);
    }
    T again = random.record<T>(); // what was there before does not matter
    for (std::size_t i = 0; i < records.size(); ++i) {
      detect::unpack(&packed[places[i]], again);
      ASSERT_EQ(text(again), text(records[i])) << "seed " << seed << ", record " << i;
    }
  }
}

TEST(Packed, RecordsComeOutAsTheyWentIn) {
  come_out_as_they_went_in<trace::AsyncCopy>();
  come_out_as_they_went_in<trace::BulkCopy>();
  come_out_as_they_went_in<trace::Mbarrier>();
}

TEST(Packed, LanesThatDoTheSameTakeNoMoreThanOne) {
  trace::AsyncCopy copy;
  copy.mask = ~0u;
  copy.bytes = 16;
  for (unsigned lane = 0; lane < 32; ++lane) {
    copy.source[lane] = 0xA000'0000'0000 + 16 * lane;
    copy.destination[lane] = 4096 - 16 * lane;
    copy.source_bytes[lane] = 16;
  }
  std::vector<std::uint64_t> packed;
  detect::pack(copy, packed);
  EXPECT_LE(packed.size() * 8, 96u); // of 832
  copy.source[31] += 16;
  detect::pack(copy, packed);
  EXPECT_GT(packed.size() * 8, 96u + 256);
}

TEST(Packed, TellsHowLanesLie) {
  using detect::how_lanes_lie, detect::Lanes;
  std::array<std::uint32_t, 32> values;
  values.fill(7);
  EXPECT_EQ(how_lanes_lie(values, ~0u), Lanes::alike);
  values[9] = 8;
  EXPECT_EQ(how_lanes_lie(values, ~0u), Lanes::anyhow);
  EXPECT_EQ(how_lanes_lie(values, ~(1u << 9)), Lanes::alike);
  EXPECT_EQ(how_lanes_lie(values, 0b11u << 8), Lanes::side_by_side);
  EXPECT_EQ(how_lanes_lie(values, 0b111u << 8), Lanes::anyhow);
  EXPECT_EQ(how_lanes_lie(values, 0u), Lanes::alike);
  for (unsigned lane = 0; lane < 32; ++lane) values[lane] = 100 - 3 * lane;
  EXPECT_EQ(how_lanes_lie(values, ~0u), Lanes::side_by_side);
  EXPECT_EQ(how_lanes_lie(values, 0xF00000F0u), Lanes::side_by_side);
  EXPECT_EQ(how_lanes_lie(values, 1u << 31), Lanes::alike);
}

TEST(Partitions, OfManyAddressesAreThoseOfEach) {
  trace::Random random(1);
  for (unsigned i = 0; i < 20000; ++i) {
    std::array<std::uint64_t, 32> addresses;
    const std::uint64_t bits = 30 + random.below(35); // of the largest
    for (std::uint64_t& address : addresses) address = random.number(64) >> (64 - bits);
    for (detect::FindLaneParts* const find : detect::lane_parts_versions()) {
      const detect::LaneParts parts = find(addresses.data());
      bool limited = true;
      for (unsigned lane = 0; lane < 32; ++lane) {
        const std::uint64_t page = addresses[lane] / detect::page_bytes;
        ASSERT_EQ(parts.part[lane], detect::partition_of(0, page)) << std::hex << addresses[lane];
        limited = limited && addresses[lane] < detect::address_limit;
      }
      ASSERT_EQ(parts.limited, limited);
    }
  }
}

TEST(Partitions, LanesOfAMaskComeOneBehindTheOther) {
  trace::Random random(2);
  for (unsigned i = 0; i < 20000; ++i) {
    std::array<std::uint64_t, 32> addresses;
    for (std::uint64_t& address : addresses) address = random.number(64);
    const std::uint32_t mask = random.below(8) ? std::uint32_t(random.number(32)) : ~0u;
    std::vector<std::uint64_t> expected;
    each_lane(mask, [&](unsigned lane) { expected.push_back(addresses[lane]); });
    std::vector<detect::PackLanes*> versions = detect::pack_versions();
    versions.push_back(detect::pack_lanes);
    for (detect::PackLanes* const pack : versions) {
      std::array<std::uint64_t, 33> packed;
      packed[32] = 7;
      const std::uint32_t count = pack(addresses.data(), mask, packed.data());
      ASSERT_EQ(std::vector(packed.begin(), packed.begin() + count), expected) << std::hex << mask;
      ASSERT_EQ(packed[32], 7u);
    }
  }
}

} // namespace
} // namespace deadheat::test
