// What is found depends neither on how many threads look, nor on how much memory they have, nor on how the log is cut
// into chunks, nor on the first pass; and nothing is lost where many threads touch the same bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/bench/analyzer_patterns.h"
#include "tests/unit/analyzer_chunks.h"
#include "tests/unit/seeds.h"

namespace deadheat::test {
namespace {

// Warps that read and write in every shape that groups, cells and pages tell apart, with a barrier now and then.
std::vector<trace::Record> some_records(std::uint64_t seed) {
  Random random(seed);
  std::vector<SiteOf> sites;
  for (Space space : {Space::global, Space::shared}) {
    for (AccessKind kind : {AccessKind::read, AccessKind::write}) {
      for (unsigned bytes : {1u, 2u, 4u, 8u, 16u}) sites.push_back({kind, space, bytes});
      sites.push_back({kind, space, 4, 4});
      sites.push_back({kind, space, 4, 1, Ordering::relaxed, Scope::gpu});
    }
    sites.push_back({AccessKind::atomic, space, 4, 1, Ordering::relaxed, Scope::gpu});
    sites.push_back({AccessKind::atomic, space, 4, 1, Ordering::acq_rel, Scope::gpu});
  }
  constexpr std::uint32_t blocks = 3, warps = 3;
  std::vector<trace::Record> records = launch(sites, blocks, warps, 1 << 16);
  std::uint64_t ticket = 0;
  const std::uint32_t count = 40 + random.below(120);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t block = random.below(blocks);
    if (random.below(6) == 0) {
      records.push_back(trace::BlockBarrier{1, block, 0, i, 1, 0});
      continue;
    }
    trace::Access access;
    access.warp = {1, block, random.below(warps)};
    access.module = 1;
    access.site = random.below(std::uint32_t(sites.size()));
    const SiteOf& of = sites[access.site];
    access.space = of.space;
    access.mask = random.below(3) ? ~0u : random.below(2) ? 0xFFFFu << random.below(16) : 1u + random.below(~0u);
    const std::uint32_t width = of.bytes * of.elements;
    // Mostly apart, so that there is something for a race to be missing in.
    std::uint64_t base = of.space == Space::global ? memory + 4096 * random.below(3) : 0;
    base += 512ull * ((block * warps + access.warp.warp) % 8) * random.below(4) / 3 / 16 * 16 + 16 * random.below(2);
    const std::uint32_t shape = random.below(8);
    for (unsigned lane = 0; lane < 32; ++lane) {
      const std::uint32_t at = shape < 5    ? lane * width
                               : shape == 5 ? 0
                               : shape == 6 ? 2 * lane * width
                                            : random.below(64) * width;
      access.address[lane] = base + at;
      access.digest[lane] = random.below(2);
      if (!is_strong(of.ordering)) continue;
      access.order_first[lane] = access.order_last[lane] = ++ticket;
      access.value_read[lane] = ticket - 1;
      access.value_written[lane] = ticket;
      access.wrote[lane] = of.access != AccessKind::read;
    }
    records.push_back(access);
  }
  records.push_back(trace::OperationEnd{1});
  return records;
}

TEST(Scale, ThreadsChunksAndMemoryDoNotMatter) {
  std::size_t races = 0;
  for (const std::uint64_t seed : seeds(1, 24)) {
    const std::vector<trace::Record> records = some_records(seed);
    const std::string expected = found(Chunks(records, 1 << 20), 1);
    races += std::count(expected.begin(), expected.end(), '|');
    for (unsigned jobs : {1u, 2u, 7u}) {
      ASSERT_EQ(found(Chunks(records, 5), jobs), expected) << "seed " << seed;
      for (std::uint64_t piece_bytes : {1, 1000}) { // a record each; some
        ASSERT_EQ(found(Chunks(records, 50), jobs, 0, piece_bytes), expected) << piece_bytes << ", seed " << seed;
      }
    }
    if (seed % 4 == 0) { // little: nearly every part is looked at alone
      const Chunks chunks(records, 5);
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      loses_nothing_untold(chunks, detect::find_races(chunks), 1 + seed / 4 % 3, 1 << 14);
    }
  }
  EXPECT_GT(races, 200u);
}

// Eight bytes that only a damaged trace has at an odd place: half of them are in a page that another worker may have,
// and touched there without order.
TEST(Scale, AccessesOverAPagesEndAreOfBothPages) {
  const std::vector<SiteOf> sites{{AccessKind::write, Space::global, 4},
                                  {AccessKind::write, Space::global, 8, 1, Ordering::relaxed, Scope::gpu},
                                  {AccessKind::write, Space::global, 4, 2, Ordering::relaxed, Scope::gpu},
                                  {AccessKind::atomic, Space::global, 8, 1, Ordering::acq_rel, Scope::gpu},
                                  {AccessKind::write, Space::global, 8},
                                  {AccessKind::read, Space::global, 4, 2}};
  enum class Shape { scattered, row, alike };
  for (const Shape shape : {Shape::scattered, Shape::row, Shape::alike}) {
    for (std::uint32_t site = 1; site < sites.size(); ++site) {
      std::vector<trace::Record> records = launch(sites, 2, 1, 1 << 20);
      trace::Access access;
      access.module = 1;
      for (std::uint64_t page = 1; page <= 32; ++page) {
        access.warp = {1, 0, 0};
        access.site = 0;
        access.mask = 1;
        access.address[0] = memory + page * 4096;
        records.push_back(access);
        access.warp.block = 1;
        access.site = site;
        access.mask = 0b111;
        for (const std::uint64_t lane : {0u, 1u, 2u}) {
          access.address[lane] = memory + page * 4096 - 4;
          if (shape == Shape::row) access.address[lane] -= 8 * lane; // the others' words are nobody else's
          if (shape == Shape::scattered && lane) access.address[lane] += 1024 + 16 * lane * lane;
          access.wrote[lane] = true;
        }
        records.push_back(access);
      }
      records.push_back(trace::OperationEnd{1});
      const Chunks chunks(records, 7);
      SCOPED_TRACE(testing::Message() << "site " << site << ", shape " << int(shape));
      const std::string expected = found(chunks, 1);
      ASSERT_NE(expected.find(shape == Shape::alike ? " x96" : " x32"), std::string::npos) << expected;
      for (unsigned jobs : {2u, 3u, 7u}) ASSERT_EQ(found(chunks, jobs), expected) << jobs;
    }
  }
}

// A warp writes rows, and then adds to their words, each lane to its own; so does another block, behind no barrier: its
// additions race with the writes, which are remembered elsewhere than the first additions.
TEST(Scale, WhatWasAddedToRowsHidesNoWrite) {
  std::vector<trace::Record> records = launch(
      {{AccessKind::write, Space::global, 4}, {AccessKind::atomic, Space::global, 4, 1, Ordering::relaxed, Scope::gpu}},
      2, 1, 1 << 20);
  constexpr unsigned rows = 64;
  trace::Access access;
  access.module = 1;
  access.mask = ~0u;
  std::uint64_t ticket = 0;
  for (const auto& [block, site] : {std::pair(0u, 0u), std::pair(0u, 1u), std::pair(1u, 1u)}) {
    for (unsigned row = 0; row < rows; ++row) {
      access.warp = {1, block, 0};
      access.site = site;
      for (unsigned lane = 0; lane < 32; ++lane) {
        access.address[lane] = memory + 128 * row + 4 * lane;
        access.order_first[lane] = access.order_last[lane] = site ? ++ticket : 0;
        access.value_written[lane] = site;
        access.wrote[lane] = site != 0;
      }
      records.push_back(access);
    }
  }
  records.push_back(trace::OperationEnd{1});
  const Chunks chunks(records, 1000);
  const std::string expected = found(chunks, 1);
  EXPECT_NE(expected.find(" x" + std::to_string(32 * rows)), std::string::npos) << expected;
  for (unsigned jobs : {2u, 3u}) EXPECT_EQ(found(chunks, jobs), expected) << jobs;
}

TEST(Scale, WhatWasNotKnownYetIsKnownLater) {
  const std::vector<trace::Record> known = launch({{AccessKind::write, Space::global, 4}}, 2, 1, 1 << 16);
  trace::Access access;
  access.warp = {1, 0, 0};
  access.module = 1;
  access.mask = 1;
  access.address[0] = memory;
  std::vector<trace::Record> records{access}; // of a damaged trace
  records.insert(records.end(), known.begin(), known.end());
  records.push_back(access);
  access.warp.block = 1;
  records.push_back(access);
  records.push_back(trace::OperationEnd{1});
  const std::string once = found(Chunks(records, 100), 1);
  EXPECT_NE(once.find(" x1"), std::string::npos) << once;
  EXPECT_NE(once.find("\n1 0 "), std::string::npos) << once;
}

TEST(Scale, StampsAreOfChunksAndNotOfPieces) {
  const Chunks chunks(some_records(1), 50);
  detect::FindOptions options;
  const std::vector<order::Stamp> expected = detect::find_races(chunks, options).chunk_stamps;
  EXPECT_EQ(expected.size(), chunks.chunks() + 1);
  options.piece_bytes = 1;
  EXPECT_EQ(detect::find_races(chunks, options).chunk_stamps, expected);
}

TEST(Scale, WhatCannotBeLookedAtIsCountedOnce) {
  // Accesses of launches that do not exist, some at addresses that cannot be.
  Random random(3);
  std::vector<trace::Record> records = launch({{AccessKind::read, Space::global, 4}}, 1, 1, 1 << 16);
  for (unsigned i = 0; i < 100; ++i) {
    trace::Access access;
    access.warp = {7, 0, 0};
    access.module = 1;
    access.mask = ~0u;
    for (unsigned lane = 0; lane < 32; ++lane) {
      const std::uint64_t beyond =
          random.below(2) ? ~std::uint64_t(0) - (std::uint64_t(random.below(1 << 20)) << 12) : 0;
      access.address[lane] = beyond ? beyond : memory + 4 * random.below(1 << 14);
    }
    records.push_back(access);
  }
  const Chunks chunks(records, 20);
  const std::string expected = found(chunks, 1);
  EXPECT_EQ(expected.rfind("100 0 ", 0), 0u) << expected;
  for (unsigned jobs : {2u, 3u, 7u}) EXPECT_EQ(found(chunks, jobs), expected);
}

// Words all over memory, so many bytes apart, each touched once: no race but at the end, and much to remember.
void little_memory_takes_more_goes(std::uint64_t apart, std::size_t chunk) {
  SCOPED_TRACE(testing::Message() << apart << " bytes apart, " << chunk << " records at once");
  std::vector<trace::Record> records =
      launch({{AccessKind::write, Space::global, 4}, {AccessKind::read, Space::global, 4}}, 1, 1, 1 << 28);
  for (std::uint32_t i = 0; i < 3000; ++i) {
    trace::Access access;
    access.warp = {1, 0, 0};
    access.module = 1;
    access.mask = ~0u;
    for (unsigned lane = 0; lane < 32; ++lane)
      access.address[lane] = memory + apart * ((i * 32ull + lane) * 7919 % 96000);
    records.push_back(access);
  }
  trace::Access again; // by another block: a race on the last words, and only there
  again.warp = {1, 1, 0};
  again.module = again.site = 1;
  again.mask = ~0u;
  again.address = std::get<trace::Access>(records.back()).address;
  records.push_back(again);
  const Chunks chunks(records, chunk);
  detect::FindOptions options;
  const detect::Findings plenty = detect::find_races(chunks, options);
  options.memory_limit = 1 << 18;
  options.jobs = 2;
  const detect::Findings little = detect::find_races(chunks, options);
  EXPECT_EQ(plenty.goes, 2u);
  EXPECT_GT(little.goes, 4u);
  EXPECT_LT(little.goes, 24u);
  EXPECT_EQ(little.unchecked, 0u);
  EXPECT_EQ(plenty.races.size(), 1u);
  EXPECT_EQ(text(little), text(plenty));
}

TEST(Scale, LittleMemoryTakesMoreGoes) {
  little_memory_takes_more_goes(128, 50);
  little_memory_takes_more_goes(8, 500); // near each other, and many before it is seen that they have no room
}

TEST(Scale, TheFirstPassLeavesNothingOut) {
  for (const std::uint64_t seed : seeds(100, 200)) {
    ASSERT_EQ(left_out(Chunks(some_records(seed), 1 << 20)), "") << "seed " << seed;
  }
}

TEST(Scale, ManyAsynchronousCopies) {
  // 100 000 copies that are waited for, one that is not, and one of long ago that nobody ever waited for.
  std::vector<trace::Record> records =
      launch({{AccessKind::read, Space::global, 4}, {AccessKind::read, Space::shared, 4}}, 1, 2, 1 << 16);
  Site& copies = std::get<trace::Module>(records[0]).sites[0];
  copies.kind = SiteKind::async_copy;
  auto copy = [&](std::uint32_t mask, std::uint32_t to) {
    trace::AsyncCopy copy;
    copy.warp = {1, 0, 0};
    copy.module = 1;
    copy.mask = mask;
    copy.bytes = 4;
    for (unsigned lane = 0; lane < 32; ++lane) {
      copy.source[lane] = memory + 4 * lane;
      copy.destination[lane] = to + 4 * lane;
      copy.source_bytes[lane] = 4;
    }
    records.push_back(copy);
  };
  auto wait = [&](std::uint32_t mask) {
    trace::AsyncWait wait;
    wait.warp = {1, 0, 0};
    wait.module = 1;
    wait.mask = mask;
    wait.all = true;
    records.push_back(wait);
  };
  auto read = [&](std::uint32_t from) {
    trace::Access access;
    access.warp = {1, 0, 1};
    access.module = access.site = 1;
    access.space = Space::shared;
    access.mask = ~0u;
    for (unsigned lane = 0; lane < 32; ++lane) access.address[lane] = from + 4 * lane;
    records.push_back(access);
  };
  const std::uint32_t rounds = 3200;
  copy(1u << 31, 4096);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    copy(~0u >> 1, 0);
    wait(~0u >> 1);
    records.push_back(trace::BlockBarrier{1, 0, 0, 2 * round, 1, 0});
    read(0);
    records.push_back(trace::BlockBarrier{1, 0, 0, 2 * round + 1, 1, 0});
  }
  copy(1, 0);
  records.push_back(trace::BlockBarrier{1, 0, 0, 2 * rounds, 1, 0});
  read(0);
  read(4096);
  records.push_back(trace::OperationEnd{1});
  for (unsigned jobs : {1u, 2u}) {
    detect::FindOptions options;
    options.jobs = jobs;
    const detect::Findings findings = detect::find_races(Chunks(records, 100), options);
    ASSERT_EQ(findings.races.size(), 1u);
    EXPECT_EQ(findings.races[0].occurrences, 2u);
    EXPECT_LT(findings.detector->copies_remembered(), 70'000u);
  }
}

TEST(Scale, ThousandsOfThreadsOnOneWord) {
  // Each of 3000 threads writes the word once, then one of them reads it: every two writes race, and so does the read
  // with all writes but its own.
  constexpr std::uint32_t blocks = 3000;
  std::vector<trace::Record> records =
      launch({{AccessKind::write, Space::global, 4}, {AccessKind::read, Space::global, 4}}, blocks, 1, 1 << 12);
  auto one = [&](std::uint32_t block, std::uint32_t site) {
    trace::Access access;
    access.warp = {1, block, 0};
    access.module = 1;
    access.site = site;
    access.mask = 1;
    access.address[0] = memory;
    records.push_back(access);
  };
  for (std::uint32_t block = 0; block < blocks; ++block) one(block, 0);
  one(17, 1);
  detect::FindOptions options;
  options.jobs = 2;
  const detect::Findings findings = detect::find_races(Chunks(records, 100), options);
  ASSERT_EQ(findings.races.size(), 2u);
  std::map<std::uint32_t, std::uint64_t> count; // by the second's site
  for (const detect::FoundRace& race : findings.races) count[race.second.place] = race.occurrences;
  EXPECT_EQ(count[1], std::uint64_t(blocks) * (blocks - 1) / 2);
  EXPECT_EQ(count[2], blocks - 1);
  EXPECT_TRUE(findings.uncertain.empty());
}

TEST(Scale, OnePairAmongThousandsThatAreOrdered) {
  // 3000 threads write the word, each before a barrier of its block, and after it another thread of the block reads:
  // ordered. Only the last reader comes without a barrier; its pair is found among all the others.
  constexpr std::uint32_t turns = 3000;
  std::vector<trace::Record> records = launch({{AccessKind::write, Space::shared, 4},
                                               {AccessKind::read, Space::shared, 4},
                                               {AccessKind::read, Space::shared, 4}},
                                              1, 32, 1 << 12);
  auto one = [&](std::uint32_t thread, std::uint32_t site) {
    trace::Access access;
    access.warp = {1, 0, thread / 32};
    access.module = 1;
    access.space = Space::shared;
    access.site = site;
    access.mask = 1u << thread % 32;
    records.push_back(access);
  };
  for (std::uint32_t turn = 0; turn < turns; ++turn) {
    one(turn % 1024, 0);
    records.push_back(trace::BlockBarrier{1, 0, 0, 2 * turn, 1, 0});
    one((turn + 512) % 1024, 1);
    records.push_back(trace::BlockBarrier{1, 0, 0, 2 * turn + 1, 1, 0});
  }
  one(5, 0);
  one(700, 2);
  const detect::Findings findings = detect::find_races(Chunks(records, 1000));
  ASSERT_EQ(findings.races.size(), 1u);
  EXPECT_EQ(findings.races[0].occurrences, 1u);
  EXPECT_EQ(findings.races[0].second.place, 3u);
}

// Strong accesses of a word by lanes, one after another, and weak ones of warps.
class OneWord {
 public:
  explicit OneWord(const std::vector<SiteOf>& sites) : sites_(sites), records_(launch(sites, 3, 2, 1 << 12)) {}
  void by(std::uint32_t block, std::uint32_t warp, std::uint32_t site, std::uint32_t mask = 1) {
    trace::Access access;
    access.warp = {1, block, warp};
    access.module = 1;
    access.site = site;
    access.mask = mask;
    access.address.fill(memory);
    if (is_strong(sites_[site].ordering)) {
      access.order_first[0] = access.order_last[0] = ++ticket_;
      access.value_read[0] = value_;
      access.wrote[0] = sites_[site].access != AccessKind::read;
      if (access.wrote[0]) access.value_written[0] = value_ = ticket_;
    }
    records_.push_back(access);
  }
  detect::Findings findings(const detect::WordBounds& bounds = {}) const {
    detect::FindOptions options;
    options.bounds = bounds;
    return detect::find_races(Chunks(records_, 100), options);
  }

 private:
  const std::vector<SiteOf> sites_;
  std::vector<trace::Record> records_;
  std::uint64_t ticket_ = 0, value_ = 0;
};
// Of places of sites, in any order; nothing: no race of that class.
std::uint64_t occurrences(const detect::Findings& findings, RaceClass race_class, std::uint32_t a, std::uint32_t b) {
  std::uint64_t count = 0;
  for (const detect::FoundRace& race : findings.races) {
    if (race.race_class == race_class && std::set{race.first.place, race.second.place} == std::set{a + 1, b + 1})
      count += race.occurrences;
  }
  return count;
}
bool is_uncertain(const detect::Findings& findings, std::uint32_t a, std::uint32_t b) {
  const detect::Sides& sides = findings.detector->sides();
  const detect::SideId one = sides.place(a + 1).side, other = sides.place(b + 1).side;
  return findings.uncertain.contains(std::minmax(one, other));
}

// A lane that has observed the write comes behind it, the others of its warp do not.
TEST(Scale, LanesThatObservedAWriteDoNotCount) {
  OneWord word({{AccessKind::write, Space::global, 4, 1, Ordering::relaxed, Scope::gpu},
                {AccessKind::read, Space::global, 4, 1, Ordering::relaxed, Scope::gpu},
                {AccessKind::read, Space::global, 4}});
  word.by(0, 0, 0);
  word.by(1, 0, 1);
  word.by(1, 0, 2, ~0u);
  EXPECT_EQ(occurrences(word.findings(), RaceClass::data, 0, 2), 31u);
}

// The second strong write comes behind the first, and a thread that read it behind the second alone (8.9.5): where the
// first is no longer remembered, it may race with what that thread writes then.
TEST(Scale, WhatOneObservedStandsForNothingBeforeIt) {
  OneWord word({{AccessKind::write, Space::global, 4, 1, Ordering::relaxed, Scope::gpu},
                {AccessKind::read, Space::global, 4, 1, Ordering::relaxed, Scope::gpu},
                {AccessKind::write, Space::global, 4}});
  word.by(0, 0, 0);
  word.by(0, 0, 0);
  word.by(1, 0, 1);
  word.by(1, 0, 2);
  const detect::Findings all = word.findings();
  EXPECT_EQ(occurrences(all, RaceClass::data, 0, 2), 1u);
  EXPECT_TRUE(all.uncertain.empty());
  const detect::Findings crowded = word.findings({.crowded = 1});
  EXPECT_EQ(occurrences(crowded, RaceClass::data, 0, 2), 0u);
  EXPECT_TRUE(is_uncertain(crowded, 0, 2));
}

// The second such write is no longer remembered either, for one that only observed it, by itself or by a read of its
// thread: what that thread writes then may still race with the first.
TEST(Scale, WhatStandsForOneThatItObservedStandsForNothingBeforeIt) {
  const auto sites = [](AccessKind kind) {
    return std::vector<SiteOf>{{kind, Space::global, 4, 1, Ordering::relaxed, Scope::gpu},
                               {AccessKind::write, Space::global, 4, 1, Ordering::relaxed, Scope::gpu},
                               {AccessKind::read, Space::global, 4, 1, Ordering::relaxed, Scope::gpu},
                               {AccessKind::write, Space::global, 4},
                               {AccessKind::write, Space::global, 4}};
  };
  OneWord updates(
      sites(AccessKind::atomic)); // those of warp 0 link to each other behind the write, and the last to them
  updates.by(0, 0, 0);
  updates.by(0, 1, 1);
  updates.by(0, 0, 0);
  updates.by(0, 0, 0);
  updates.by(0, 1, 0);
  updates.by(0, 1, 4);
  OneWord writes(sites(AccessKind::write)); // of one site
  writes.by(0, 0, 0);
  writes.by(0, 0, 0);
  writes.by(0, 1, 2);
  writes.by(0, 1, 0);
  writes.by(0, 1, 4);
  OneWord overwritten(sites(AccessKind::write)); // by a weak write of another
  overwritten.by(0, 0, 0);
  overwritten.by(0, 0, 0);
  overwritten.by(1, 0, 2);
  overwritten.by(1, 0, 3);
  overwritten.by(1, 0, 4);
  for (const OneWord* word : {&updates, &writes, &overwritten}) {
    const detect::Findings all = word->findings();
    EXPECT_EQ(occurrences(all, RaceClass::data, 0, 4), 1u);
    EXPECT_TRUE(all.uncertain.empty());
    const detect::Findings crowded = word->findings({.crowded = 1});
    EXPECT_EQ(occurrences(crowded, RaceClass::data, 0, 4), 0u);
    EXPECT_TRUE(is_uncertain(crowded, 0, 4));
  }
}

// Of one site, a write of this block, which is morally strong with what comes then, and before it one of another.
TEST(Scale, ConflictsOfStrongAccessesDoNotHideThatARaceMayBeMissing) {
  OneWord word({{AccessKind::write, Space::global, 4, 1, Ordering::relaxed, Scope::cta},
                {AccessKind::write, Space::global, 4, 1, Ordering::relaxed, Scope::cta}});
  word.by(0, 0, 0);
  word.by(1, 0, 0);
  word.by(1, 1, 1);
  const detect::Findings all = word.findings();
  EXPECT_EQ(occurrences(all, RaceClass::data, 0, 1), 1u);
  EXPECT_EQ(occurrences(all, RaceClass::strong, 0, 1), 1u);
  EXPECT_TRUE(all.uncertain.empty());
  const detect::Findings lost = word.findings({.most_entries = 1});
  EXPECT_EQ(occurrences(lost, RaceClass::data, 0, 1), 0u);
  EXPECT_EQ(occurrences(lost, RaceClass::strong, 0, 1), 1u);
  EXPECT_TRUE(is_uncertain(lost, 0, 1));
}

// A pair of sites that meets within warps first: replay is handed pairs of other warps and blocks before those.
TEST(Scale, InstancesOfOtherWarpsComeFirst) {
  detect::FoundRace race;
  auto touch = [](std::uint32_t block, std::uint32_t thread) {
    return detect::Touch{order::ThreadKey(1, block, thread), 1, 0};
  };
  for (std::uint32_t t = 0; t + 1 < 64; ++t) {
    detect::add_instance(race, touch(0, t), touch(0, t + 1));
    detect::add_instance(race, touch(0, t), touch(1, t));
  }
  const detect::FoundRace::Instances chosen = detect::chosen_instances(race);
  ASSERT_EQ(chosen.size(), detect::most_instances);
  EXPECT_EQ(chosen[0], std::pair(touch(0, 31), touch(0, 32)));
  constexpr std::size_t blocks = 9;
  for (std::size_t n = 1; n < detect::most_first_instances; ++n)
    EXPECT_EQ(chosen[n].second.thread.block(), n < blocks ? 1u : 0u) << n;
  EXPECT_EQ(chosen[blocks], std::pair(touch(0, 0), touch(0, 1)));
}

// Of threads that meet again and again the first instances may be alike: others, which chance picks, are handed over
// too, whichever parts found them.
TEST(Scale, InstancesOfAllTimesAreAmongThem) {
  const auto touch = [](std::uint32_t block, std::uint32_t n) {
    return detect::Touch{order::ThreadKey(1, block, 0), n, 0};
  };
  detect::FoundRace race;
  detect::PartFindings joined, parts[2];
  for (std::uint32_t n = 1; n <= 1000; ++n) {
    detect::add_instance(race, touch(0, n), touch(1, n));
    detect::add_instance(parts[n % 2].races[{}], touch(0, n), touch(1, n));
  }
  const detect::FoundRace::Instances chosen = detect::chosen_instances(race);
  ASSERT_EQ(chosen.size(), detect::most_instances);
  EXPECT_EQ(chosen[0].first.stamp, 1u);
  EXPECT_TRUE(std::any_of(chosen.begin(), chosen.end(), [](const auto& pair) { return pair.first.stamp > 500; }));
  EXPECT_EQ(std::set(chosen.begin(), chosen.end()).size(), chosen.size());
  for (const detect::PartFindings& part : parts) detect::merge(joined, part);
  EXPECT_EQ(detect::chosen_instances(joined.races[{}]), chosen);
}

// Of a pair that meets in launch after launch, replay is handed the last one's, too: what it does no other overwrites.
TEST(Scale, InstancesOfTheLastLaunchAreAmongThem) {
  detect::FoundRace race;
  const auto touch = [](order::OperationIndex launch, std::uint32_t thread) {
    return detect::Touch{order::ThreadKey(launch, 0, thread), launch, 0};
  };
  constexpr order::OperationIndex launches = 5;
  for (order::OperationIndex launch = 1; launch <= launches; ++launch) {
    for (std::uint32_t t = 0; t < 32; ++t) detect::add_instance(race, touch(launch, t), touch(launch, t + 32));
  }
  const detect::FoundRace::Instances chosen = detect::chosen_instances(race);
  ASSERT_EQ(chosen.size(), detect::most_instances);
  for (std::size_t n = 0; n < chosen.size(); ++n) EXPECT_EQ(chosen[n].second.stamp, n < 12 ? 1u : launches) << n;

  // Parts are merged to the same.
  detect::PartFindings joined, early, late;
  for (order::OperationIndex launch = 1; launch <= launches; ++launch) {
    detect::FoundRace& half = (launch < 3 ? early : late).races[{}];
    for (std::uint32_t t = 0; t < 32; ++t) detect::add_instance(half, touch(launch, t), touch(launch, t + 32));
  }
  detect::merge(joined, late);
  detect::merge(joined, early);
  EXPECT_EQ(detect::chosen_instances(joined.races[{}]), chosen);
}

// Launches that read a line and write it: replay is handed pairs in which the write came first and others in which the
// read did, of the same threads, too.
TEST(Scale, InstancesOfBothOrdersAreAmongThem) {
  detect::FoundRace race;
  constexpr detect::PlaceId read = 1, write = 2;
  const auto touch = [](order::OperationIndex launch, std::uint32_t thread, detect::PlaceId place) {
    return detect::Touch{order::ThreadKey(launch, 0, thread), launch, place};
  };
  for (std::uint32_t t = 0; t < 32; ++t) detect::add_instance(race, touch(1, t, write), touch(2, t, read));
  for (std::uint32_t t = 0; t < 32; ++t) detect::add_instance(race, touch(1, t, read), touch(2, t, write));
  const detect::FoundRace::Instances chosen = detect::chosen_instances(race);
  ASSERT_EQ(chosen.size(), detect::most_instances);
  for (std::size_t n = 0; n < detect::most_first_instances; ++n) {
    EXPECT_EQ(chosen[n].first.place, n % 2 ? read : write) << n;
    EXPECT_EQ(chosen[n].first.thread.thread(), n / 2) << n;
  }
}

// What a copy takes the place of is not known to all who see it complete: of right pipelines all that look know it.
TEST(Scale, RightPipelinesLeaveNothingSuspect) {
  for (const bench::Pattern pattern : {bench::Pattern::ring, bench::Pattern::staged}) {
    const detect::Findings found = detect::find_races(bench::PatternSource(pattern, 200000));
    EXPECT_EQ(found.suspect_words, 0u) << bench::name_of(pattern);
    EXPECT_EQ(found.races.size(), 0u) << bench::name_of(pattern);
  }
}

} // namespace
} // namespace deadheat::test
