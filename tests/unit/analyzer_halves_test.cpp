// Parts of memory that have no room alone are looked at half by half.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/analyzer_chunks.h"

namespace deadheat::test {
namespace {

using deadheat::detect::Findings;
using deadheat::detect::Slice;

TEST(Halves, HaveEachPageAndGranuleOnce) {
  const Slice all;
  EXPECT_TRUE(all.is_all());
  for (const bool by_page : {false, true}) {
    std::vector<Slice> slices{all};
    for (unsigned bits = 0; bits < 3; ++bits) {
      std::vector<Slice> more;
      for (const Slice& slice : slices)
        for (const Slice& half : slice.halves(by_page)) more.push_back(half);
      slices = more;
    }
    ASSERT_EQ(slices.size(), 8u);
    std::vector<unsigned> counts(8);
    for (std::uint64_t i = 0; i < 256; ++i) {
      unsigned have = 0;
      for (std::size_t s = 0; s < slices.size(); ++s) {
        const bool has = slices[s].has_page(7, i) &&
                         slices[s].has_granule(memory + i * Slice::granule_bytes + i % Slice::granule_bytes);
        have += has;
        counts[s] += has;
      }
      EXPECT_EQ(have, 1u) << i;
    }
    for (const unsigned count : counts) EXPECT_NEAR(count, 32, 20);
  }
}

// Every word of `pages` pages is touched by lanes of so many warps, of several blocks, which nothing orders.
std::vector<trace::Record> words_of_many(std::uint32_t pages, std::uint32_t warps, std::uint32_t bytes) {
  std::vector<trace::Record> records =
      launch({{AccessKind::write, Space::global, bytes}, {AccessKind::read, Space::global, bytes}}, warps / 4, 4,
             std::uint64_t(pages) * 4096);
  for (std::uint32_t warp = 0; warp < warps; ++warp) {
    for (std::uint32_t row = 0; row < pages * 4096 / 32 / bytes; ++row) {
      trace::Access access;
      access.warp = {1, warp / 4, warp % 4};
      access.module = 1;
      access.site = (warp + row) % 3 == 0;
      access.mask = ~0u;
      for (unsigned lane = 0; lane < 32; ++lane) {
        access.address[lane] = memory + (row * 32ull + lane) * bytes;
        access.digest[lane] = lane;
      }
      records.push_back(access);
    }
  }
  return records;
}

void has_room_in_halves(const detect::Source& source, std::uint64_t limit) {
  const Findings plenty = detect::find_races(source);
  EXPECT_EQ(plenty.halved, 0u);
  EXPECT_FALSE(plenty.races.empty());
  for (const unsigned jobs : {1u, 2u}) {
    unsigned halved = 0;
    EXPECT_TRUE(loses_nothing_untold(source, plenty, jobs, limit, &halved));
    EXPECT_GT(halved, 0u);
  }
}

TEST(Halves, OfAPageThatVeryManyTouch) {
  for (const std::uint32_t bytes : {4u, 16u}) has_room_in_halves(Chunks(words_of_many(1, 12, bytes), 50), 1 << 18);
}

// In the first pass: of one part, a word of each of very many pages is touched. One of them a race is about.
TEST(Halves, OfMorePagesThanHaveRoom) {
  std::vector<trace::Record> records = launch({{AccessKind::write, Space::global, 4}}, 2, 1, 1ull << 40);
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t page = memory / detect::page_bytes; addresses.size() < 4096; ++page)
    if (detect::partition_of(0, page) == 5) addresses.push_back(page * detect::page_bytes + page % 7 * 4);
  trace::Access access;
  access.module = 1;
  access.mask = ~0u;
  for (std::size_t i = 0; i < addresses.size(); i += 32) {
    access.warp = {1, 0, 0};
    for (unsigned lane = 0; lane < 32; ++lane) access.address[lane] = addresses[(i + lane) * 7919 % addresses.size()];
    records.push_back(access);
  }
  access.warp = {1, 1, 0};
  access.mask = 1;
  records.push_back(access);
  has_room_in_halves(Chunks(records, 20), 20'000);
}

// Copies and sets touch whole pages, and runs of them, which they have in common with one another and with single
// words: what is in no order counts once.
TEST(Halves, OfPagesThatAreTouchedAsAWhole) {
  std::vector<trace::Record> records = words_of_many(2, 12, 4);
  for (std::uint32_t number = 2; number < 5; ++number) {
    records.push_back(trace::StreamCreate{number, trace::StreamCreate::Kind::non_blocking, 0, 0, 1});
    trace::Operation operation;
    operation.id = number;
    operation.stream = number;
    operation.what = trace::Set{{memory - 100 * number, 0, 20000, 1, 1, 0}, number, 1, "cudaMemsetAsync"};
    records.push_back(operation);
    records.push_back(trace::OperationBegin{number});
    records.push_back(trace::OperationEnd{number});
  }
  has_room_in_halves(Chunks(records, 50), 1 << 18);
}

// A word that alone has no room stays, and what is not looked at is counted; the others are found.
TEST(Halves, OfOneWordAreNoHelp) {
  std::vector<trace::Record> records = launch({{AccessKind::write, Space::global, 4}}, 32, 32, 4096);
  for (std::uint32_t warp = 0; warp < 32 * 32; ++warp) {
    trace::Access access;
    access.warp = {1, warp / 32, warp % 32};
    access.module = 1;
    access.mask = 1u << warp % 32;
    access.address[warp % 32] = memory + (warp % 16 ? 128 : 256);
    records.push_back(access);
  }
  const Chunks chunks(records, 50);
  const Findings plenty = detect::find_races(chunks);
  detect::FindOptions options;
  options.memory_limit = 50'000;
  const Findings less = detect::find_races(chunks, options);
  EXPECT_GT(less.halved, 0u);
  EXPECT_GT(less.unchecked, 0u);
  ASSERT_EQ(less.races.size(), 1u);
  EXPECT_LT(less.races[0].occurrences, plenty.races[0].occurrences);
}

} // namespace
} // namespace deadheat::test
