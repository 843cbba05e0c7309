// Accesses anywhere in a few pages, so many that nearly each unit has an entry: what looks at them ahead, many lanes at
// once, finds what looking at one after another does.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/analyzer_chunks.h"
#include "tests/unit/seeds.h"

namespace deadheat::test {
namespace {

enum Site : std::uint32_t { load, store, load_byte, store_byte, add, flag };

// Every warp reads words of two pages and adds to words of two others; bytes, where `with_bytes`, lie in a page of
// their own. Few write. Blocks meet at barriers, and two of them by flags.
std::vector<trace::Record> some_records(std::uint64_t seed, bool with_bytes) {
  Random random(seed);
  constexpr std::uint32_t blocks = 4, warps = 2, page_words = 1024;
  std::vector<trace::Record> records =
      launch({{AccessKind::read, Space::global, 4},
              {AccessKind::write, Space::global, 4},
              {AccessKind::read, Space::global, 1},
              {AccessKind::write, Space::global, 1},
              {AccessKind::atomic, Space::global, 4, 1, Ordering::relaxed, Scope::gpu},
              {AccessKind::atomic, Space::global, 4, 1, Ordering::acq_rel, Scope::gpu}},
             blocks, warps, 1 << 16);
  std::uint64_t ticket = 0;
  for (std::uint32_t i = 0; i < 240; ++i) {
    const std::uint32_t block = random.below(blocks), kind = random.below(16);
    if (kind == 0) {
      records.push_back(trace::BlockBarrier{1, block, 0, i, 1, 0});
      continue;
    }
    trace::Access access;
    access.warp = {1, block, random.below(warps)};
    access.module = 1;
    access.site = kind == 1 ? flag : kind < 8 ? add : with_bytes && kind < 11 ? load_byte : load;
    access.mask = access.site == flag ? 1u : random.below(4) ? ~0u : 1u + random.below(~0u);
    const bool writes = random.below(24) == 0;
    if (writes && access.site == load) access.site = store;
    if (writes && access.site == load_byte) access.site = store_byte;
    if (writes) access.mask &= 0x10001u << random.below(16);
    if (!access.mask) continue;
    for (unsigned lane = 0; lane < 32; ++lane) {
      std::uint64_t offset = 4 * random.below(2 * page_words);
      if (access.site == add) offset = 2 * 4096 + 4 * random.below(2 * page_words);
      if (access.site == load_byte || access.site == store_byte) offset = 4 * 4096 + random.below(4096);
      if (access.site == flag) offset = 5 * 4096 + 4 * random.below(2);
      access.address[lane] = memory + offset;
      access.digest[lane] = random.below(2);
      if (access.site != add && access.site != flag) continue;
      access.order_first[lane] = access.order_last[lane] = ++ticket;
      access.value_read[lane] = ticket - 1;
      access.value_written[lane] = ticket;
      access.wrote[lane] = true;
    }
    records.push_back(access);
  }
  records.push_back(trace::OperationEnd{1});
  return records;
}

TEST(Dense, ThreadsPiecesAndMemoryDoNotMatter) {
  std::size_t races = 0;
  for (const std::uint64_t seed : seeds(1, 12)) {
    const Chunks chunks(some_records(seed, seed % 2), 60);
    const std::string expected = found(chunks, 1);
    races += std::size_t(std::count(expected.begin(), expected.end(), '|'));
    for (unsigned jobs : {1u, 2u, 3u, 7u, 64u}) {
      for (std::uint64_t piece_bytes : {1u, 1000u, 5000u, 1u << 17}) {
        ASSERT_EQ(found(chunks, jobs, 0, piece_bytes), expected) << jobs << ", " << piece_bytes << ", seed " << seed;
      }
    }
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    loses_nothing_untold(chunks, detect::find_races(chunks), 2, 1 << 15);
  }
  EXPECT_GT(races, 10u);
}

TEST(Dense, TheFirstPassLeavesNothingOut) {
  for (const std::uint64_t seed : seeds(100, 40)) {
    ASSERT_EQ(left_out(Chunks(some_records(seed, seed % 2), 60)), "") << "seed " << seed;
  }
}

} // namespace
} // namespace deadheat::test
