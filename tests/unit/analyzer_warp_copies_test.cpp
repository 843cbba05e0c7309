// A warp's asynchronous copies, which are looked at together where they lie side by side, are found to be what they are
// one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/analyzer_chunks.h"
#include "tests/unit/seeds.h"

namespace deadheat::test {
namespace {

// Three warps of each block fill shared memory by cp.async from rows of global memory that are now and then written,
// and read each other's part; lanes part company, wait for all or for some, and meet at barriers or at part of one.
std::vector<trace::Record> some_copies_of(std::uint64_t seed, std::uint32_t blocks) {
  enum Site : std::uint32_t { copy, copy_past, wait, commit, read, write, load, store };
  Random random(seed);
  std::vector<trace::Record> records = launch({{AccessKind::read, Space::shared, 16},
                                               {AccessKind::read, Space::shared, 4},
                                               {AccessKind::read, Space::shared, 4},
                                               {AccessKind::read, Space::shared, 4},
                                               {AccessKind::read, Space::shared, 4},
                                               {AccessKind::write, Space::shared, 4},
                                               {AccessKind::read, Space::global, 4},
                                               {AccessKind::write, Space::global, 4}},
                                              blocks, 3, 1 << 16);
  std::vector<deadheat::Site>& sites = std::get<trace::Module>(records[0]).sites;
  sites[copy].kind = sites[copy_past].kind = SiteKind::async_copy;
  sites[wait].kind = SiteKind::async_wait;
  sites[commit].kind = SiteKind::async_commit;
  std::uint32_t block = 0;
  auto of_warp = [&](auto record, std::uint32_t warp, std::uint32_t site, std::uint32_t mask) {
    record.warp = {1, block, warp};
    record.module = 1;
    record.site = site;
    record.mask = mask;
    return record;
  };
  std::vector<std::uint32_t> barriers(blocks);
  for (std::uint32_t i = 0; i < 100 * blocks; ++i) {
    if (blocks > 1) block = random.below(blocks);
    const std::uint32_t warp = random.below(3), what = random.below(20);
    const std::uint32_t mask = random.below(4)   ? ~0u
                               : random.below(2) ? 0xFFFFu << random.below(17)
                                                 : 1u + random.below(~0u);
    if (what < 5) {
      const std::uint32_t bytes = random.below(3) ? 16 : 4u << random.below(2), stage = random.below(3);
      auto record = of_warp(trace::AsyncCopy{}, warp, random.below(2), mask);
      record.bytes = bytes;
      const std::uint32_t shape = random.below(4);
      for (unsigned lane = 0; lane < 32; ++lane) {
        const std::uint32_t swizzled = shape == 1 ? lane ^ 1 : shape == 2 ? lane ^ (lane / 8 & 7) : lane;
        record.destination[lane] = stage * 2048 + 512 * (warp + random.below(16) / 15) + bytes * swizzled;
        record.source[lane] = memory + 2048 * random.below(2) * (shape == 3) + 512 * warp + bytes * lane;
        record.source_bytes[lane] = shape == 2 && random.below(8) == 0 ? random.below(bytes) / 4 * 4 : bytes;
      }
      records.push_back(record);
    } else if (what < 9) {
      records.push_back(of_warp(trace::AsyncCommit{}, warp, commit, mask));
    } else if (what < 13) {
      auto record = of_warp(trace::AsyncWait{}, warp, wait, mask);
      record.pending = random.below(3);
      record.all = random.below(3) == 0;
      records.push_back(record);
    } else if (what < 16) {
      records.push_back(trace::BlockBarrier{1, block, 0, barriers[block]++, 1, 0});
    } else if (what == 16) {
      records.push_back(of_warp(trace::WarpBarrier{}, warp, 0, mask));
    } else {
      auto record = of_warp(trace::Access{}, warp,
                            what == 17        ? random.below(8) ? load : store
                            : random.below(8) ? read
                                              : write,
                            mask);
      record.space = what == 17 ? Space::global : Space::shared;
      const std::uint64_t from =
          what == 17 ? memory + 512 * random.below(4) : 2048 * random.below(3) + 128 * random.below(16);
      for (unsigned lane = 0; lane < 32; ++lane) {
        record.address[lane] = from + 4 * lane;
        record.digest[lane] = lane;
      }
      records.push_back(record);
    }
  }
  records.push_back(trace::OperationEnd{1});
  return records;
}

std::vector<trace::Record> some_copies(std::uint64_t seed) { return some_copies_of(seed, 1); }
std::vector<trace::Record> copies_of_blocks(std::uint64_t seed) { return some_copies_of(seed, 3); }

TEST(WarpsOfCopies, AreNoLessThanTheirLanesOneByOne) {
  std::size_t races = 0;
  compare_ways(some_copies, 300, 1 << 20, 5, races);
  EXPECT_GT(races, 500u);
  compare_ways(copies_of_blocks, 100, 1 << 20, 5, races);
}

TEST(WarpsOfCopies, ThreadsAndPiecesDoNotMatter) {
  for (const std::uint64_t seed : seeds(1, 30)) {
    const Chunks chunks(some_copies_of(seed, 1 + seed % 3), 20);
    const std::string expected = found(chunks, 1);
    for (unsigned jobs : {2u, 3u, 7u}) ASSERT_EQ(found(chunks, jobs, 0, 1000), expected) << jobs << ", seed " << seed;
  }
}

// How often each pair of sites races, whichever came first.
std::map<std::string, std::uint64_t> pairs(const detect::Findings& findings) {
  std::map<std::string, std::uint64_t> out;
  for (const detect::FoundRace& race : findings.races) {
    const auto [one, other] = std::minmax(race.first.place, race.second.place);
    out[std::to_string(one) + "-" + std::to_string(other)] += race.occurrences;
  }
  return out;
}
std::map<std::string, std::uint64_t> pairs(const std::vector<trace::Record>& records) {
  return pairs(detect::find_races(Chunks(records, 1 << 20)));
}

// What has no room in either pass, not even one part at a time, is counted.
TEST(WarpsOfCopies, LittleMemoryLosesNoneUntold) {
  unsigned lost = 0, more_goes = 0, halved = 0;
  for (const std::uint64_t seed : seeds(1, 6)) {
    const Chunks chunks(copies_of_blocks(seed), 20);
    const detect::Findings all = detect::find_races(chunks);
    const std::map<std::string, std::uint64_t> expected = pairs(all);
    for (unsigned jobs : {1u, 2u}) {
      for (std::uint64_t limit : {9'000u, 28'000u, 60'000u, 200'000u}) {
        SCOPED_TRACE(testing::Message() << jobs << " jobs, " << limit << " bytes, seed " << seed);
        detect::FindOptions options;
        options.jobs = jobs;
        options.memory_limit = limit;
        const detect::Findings less = detect::find_races(chunks, options);
        if (!less.unchecked) {
          ASSERT_EQ(text(less, !less.halved), text(all, !less.halved));
          more_goes += less.goes > all.goes;
          halved += less.halved > 0;
          continue;
        }
        ++lost;
        for (const auto& [places, occurrences] : pairs(less)) {
          const auto at = expected.find(places);
          ASSERT_NE(at, expected.end()) << places;
          ASSERT_LE(occurrences, at->second) << places;
        }
      }
    }
  }
  EXPECT_GT(lost, 8u);
  EXPECT_GT(more_goes, 8u);
  EXPECT_GT(halved, 8u);
}

// Only what copies read is suspect: that they are left out is counted, wherever they write.
TEST(WarpsOfCopies, SourcesLeftOutAreCounted) {
  constexpr std::uint32_t copies = 8;
  std::vector<trace::Record> records =
      launch({{AccessKind::read, Space::shared, 16}, {AccessKind::write, Space::global, 4}}, 1, 2, 4096);
  std::get<trace::Module>(records[0]).sites[0].kind = SiteKind::async_copy;
  for (std::uint32_t row = 0; row < 32; ++row) {
    trace::Access store;
    store.warp = {1, 0, 0};
    store.module = store.site = 1;
    store.mask = ~0u;
    for (unsigned lane = 0; lane < 32; ++lane) store.address[lane] = memory + 128 * row + 4 * lane;
    records.push_back(store);
  }
  for (std::uint32_t i = 0; i < copies; ++i) {
    trace::AsyncCopy copy;
    copy.warp = {1, 0, 1};
    copy.module = 1;
    copy.mask = ~0u;
    copy.bytes = 16;
    for (unsigned lane = 0; lane < 32; ++lane) {
      copy.destination[lane] = 4096 * (1 + i) + 16 * lane;
      copy.source[lane] = memory + 512 * i + 16 * lane;
      copy.source_bytes[lane] = 16;
    }
    records.push_back(copy);
  }
  const Chunks chunks(records, 1);
  EXPECT_EQ(detect::find_races(chunks).races.size(), 1u);
  for (unsigned jobs : {1u, 2u}) {
    detect::FindOptions options;
    options.jobs = jobs;
    options.memory_limit = 8'000; // less than one page takes
    const detect::Findings less = detect::find_races(chunks, options);
    EXPECT_TRUE(less.races.empty());
    EXPECT_GE(less.unchecked, 32 * copies);
  }
}

TEST(WarpsOfCopies, AreTheSameAsRecordsOfALaneEach) {
  for (const std::uint64_t seed : seeds(1, 200)) {
    const std::vector<trace::Record> records = some_copies(seed);
    std::vector<trace::Record> apart;
    for (const trace::Record& record : records) {
      auto lanes = [&](auto one) {
        for (std::uint32_t rest = one.mask; rest; rest &= rest - 1) {
          one.mask = rest & -rest;
          apart.push_back(one);
        }
      };
      if (const auto* copy = std::get_if<trace::AsyncCopy>(&record)) {
        lanes(*copy);
      } else if (const auto* commit = std::get_if<trace::AsyncCommit>(&record)) {
        lanes(*commit);
      } else if (const auto* wait = std::get_if<trace::AsyncWait>(&record)) {
        lanes(*wait);
      } else {
        apart.push_back(record);
      }
    }
    ASSERT_EQ(pairs(records), pairs(apart)) << "seed " << seed;
  }
}

// Rows that warps copy cost what rows that they read do: a group, not an entry a word.
TEST(WarpsOfCopies, CostLittleMemory) {
  order::OperationClocks operations;
  order::Causality causality(operations);
  detect::Suspects suspects;
  detect::Share all;
  all.parts.set();
  detect::Filter filter(causality, suspects, all);
  trace::Operation launch;
  launch.id = launch.stream = 1;
  launch.what = trace::Launch();
  const order::ThreadKey lane0(operations.submitted(launch), 0, 0);
  causality.launch_begin(lane0.operation(), {4, 1, 1}, {32, 1, 1}, {1, 1, 1});
  std::array<std::uint64_t, 32> address;
  constexpr std::uint64_t rows = 4000, row_bytes = 512;
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (unsigned lane = 0; lane < 32; ++lane) address[lane] = memory + row_bytes * row + 16 * lane;
    const order::AsyncGroup group = causality.async_issue(lane0, ~0u)[0];
    filter.copy({0, lane0, ~0u, group, address.data(), 16, false, false, row + 1});
    causality.async_wait(lane0, ~0u, 0, true, row + 1);
  }
  EXPECT_LE(filter.bytes(), rows * row_bytes / 4 + 65536);
  EXPECT_EQ(causality.groups(), rows);
}

} // namespace
} // namespace deadheat::test
