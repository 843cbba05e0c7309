// What is found depends neither on how many threads look, nor on how much memory they have, nor on how the log is cut
// into chunks, nor on the first pass; and nothing is lost where many threads touch the same bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "analyzer/detect/find.h"
#include "tracer/recorder/access_view.h"

namespace deadheat::test {
namespace {

constexpr std::uint64_t memory = 0x8000'0000'0000;

// Records in chunks of a length.
class Chunks final : public detect::Source {
 public:
  Chunks(std::vector<trace::Record> records, std::size_t length) : records_(std::move(records)), length_(length) {}
  std::size_t chunks() const override { return (records_.size() + length_ - 1) / length_; }
  void play(std::size_t chunk, trace::RecordVisitor& visitor) const override {
    for (std::size_t i = chunk * length_; i < std::min(records_.size(), (chunk + 1) * length_); ++i) {
      trace::Record record = records_[i];
      if (auto* access = std::get_if<trace::Access>(&record)) {
        trace::AccessView view = view_of(*access);
        affine(view);
        visitor.access(view);
      } else {
        visitor.record(record);
      }
    }
  }
  const std::vector<trace::Record>& records() const { return records_; }

 private:
  // As the reader says it.
  static void affine(trace::AccessView& view) {
    const unsigned first = unsigned(std::countr_zero(view.mask));
    const std::uint32_t rest = view.mask & (view.mask - 1);
    if (rest) {
      const unsigned second = unsigned(std::countr_zero(rest));
      const std::int64_t difference = std::int64_t(view.address[second] - view.address[first]);
      if (difference % (second - first)) return;
      view.stride = difference / (second - first);
    }
    view.affine = true;
    for (unsigned lane = first; lane < 32; ++lane) {
      const bool fits = view.address[lane] == view.address[first] + std::uint64_t(view.stride * (lane - first));
      if ((view.mask >> lane & 1) && !fits) view.affine = false;
    }
    if (!view.affine) view.stride = 0;
  }
  std::vector<trace::Record> records_;
  std::size_t length_;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 88172645463325252ull | 1) {}
  std::uint32_t below(std::uint32_t count) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return std::uint32_t((state_ >> 16) % count);
  }

 private:
  std::uint64_t state_;
};

struct SiteOf {
  AccessKind access;
  Space space;
  unsigned bytes;
  unsigned elements = 1;
  Ordering ordering = Ordering::weak;
  Scope scope = Scope::none;
};

std::vector<trace::Record> launch(const std::vector<SiteOf>& sites, std::uint32_t blocks, std::uint32_t warps,
                                  std::uint64_t bytes) {
  trace::Module module;
  module.id = 1;
  for (const SiteOf& of : sites) {
    Site site;
    site.id = std::uint32_t(module.sites.size());
    site.kind = SiteKind::access;
    site.access = of.access;
    site.space = of.space;
    site.element_bytes = std::uint8_t(of.bytes);
    site.elements = std::uint8_t(of.elements);
    site.ordering = of.ordering;
    site.scope = of.scope;
    site.opcode = of.access == AccessKind::atomic ? "atom.add.f32" : "ld.u32";
    site.source.push_back({"", "a.cu", site.id + 1, 1});
    module.sites.push_back(site);
  }
  trace::Allocate allocation;
  allocation.allocation = 1;
  allocation.address = memory;
  allocation.bytes = bytes;
  trace::Launch launch;
  launch.module = 1;
  launch.grid = {blocks, 1, 1};
  launch.block = {warps * 32, 1, 1};
  launch.instrumented = true;
  trace::Operation operation;
  operation.id = operation.launch = 1;
  operation.stream = 1;
  operation.what = launch;
  return {module, allocation, operation, trace::OperationBegin{1}};
}

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

std::string text(const detect::Findings& findings) {
  std::string out;
  auto touch = [](const detect::Touch& at) {
    return std::to_string(at.thread.bits) + "@" + std::to_string(at.stamp) + "/" + std::to_string(at.place);
  };
  for (const detect::FoundRace& race : findings.races) {
    out += std::to_string(int(race.race_class)) + " " + touch(race.first) + " " + touch(race.second) + " " +
           std::to_string(race.address) + "+" + std::to_string(race.bytes) + " x" + std::to_string(race.occurrences) +
           (race.same_value() ? " same" : "") + " " + race.why + " |";
    for (const auto& instances : race.instances)
      for (const auto& [first, second] : instances) out += " " + touch(first) + "-" + touch(second);
    out += "\n";
  }
  for (const auto& [place, count] : findings.order_dependent) {
    out += "order " + std::to_string(place) + " x" + std::to_string(count) + "\n";
  }
  return out + std::to_string(findings.unknown) + " " + std::to_string(findings.unchecked) + " " +
         std::to_string(findings.detector->summary().accesses) + "\n";
}

std::string found(const detect::Source& source, unsigned jobs, std::uint64_t memory_limit = 0) {
  detect::FindOptions options;
  options.jobs = jobs;
  options.memory_limit = memory_limit;
  return text(detect::find_races(source, options));
}

TEST(Scale, ThreadsChunksAndMemoryDoNotMatter) {
  std::size_t races = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const std::vector<trace::Record> records = some_records(seed);
    const std::string expected = found(Chunks(records, 1 << 20), 1);
    races += std::count(expected.begin(), expected.end(), '|');
    for (unsigned jobs : {1u, 2u, 7u}) ASSERT_EQ(found(Chunks(records, 5), jobs), expected) << "seed " << seed;
    if (seed % 4 == 0) { // little: nearly every part is looked at alone
      const std::string less = found(Chunks(records, 5), 1 + seed / 4 % 3, 1 << 14);
      // Where even one part has no room, it says so; else nothing changes.
      if (less.find("\n0 0 ") != std::string::npos || less.rfind("0 0 ", 0) == 0) {
        ASSERT_EQ(less, expected);
      }
    }
  }
  EXPECT_GT(races, 200u);
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

// The second pass alone, with everything suspect, finds the same data races as both.
std::string left_out(const Chunks& chunks) {
  detect::Suspects all;
  for (std::uint64_t page = 0; page < 17; ++page) all.add_page(0, memory / 4096 + page);
  for (std::uint64_t page = 0; page < 3; ++page) all.add_page((std::uint64_t(1) << 32) + 1, page); // operation 1
  detect::Detector::Setup setup;
  setup.pass = detect::Detector::Pass::pairs;
  setup.active.set();
  detect::Detector naive(all, setup);
  detect::Routing routing;
  routing.suspects = &all;
  const std::unordered_map<std::uint32_t, std::uint32_t> operations{{1, 1}};
  routing.operations = &operations;
  detect::run(chunks, routing, {[&](const detect::Batch& batch) { naive.play(batch); }}, {});
  detect::PartFindings parts;
  for (unsigned part = 0; part < detect::partitions; ++part) merge(parts, naive.findings(part));
  detect::Findings findings = detect::find_races(chunks);
  auto lines = [](const std::vector<detect::FoundRace>& races) {
    std::map<std::string, std::uint64_t> out;
    for (const detect::FoundRace& race : races) {
      if (race.race_class != RaceClass::data) continue;
      out[std::to_string(race.first.place) + "-" + std::to_string(race.second.place)] += race.occurrences;
    }
    return out;
  };
  std::string difference;
  const auto expected = lines(ranked(parts)), actual = lines(findings.races);
  for (const auto& [pair, count] : expected) {
    const auto at = actual.find(pair);
    const std::uint64_t other = at == actual.end() ? 0 : at->second;
    if (other != count) difference += pair + ": " + std::to_string(other) + " of " + std::to_string(count) + "\n";
  }
  if (actual.size() != expected.size()) difference += std::to_string(actual.size()) + " places\n";
  return difference;
}

TEST(Scale, TheFirstPassLeavesNothingOut) {
  for (std::uint64_t seed = 100; seed < 300; ++seed) {
    ASSERT_EQ(left_out(Chunks(some_records(seed), 1 << 20)), "") << "seed " << seed;
  }
}

// Memory that is touched here and there, in units of several sizes, before, between and after sets of all of it or of a
// part, affine accesses, and memory handed out anew; by launches that are in one stream or in two. Everywhere: most
// words of two pages.
std::vector<trace::Record> here_and_there(std::uint64_t seed, bool everywhere = false) {
  Random random(seed);
  std::vector<SiteOf> sites;
  for (unsigned bytes : {1u, 2u, 4u, 8u, 16u}) {
    sites.push_back({AccessKind::read, Space::global, bytes});
    sites.push_back({AccessKind::write, Space::global, bytes});
    sites.push_back({AccessKind::read, Space::global, bytes, 1, Ordering::nc});
  }
  sites.push_back({AccessKind::atomic, Space::global, 4, 1, Ordering::relaxed, Scope::gpu});
  std::vector<trace::Record> records = launch(sites, 3, 2, 1 << 16);
  const auto operation = std::get<trace::Operation>(records[2]);
  records.resize(2); // the operations come below
  std::uint64_t ticket = 0;
  const bool one_size = random.below(2); // else all
  const std::uint32_t width_of_all = 1u << random.below(4);
  for (std::uint32_t number = 1; number <= 6; ++number) {
    trace::Operation now = operation;
    now.id = number;
    now.stream = random.below(4) ? 1 : 2;
    now.launch = 0;
    if (number % 2) { // a set
      trace::Set set;
      set.api = "cudaMemsetAsync";
      const bool whole = random.below(2);
      set.destination = {
          memory + (whole ? 0 : 4 * random.below(9000)), 0, whole ? 1u << 16 : 4 * random.below(6000), 1, 1, 0};
      now.what = set;
      records.push_back(now);
      if (random.below(3)) {
        records.push_back(trace::OperationBegin{number});
        records.push_back(trace::OperationEnd{number});
      }
      if (random.below(6) == 0) { // a block of the allocator's: nothing of it is known
        trace::Allocate again;
        again.allocation = number + 1;
        again.address = memory + 256 * random.below(200);
        again.bytes = 1 + random.below(9000);
        records.push_back(again);
        records.push_back(trace::Free{number + 1, 0, 1});
        again.allocation = 1;
        again.address = memory;
        again.bytes = 1 << 16;
        if (random.below(2)) records.push_back(again);
      }
      continue;
    }
    now.launch = number / 2;
    records.push_back(now);
    records.push_back(trace::OperationBegin{number});
    const std::uint32_t kinds = random.below(4); // of sites, everywhere
    for (std::uint32_t i = 0, count = everywhere ? 60 + random.below(60) : 10 + random.below(30); i < count; ++i) {
      trace::Access access;
      access.warp = {now.launch, random.below(3), random.below(2)};
      if (random.below(8) == 0) {
        records.push_back(trace::BlockBarrier{now.launch, access.warp.block, 0, i, 1, 0});
        continue;
      }
      access.module = 1;
      access.site = random.below(std::uint32_t(sites.size()));
      if (one_size) access.site = std::min(4u, width_of_all) * 3 % 15 + random.below(3);
      if (everywhere && (kinds < 3 || random.below(20)))
        access.site = kinds == 0 ? 6 : (kinds < 3 ? 6 : 0) + random.below(3);
      const SiteOf& of = sites[access.site];
      access.mask = random.below(everywhere ? 20 : 3) ? ~0u : 1u << random.below(32);
      const std::uint32_t shape = random.below(8), base = 1024 * random.below(60);
      for (unsigned lane = 0; lane < 32; ++lane) {
        // Mostly a place of the thread's own, so that there is something for a race to be missing in.
        const std::uint32_t own = (access.warp.block * 2 + access.warp.warp) * 32 + lane;
        if (everywhere && shape) { // words of the thread's own; bytes are as close
          const std::uint32_t at = (random.below(10) * 192 + own) * 4 + random.below(4);
          access.address[lane] = memory + (shape == 7 ? random.below(8000) : at) / of.bytes * of.bytes;
          if (!is_strong(of.ordering)) continue;
          access.order_first[lane] = access.order_last[lane] = ++ticket;
          access.wrote[lane] = true;
          continue;
        }
        access.address[lane] =
            memory + (shape == 0  ? base + lane * of.bytes
                      : shape < 7 ? ((random.below(16) * 192 + own) * 16 + random.below(16) / of.bytes * of.bytes)
                                  : random.below(1 << 12) * 16);
        if (!is_strong(of.ordering)) continue;
        access.order_first[lane] = access.order_last[lane] = ++ticket;
        access.wrote[lane] = true;
      }
      records.push_back(access);
    }
    records.push_back(trace::OperationEnd{number});
  }
  return records;
}

TEST(Scale, MemoryTouchedHereAndThere) {
  std::size_t races = 0;
  for (std::uint64_t seed = 1; seed <= 250; ++seed) {
    const Chunks chunks(here_and_there(seed), 60);
    ASSERT_EQ(left_out(chunks), "") << "seed " << seed;
    const std::string expected = found(chunks, 1);
    races += std::size_t(std::count(expected.begin(), expected.end(), '|'));
    ASSERT_EQ(found(chunks, 3), expected) << "seed " << seed;
  }
  EXPECT_GT(races, 500u);
}

TEST(Scale, MemoryTouchedEverywhere) {
  std::size_t races = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const Chunks chunks(here_and_there(seed, true), 60);
    ASSERT_EQ(left_out(chunks), "") << "seed " << seed;
    const std::string expected = found(chunks, 1);
    races += std::size_t(std::count(expected.begin(), expected.end(), '|'));
    ASSERT_EQ(found(chunks, 3), expected) << "seed " << seed;
  }
  EXPECT_GT(races, 200u);
}

// Most words of sixteen pages go from thread to thread: between two barriers of all blocks to any, between barriers of
// blocks within the block, between others not at all; and one in some hundred goes astray.
std::vector<trace::Record> handed_on(std::uint64_t seed) {
  Random random(seed);
  constexpr std::uint32_t blocks = 6, warps = 4, words = 1 << 14;
  const std::vector<SiteOf> sites{{AccessKind::read, Space::global, 4},
                                  {AccessKind::write, Space::global, 4},
                                  {AccessKind::read, Space::global, 4, 1, Ordering::nc},
                                  {AccessKind::atomic, Space::global, 4, 1, Ordering::acq_rel, Scope::gpu}};
  std::vector<trace::Record> records = launch(sites, blocks, warps, (words + 1024) * 4);
  const trace::Operation first = std::get<trace::Operation>(records[2]);
  std::uint32_t launched = 1, phase = 0;
  std::uint64_t ticket = 0;
  auto barriers = [&] {
    for (std::uint32_t block = 0; block < blocks; ++block)
      records.push_back(trace::BlockBarrier{launched, block, 0, ++phase, 1, 0});
  };
  auto meet = [&] { // all blocks
    barriers();
    for (std::uint32_t i = 0; i < 2 * blocks; ++i) { // the second time they see all
      trace::Access add;
      add.warp = {launched, i % blocks, 0};
      add.module = 1;
      add.site = 3;
      add.mask = 1;
      add.address[0] = memory + words * 4;
      add.value_read[0] = ticket;
      add.order_first[0] = add.order_last[0] = add.value_written[0] = ++ticket;
      add.wrote[0] = true;
      records.push_back(add);
    }
    barriers();
  };
  const std::uint32_t thinned = 1 + random.below(3), astray = 100 + random.below(1000);
  std::vector<std::uint32_t> thread_of(words);
  enum class Hands { any, of_block, own } hands = Hands::any;
  for (std::uint32_t step = 0, steps = 4 + random.below(4); step < steps; ++step) {
    const std::uint32_t writes_of_8 = step == 0 ? 8 : random.below(3) * 4, readers = 1 + random.below(2);
    struct One {
      std::uint32_t word, site;
    };
    std::vector<std::vector<One>> by_thread(blocks * warps * 32);
    for (std::uint32_t word = 0; word < words; ++word) {
      if (random.below(4) < thinned - 1) continue;
      const bool write = random.below(8) < writes_of_8;
      const std::uint32_t per_block = warps * 32;
      for (std::uint32_t reader = 0; reader < (write ? 1 : readers); ++reader) {
        std::uint32_t& thread = thread_of[word];
        if (hands == Hands::any) thread = random.below(blocks * per_block);
        if (hands == Hands::of_block) thread = thread / per_block * per_block + random.below(per_block);
        const std::uint32_t by = random.below(astray) ? thread : random.below(blocks * per_block);
        by_thread[by].push_back({word, write ? 1u : random.below(50) ? 0u : 2u});
      }
    }
    for (bool any = true; any;) { // warps in turn
      any = false;
      for (std::uint32_t warp = 0; warp < blocks * warps; ++warp) {
        for (std::uint32_t site = 0; site < 3; ++site) {
          trace::Access access;
          access.warp = {launched, warp / warps, warp % warps};
          access.module = 1;
          access.site = site;
          for (unsigned lane = 0; lane < 32; ++lane) {
            std::vector<One>& left = by_thread[warp * 32 + lane];
            if (left.empty() || left.back().site != site) continue;
            access.mask |= 1u << lane;
            access.address[lane] = memory + 4 * left.back().word;
            left.pop_back();
          }
          if (!access.mask) continue;
          any = true;
          records.push_back(access);
        }
      }
    }
    hands = Hands(random.below(3));
    if (hands == Hands::own) continue;
    if (hands == Hands::of_block) {
      barriers();
    } else if (random.below(2)) {
      meet();
    } else {
      records.push_back(trace::OperationEnd{launched});
      trace::Operation next = first;
      next.id = next.launch = ++launched;
      records.push_back(next);
      records.push_back(trace::OperationBegin{launched});
    }
  }
  records.push_back(trace::OperationEnd{launched});
  return records;
}

TEST(Scale, WordsHandedOn) {
  std::size_t races = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Chunks chunks(handed_on(seed), 600);
    ASSERT_EQ(left_out(chunks), "") << "seed " << seed;
    const std::string expected = found(chunks, 1);
    races += std::size_t(std::count(expected.begin(), expected.end(), '|'));
    if (seed % 4 == 0) {
      ASSERT_EQ(found(chunks, 3), expected) << "seed " << seed;
    }
  }
  EXPECT_GT(races, 20u);
}

// Block 0 reads all words, block 1 too, in an order of its own, and then block 0 writes them: each is in a race, also
// where a chunk's accesses lie in memory where those of the chunk before lay.
TEST(Scale, AChunkIsNotTakenForTheOneBefore) {
  constexpr std::uint32_t words = 1 << 13, warps = 8;
  std::vector<trace::Record> records =
      launch({{AccessKind::read, Space::global, 4}, {AccessKind::write, Space::global, 4}}, 2, warps, words * 4);
  auto each_word = [&](std::uint32_t block, std::uint32_t site, std::uint32_t factor) {
    for (std::uint32_t i = 0; i < words; i += 32) {
      trace::Access access;
      access.warp = {1, block, i / 32 % warps};
      access.module = 1;
      access.site = site;
      access.mask = ~0u;
      for (unsigned lane = 0; lane < 32; ++lane) {
        const std::uint32_t word = (i + lane) * factor % words;
        access.address[lane] = memory + 4 * (word ^ (word >> 6 & 3));
      }
      records.push_back(access);
    }
  };
  each_word(0, 0, 0x9e3779b1);
  each_word(1, 0, 0x85ebca6b);
  each_word(0, 1, 0x9e3779b1);
  records.push_back(trace::OperationEnd{1});
  for (const std::size_t length : {3u, 5u, 64u}) {
    const Chunks chunks(records, length);
    EXPECT_EQ(left_out(chunks), "") << length;
    EXPECT_EQ(detect::find_races(chunks).suspect_words, words) << length;
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
  EXPECT_EQ(findings.uncertain, 0u);
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
  for (std::size_t n = 1; n < chosen.size(); ++n) EXPECT_EQ(chosen[n].second.thread.block(), n < 12 ? 1u : 0u) << n;
  EXPECT_EQ(chosen[12], std::pair(touch(0, 0), touch(0, 1)));
}

} // namespace
} // namespace deadheat::test
