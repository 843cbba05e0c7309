// Atomics whose order decides a sum: how many there are depends neither on threads, nor on memory, nor on what else is
// looked at beside them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "tests/unit/analyzer_chunks.h"
#include "tests/unit/seeds.h"

namespace deadheat::test {
namespace {

enum Place : std::uint32_t { load, sum, flag }; // sites

class Records {
 public:
  explicit Records(std::uint32_t blocks)
      : all_(launch({{AccessKind::read, Space::global, 4},
                     {AccessKind::atomic, Space::global, 4, 1, Ordering::relaxed, Scope::gpu},
                     {AccessKind::atomic, Space::global, 4, 1, Ordering::acq_rel, Scope::gpu}},
                    blocks, 1, 1 << 20)) {
    std::get<trace::Module>(all_[0]).sites[flag].opcode = "atom.add.u32";
  }
  void barrier(std::uint32_t block) { all_.push_back(trace::BlockBarrier{1, block, 0, phase_++, 1, 0}); }
  void access(std::uint32_t block, Place place, std::uint64_t address, std::uint32_t mask = 1) {
    trace::Access access;
    access.warp = {1, block, 0};
    access.module = 1;
    access.site = place;
    access.mask = mask;
    for (unsigned lane = 0; lane < 32; ++lane) access.address[lane] = address + (place == load ? 4 * lane : 0);
    for (unsigned lane = 0; place != load && lane < 32; ++lane) {
      if (!(mask >> lane & 1)) continue;
      std::uint64_t& value = values_[address];
      access.order_first[lane] = access.order_last[lane] = ++ticket_;
      access.value_read[lane] = value;
      access.value_written[lane] = ++value;
      access.wrote[lane] = true;
    }
    all_.push_back(access);
  }
  std::vector<trace::Record> end() {
    all_.push_back(trace::OperationEnd{1});
    return std::move(all_);
  }

 private:
  std::vector<trace::Record> all_;
  std::map<std::uint64_t, std::uint64_t> values_;
  std::uint64_t ticket_ = 0;
  std::uint32_t phase_ = 0;
};

constexpr std::uint64_t page(std::uint32_t number) { return memory + detect::page_bytes * number; }

// Block 1 has not synchronized between its read of a page and its addition: what it did since it synchronized last is
// known from the same point on, whether the reader of the page is looked at or not. Block 2 comes after both additions.
TEST(Atomics, AnEpochBeginsWhereItsWarpSynchronized) {
  for (std::uint32_t other = 1; other < 16; ++other) {
    Records records(3);
    records.access(1, load, page(other), ~0u);
    records.access(0, sum, page(0));
    records.barrier(0);
    records.access(0, flag, page(30));
    records.access(1, sum, page(0));
    records.barrier(1);
    records.access(1, flag, page(31));
    records.access(2, flag, page(30));
    records.access(2, flag, page(31));
    records.barrier(2);
    records.access(2, sum, page(0));
    const Chunks chunks(records.end(), 4);
    for (unsigned jobs : {1u, 2u, 3u, 8u, 64u}) {
      detect::FindOptions options;
      options.jobs = jobs;
      const detect::Findings findings = detect::find_races(chunks, options);
      ASSERT_EQ(findings.order_dependent.size(), 1u) << jobs << " threads, page " << other;
      EXPECT_EQ(findings.order_dependent.begin()->second, 1u) << jobs << " threads, page " << other;
    }
  }
}

// Blocks that add to a few words, synchronize with some others, and read pages of which each is in a part of its own.
std::vector<trace::Record> some_sums(std::uint64_t seed) {
  Random random(seed);
  const std::uint32_t blocks = 2 + random.below(5), pages = 64;
  Records records(blocks);
  for (std::uint32_t step = 0; step < 250; ++step) {
    const std::uint32_t block = random.below(blocks), kind = random.below(10);
    if (kind < 3) {
      records.access(block, load, page(8 + random.below(pages)), ~0u);
    } else if (kind < 6) {
      records.access(block, sum, page(random.below(4)) + 4 * random.below(2), random.below(4) ? 1u : 5u);
    } else if (kind < 8) {
      records.barrier(block);
    } else {
      records.access(block, flag, page(4 + random.below(3)));
    }
  }
  return records.end();
}

unsigned lanes_that_add(const std::vector<trace::Record>& records) {
  unsigned count = 0;
  for (const trace::Record& record : records) {
    const auto* access = std::get_if<trace::Access>(&record);
    if (access && access->site == sum) count += unsigned(std::popcount(access->mask));
  }
  return count;
}

TEST(Atomics, ThreadsAndMemoryDoNotMatter) {
  std::uint64_t lines = 0;
  unsigned more_goes = 0;
  for (const std::uint64_t seed : seeds(1, 40)) {
    const std::vector<trace::Record> records = some_sums(seed);
    const Chunks chunks(records, 20);
    const detect::Findings all = detect::find_races(chunks);
    const std::string expected = text(all);
    EXPECT_NE(expected.find(" x" + std::to_string(lanes_that_add(records)) + "\n"), std::string::npos) << expected;
    lines += expected.find("order ") != std::string::npos;
    for (unsigned jobs : {2u, 3u, 7u}) ASSERT_EQ(found(chunks, jobs), expected) << jobs << ", seed " << seed;
    for (std::uint64_t limit : {10u << 10, 11u << 10, 12u << 10, 13u << 10, 14u << 10}) {
      detect::FindOptions options;
      options.memory_limit = limit;
      const detect::Findings less = detect::find_races(chunks, options);
      if (less.unchecked) continue; // not even one part had room
      ASSERT_EQ(text(less, !less.halved), text(all, !less.halved)) << limit << " bytes, seed " << seed;
      more_goes += less.goes > 1;
    }
  }
  EXPECT_GT(lines, 35u);
  EXPECT_GT(more_goes, 30u);
}

// Words so far from each other, weakly and strongly touched in turn by launches in one stream or in two, so that what
// one entry tells of a word changes all the time.
std::vector<trace::Record> words_in_turn(std::uint64_t seed, std::uint64_t apart) {
  Random random(seed);
  std::vector<SiteOf> sites;
  for (unsigned bytes : {4u, 8u}) {
    sites.push_back({AccessKind::read, Space::global, bytes});
    sites.push_back({AccessKind::write, Space::global, bytes});
    sites.push_back({AccessKind::atomic, Space::global, bytes, 1, Ordering::relaxed, Scope::gpu});
    sites.push_back({AccessKind::read, Space::global, bytes, 1, Ordering::relaxed, Scope::gpu});
    sites.push_back({AccessKind::write, Space::global, bytes, 1, Ordering::relaxed, Scope::gpu});
  }
  sites.push_back({AccessKind::atomic, Space::global, 4, 1, Ordering::acq_rel, Scope::gpu});
  std::vector<trace::Record> records = launch(sites, 3, 2, 1 << 16);
  const auto operation = std::get<trace::Operation>(records[2]);
  records.resize(2);
  std::uint64_t ticket = 0;
  const std::uint32_t others = random.below(3) ? 20 : 3; // one access of so many is by another thread than the word's
  for (std::uint32_t number = 1; number <= 5; ++number) {
    trace::Operation now = operation;
    now.id = now.launch = number;
    now.stream = random.below(3) ? 2 : 3; // 1 is the legacy stream
    records.push_back(now);
    records.push_back(trace::OperationBegin{number});
    const std::uint32_t kind = random.below(2) ? 2 : random.below(5); // mostly atomics
    for (std::uint32_t i = 0, count = 20 + random.below(40); i < count; ++i) {
      const std::uint32_t place = random.below(12), owner = random.below(others) ? place : random.below(12);
      trace::Access access;
      access.warp = {number, owner % 3, owner / 3 % 2};
      if (random.below(10) == 0) {
        records.push_back(trace::BlockBarrier{number, access.warp.block, 0, i, 1, 0});
        continue;
      }
      access.module = 1;
      access.site = (random.below(12) ? kind : random.below(5)) + (place < 3 && random.below(4) ? 5 : 0);
      if (random.below(15) == 0) access.site = 10;
      const SiteOf& of = sites[access.site];
      const unsigned lane = owner / 6;
      access.mask = 1u << lane;
      access.address[lane] =
          memory + apart * (access.site == 10 ? 15 : place) + (of.bytes == 4 && place < 3 ? 4 * random.below(2) : 0);
      if (is_strong(of.ordering)) {
        access.order_first[lane] = access.order_last[lane] = ++ticket;
        access.value_read[lane] = ticket - 1;
        access.value_written[lane] = ticket;
        access.wrote[lane] = of.access != AccessKind::read;
      }
      records.push_back(access);
    }
    if (random.below(4)) records.push_back(trace::OperationEnd{number});
  }
  return records;
}

TEST(Atomics, WordsThatAreTouchedWeaklyAndStronglyInTurn) {
  std::size_t races = 0;
  auto far = [](std::uint64_t seed) { return words_in_turn(seed, detect::page_bytes); };
  ASSERT_NO_FATAL_FAILURE(compare_ways(far, 600, 40, 3, races));
  EXPECT_GT(races, 500u);
}

TEST(Atomics, NeighboursThatAreTouchedWeaklyAndStronglyInTurn) {
  std::size_t races = 0;
  auto near = [](std::uint64_t seed) { return words_in_turn(seed, 8); };
  ASSERT_NO_FATAL_FAILURE(compare_ways(near, 600, 40, 3, races));
  EXPECT_GT(races, 500u);
}

// Lanes of three blocks add to sixteen neighbouring words in one launch and in a second; a third one reads them. The
// launches are in the streams that are named.
std::vector<trace::Record> sums_of_launches(const std::vector<std::uint32_t>& streams) {
  std::vector<trace::Record> records = launch(
      {{AccessKind::read, Space::global, 4}, {AccessKind::atomic, Space::global, 4, 1, Ordering::relaxed, Scope::gpu}},
      3, 1, 1 << 16);
  const auto operation = std::get<trace::Operation>(records[2]);
  records.resize(2);
  std::uint64_t ticket = 0;
  for (std::uint32_t number = 1; number <= streams.size(); ++number) {
    trace::Operation now = operation;
    now.id = now.launch = number;
    now.stream = streams[number - 1];
    records.push_back(now);
    records.push_back(trace::OperationBegin{number});
    for (std::uint32_t block = 0; block < 3; ++block) {
      trace::Access access;
      access.warp = {number, block, 0};
      access.module = 1;
      access.site = number == streams.size() ? load : sum;
      access.mask = 0xFFFF;
      for (unsigned lane = 0; lane < 16; ++lane) {
        access.address[lane] = memory + 4 * (lane * 5 % 16);
        access.order_first[lane] = access.order_last[lane] = ++ticket;
        access.value_read[lane] = ticket - 1;
        access.value_written[lane] = ticket;
        access.wrote[lane] = access.site == sum;
      }
      records.push_back(access);
    }
    records.push_back(trace::OperationEnd{number});
  }
  return records;
}

TEST(Atomics, OneLaunchsDoNotStandForAnothers) {
  // One after another: of each word's three in a launch, two are unordered with others.
  const detect::Findings ordered = detect::find_races(Chunks(sums_of_launches({2, 2, 2}), 20));
  EXPECT_TRUE(ordered.races.empty());
  ASSERT_EQ(ordered.order_dependent.size(), 1u);
  EXPECT_EQ(ordered.order_dependent.begin()->second, 2u * 2 * 16);
  // The reader comes after those of the second launch, and not after those of the first.
  const detect::Findings apart = detect::find_races(Chunks(sums_of_launches({2, 3, 3}), 20));
  EXPECT_EQ(apart.races.size(), 1u);
}

// A thread adds to a word and reads it weakly; what else happens to the word or near it does not hide that read from
// the addition of another block.
TEST(Atomics, AReadAfterwardsIsNotForgotten) {
  enum class Then { nothing, row_of_its_page, ordered_addition, ordered_read };
  for (const Then then : {Then::nothing, Then::row_of_its_page, Then::ordered_addition, Then::ordered_read}) {
    SCOPED_TRACE(int(then));
    Records records(2);
    records.access(0, sum, page(0));
    records.access(0, load, page(0));
    if (then == Then::row_of_its_page) records.access(0, load, page(0) + 2048, ~0u);
    if (then == Then::ordered_addition || then == Then::ordered_read) records.barrier(0);
    if (then == Then::ordered_addition) records.access(0, sum, page(0), 2);
    if (then == Then::ordered_read) records.access(0, load, page(0) - 4, 2); // the second lane, the same word
    records.access(1, sum, page(0));
    EXPECT_EQ(detect::find_races(Chunks(records.end(), 20)).races.size(), 1u);
  }
}

} // namespace
} // namespace deadheat::test
