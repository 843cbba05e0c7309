// Atomics whose order decides a sum: how many there are depends neither on threads, nor on memory, nor on what else is
// looked at beside them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/analyzer_chunks.h"

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

TEST(Atomics, ThreadsAndMemoryDoNotMatter) {
  std::uint64_t lines = 0;
  unsigned more_goes = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Chunks chunks(some_sums(seed), 20);
    const std::string expected = found(chunks, 1);
    lines += expected.find("order ") != std::string::npos;
    for (unsigned jobs : {2u, 3u, 7u}) ASSERT_EQ(found(chunks, jobs), expected) << jobs << ", seed " << seed;
    for (std::uint64_t limit : {10u << 10, 11u << 10, 12u << 10, 13u << 10, 14u << 10}) {
      detect::FindOptions options;
      options.memory_limit = limit;
      const detect::Findings less = detect::find_races(chunks, options);
      if (less.unchecked) continue; // not even one part had room
      ASSERT_EQ(text(less), expected) << limit << " bytes, seed " << seed;
      more_goes += less.goes > 1;
    }
  }
  EXPECT_GT(lines, 35u);
  EXPECT_GT(more_goes, 30u);
}

// Words far from each other, weakly and strongly touched in turn by launches in one stream or in two, so that what one
// entry tells of a word changes all the time.
std::vector<trace::Record> words_in_turn(std::uint64_t seed) {
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
      access.address[lane] = memory + detect::page_bytes * (access.site == 10 ? 15 : place) +
                             (of.bytes == 4 && place < 3 ? 4 * random.below(2) : 0);
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
  ASSERT_NO_FATAL_FAILURE(compare_ways([](std::uint64_t seed) { return words_in_turn(seed); }, 600, 40, 3, races));
  EXPECT_GT(races, 500u);
}

} // namespace
} // namespace deadheat::test
