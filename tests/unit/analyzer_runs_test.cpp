// Ranges of many pages: what is kept once for all of them tells no less, and no more, than what each page would;
// against a list of all accesses and of who waited for whom.
#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/detect/page_runs.h"
#include "tests/unit/analyzer_chunks.h"
#include "tests/unit/seeds.h"

namespace deadheat::test {
namespace {

constexpr std::uint64_t page = 4096;
// Memory is of several owners, who do not begin at pages, each for a while.
constexpr std::uint32_t owners = 3, owner_words = 201 * 1024 + 300;
constexpr std::uint32_t streams = 3, most_operations = 22; // so few that none makes room for others in a word

struct Extent {
  std::uint64_t first = 0, end = 0; // bytes of the arena
  std::uint32_t owner = 0; // the allocation
};

// Operations of some streams on one arena: each has a name, or a line, of its own.
class Operations {
 public:
  explicit Operations(std::uint64_t seed) : random_(seed) {
    trace::Module module;
    module.id = 1;
    for (std::uint32_t i = 0; i < 2 * most_operations; ++i) {
      Site site;
      site.id = i;
      site.kind = SiteKind::access;
      site.access = i % 2 ? AccessKind::write : AccessKind::read;
      site.space = Space::global;
      site.element_bytes = 4;
      site.elements = 1;
      site.opcode = i % 2 ? "st.u32" : "ld.u32";
      site.source.push_back({"", "a.cu", i / 2 + 1, 1});
      module.sites.push_back(site);
    }
    records.push_back(module);
    for (std::uint32_t stream = 2; stream < 2 + streams; ++stream)
      records.push_back(trace::StreamCreate{stream, trace::StreamCreate::Kind::non_blocking, 0, 0, 1});
    for (std::uint32_t place = 0; place < owners; ++place) allocate(place);
    const std::uint32_t count = 4 + random_.below(most_operations - 4);
    while (operations_.size() < count) step();
  }

  std::vector<trace::Record> records;

  // Which pairs of operations nothing orders, and touch the same word, one of them writing it.
  std::set<std::pair<std::uint32_t, std::uint32_t>> races() const {
    std::set<std::pair<std::uint32_t, std::uint32_t>> found;
    for (std::uint32_t b = 0; b < operations_.size(); ++b)
      for (std::uint32_t a = 0; a < b; ++a)
        if (!operations_[b].before[a] && conflict(operations_[a], operations_[b])) found.insert({a + 1, b + 1});
    return found;
  }
  // Of such a pair: did an operation that comes after the first take its place, which races with the second, too?
  bool covered(std::uint32_t a, std::uint32_t b, const std::set<std::pair<std::uint32_t, std::uint32_t>>& all) const {
    for (std::uint32_t between = a + 1; between < b; ++between)
      if (operations_[between - 1].before[a - 1] && all.count({between, b})) return true;
    return false;
  }

 private:
  struct Operation {
    std::vector<std::pair<Extent, bool>> touched; // and whether it was written
    std::bitset<most_operations + 1> before; // operations that come before it
  };
  static bool conflict(const Operation& a, const Operation& b) {
    for (const auto& [one, wrote] : a.touched)
      for (const auto& [other, writes] : b.touched)
        if ((wrote || writes) && one.owner == other.owner && one.first < other.end && other.first < one.end)
          return true;
    return false;
  }

  static std::uint64_t begin_of(std::uint32_t place) { return place * std::uint64_t(owner_words) * 4; }
  void allocate(std::uint32_t place) {
    trace::Allocate allocation;
    allocation.allocation = owner_[place] = ++allocations_;
    allocation.address = memory + begin_of(place);
    allocation.bytes = owner_words * 4;
    records.push_back(allocation);
  }
  // Begins and ends at pages, or anywhere; few pages, or many.
  Extent some_extent() {
    static constexpr std::uint64_t lengths[] = {1, 1, 2, 9, 40, 201};
    const std::uint32_t place = random_.below(owners);
    const std::uint64_t begin = begin_of(place), end = begin_of(place + 1);
    Extent extent{begin + 4 * random_.below(owner_words), 0, owner_[place]};
    if (random_.below(3)) extent.first = std::max(begin, extent.first / page * page);
    extent.end = std::min(extent.first + lengths[random_.below(6)] * page, end);
    if (random_.below(3) == 0) extent.end -= 4 * random_.below(std::uint32_t((extent.end - extent.first) / 4));
    return extent;
  }

  void step() {
    const std::uint32_t stream = random_.below(streams);
    switch (random_.below(10)) {
      case 0: { // the host waits for a stream: what is submitted from then on comes after it
        records.push_back(trace::HostWait{trace::HostWait::Kind::stream, stream + 2, 0, false, 1});
        known_to_host_ |= tails_[stream];
        return;
      }
      case 1: { // a stream waits for another
        const std::uint32_t other = (stream + 1 + random_.below(streams - 1)) % streams;
        const std::uint32_t record = number();
        begin({}, other);
        end(other, {});
        records.push_back(trace::EventRecord{record, other + 2, record, 1});
        records.push_back(trace::StreamWait{stream + 2, record, record, 0, 1});
        tails_[stream] |= tails_[other];
        return;
      }
      case 2:
        if (random_.below(4) == 0) allocate(random_.below(owners));
        return;
      case 3:
      case 4: return kernel(stream);
      default: return range(stream);
    }
  }
  void begin(trace::Operation operation, std::uint32_t stream) {
    operation.id = number();
    operation.stream = stream + 2;
    operation.host_thread = 1;
    records.push_back(operation);
    records.push_back(trace::OperationBegin{operation.id});
  }
  void end(std::uint32_t stream, std::vector<std::pair<Extent, bool>> touched) {
    records.push_back(trace::OperationEnd{number()});
    const std::uint32_t index = number() - 1;
    tails_[stream] |= known_to_host_;
    operations_.push_back({std::move(touched), tails_[stream]});
    tails_[stream].set(index);
  }
  std::uint32_t number() const { return std::uint32_t(operations_.size() + 1); }

  void range(std::uint32_t stream) {
    const Extent at = some_extent();
    const std::string name = "op" + std::to_string(number());
    const trace::MemoryRange range{memory + at.first, 0, at.end - at.first, 1, 1, 0};
    trace::Operation operation;
    const bool writes = random_.below(2);
    if (writes) {
      operation.what = trace::Set{range, random_.below(256), 1, name};
    } else {
      trace::Copy copy;
      copy.source = range;
      copy.pageable_destination = true;
      copy.api = name;
      operation.what = copy;
    }
    begin(operation, stream);
    end(stream, {{at, writes}});
  }
  // One thread of a launch, here and there.
  void kernel(std::uint32_t stream) {
    trace::Launch launch;
    launch.module = 1;
    launch.kernel = "kernel";
    launch.grid = {1, 1, 1};
    launch.block = {32, 1, 1};
    launch.instrumented = true;
    trace::Operation operation;
    operation.launch = number();
    operation.what = launch;
    begin(operation, stream);
    std::vector<std::pair<Extent, bool>> touched;
    const bool near = random_.below(2); // all in a few pages
    const std::uint32_t place = random_.below(owners), from = random_.below(owner_words - 4096);
    for (std::uint32_t i = 0; i < 12; ++i) {
      trace::Access access;
      access.warp = {number(), 0, 0};
      access.module = 1;
      const bool writes = random_.below(3) == 0;
      access.site = 2 * number() - 2 + writes;
      access.space = Space::global;
      access.mask = random_.below(2) ? 1u : ~0u;
      const std::uint64_t offset =
          begin_of(place) + 4 * std::uint64_t(near ? from + random_.below(4000) : random_.below(owner_words - 32));
      for (unsigned lane = 0; lane < 32; ++lane) access.address[lane] = memory + offset + 4 * lane;
      records.push_back(access);
      touched.push_back({{offset, offset + 4u * unsigned(std::popcount(access.mask)), owner_[place]}, writes});
      trace::WarpBarrier barrier; // lanes of the one warp race with nobody but other operations
      barrier.warp = access.warp;
      barrier.mask = ~0u;
      records.push_back(barrier);
    }
    end(stream, std::move(touched));
  }

  Random random_;
  std::vector<Operation> operations_;
  std::bitset<most_operations + 1> tails_[streams], known_to_host_;
  std::uint32_t owner_[owners] = {}, allocations_ = 0;
};

// The operations' numbers, of each race.
std::set<std::pair<std::uint32_t, std::uint32_t>> pairs(const detect::Findings& findings) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> found;
  for (const detect::FoundRace& race : findings.races)
    found.insert(std::minmax(race.first.thread.operation(), race.second.thread.operation()));
  return found;
}

TEST(Runs, FindWhatAListOfAllAccessesDoes) {
  std::size_t total = 0, covered = 0, many = 0;
  for (const std::uint64_t seed : seeds(1, 1500)) {
    const Operations operations(seed);
    const Chunks chunks(operations.records, 50);
    const auto expected = operations.races();
    detect::FindOptions options;
    options.jobs = 1;
    const auto actual = pairs(detect::find_races(chunks, options));
    for (const auto& pair : actual)
      ASSERT_TRUE(expected.count(pair)) << "seed " << seed << ": " << pair.first << " and " << pair.second;
    for (const auto& [a, b] : expected) {
      const bool stood_for = !actual.count({a, b}) && operations.covered(a, b, expected);
      ASSERT_TRUE(stood_for || actual.count({a, b})) << "seed " << seed << ": " << a << " and " << b;
      covered += stood_for;
    }
    total += expected.size();
    many += expected.size() > 3;
  }
  EXPECT_GT(total, 2000u);
  EXPECT_GT(many, 100u);
  EXPECT_LT(covered, total / 5);
}

TEST(Runs, ThreadsAndMemoryDoNotMatter) {
  unsigned halved = 0, had_room = 0;
  for (const std::uint64_t seed : seeds(1001, 60)) {
    const Chunks chunks(Operations(seed).records, 20);
    const detect::Findings all = detect::find_races(chunks);
    for (unsigned jobs : {2u, 3u, 16u}) ASSERT_EQ(found(chunks, jobs), text(all)) << jobs << ", seed " << seed;
    for (std::uint64_t limit : {1u << 14, 1u << 16, 1u << 18, 1u << 20}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      had_room += loses_nothing_untold(chunks, all, 2, limit, &halved);
    }
  }
  EXPECT_GT(halved, 20u);
  EXPECT_GT(had_room, 100u);
}

// What a launch wrote, and a set behind it in its stream set, another stream's launch writes: it races with both.
TEST(Runs, WhatASetComesAfterIsToldToo) {
  for (const std::uint64_t bytes : {64u, 4096u, 8192u}) {
    std::vector<trace::Record> records = launch({{AccessKind::write, Space::global, 4}}, 1, 1, 1 << 16);
    const auto submitted = std::get<trace::Operation>(records[2]);
    records.resize(2);
    for (std::uint32_t number = 2; number < 4; ++number)
      records.push_back(trace::StreamCreate{number, trace::StreamCreate::Kind::non_blocking, 0, 0, 1});
    for (std::uint32_t number = 1; number < 4; ++number) {
      trace::Operation operation = submitted;
      operation.id = operation.launch = number;
      operation.stream = number == 3 ? 3 : 2;
      if (number == 2) operation.what = trace::Set{{memory, 0, bytes, 1, 1, 0}, 1, 1, "cudaMemsetAsync"};
      records.push_back(operation);
      records.push_back(trace::OperationBegin{number});
      if (number != 2) {
        trace::Access access;
        access.warp = {number, 0, 0};
        access.module = 1;
        access.mask = 1;
        access.address[0] = memory + 16;
        records.push_back(access);
      }
      if (number != 1) continue;
      records.push_back(trace::OperationEnd{number});
    }
    EXPECT_EQ(detect::find_races(Chunks(records, 1 << 20)).races.size(), 2u) << bytes << " bytes";
  }
}

// A set by each of two streams; `again`: its memory has another owner in between.
std::vector<trace::Record> two_sets(std::uint64_t offset, std::uint64_t bytes, bool again) {
  std::vector<trace::Record> records;
  trace::Allocate allocation;
  allocation.allocation = 1;
  allocation.address = memory + offset;
  allocation.bytes = bytes;
  for (std::uint32_t number : {1u, 2u}) {
    records.push_back(trace::StreamCreate{number + 1, trace::StreamCreate::Kind::non_blocking, 0, 0, 1});
    if (number == 1 || again) records.push_back(allocation);
    ++allocation.allocation;
    trace::Operation operation;
    operation.id = number;
    operation.stream = number + 1;
    operation.what = trace::Set{{memory + offset, 0, bytes, 1, 1, 0}, number, 1, "cudaMemsetAsync"};
    records.push_back(operation);
    records.push_back(trace::OperationBegin{number});
    records.push_back(trace::OperationEnd{number});
  }
  return records;
}

TEST(Runs, CountAPairForEachPageAndWordAtTheirEnds) {
  for (unsigned jobs : {1u, 3u}) {
    detect::FindOptions options;
    options.jobs = jobs;
    const auto findings = detect::find_races(Chunks(two_sets(4 * 1000, 100 * page, false), 100), options);
    ASSERT_EQ(findings.races.size(), 1u);
    EXPECT_EQ(findings.races[0].occurrences, 99u + 1024u);
    EXPECT_EQ(findings.suspect_words, 100u * 1024);
  }
}

TEST(Runs, AreForgottenWithTheirOwner) {
  for (std::uint64_t offset : {0u, 4000u}) {
    const auto findings = detect::find_races(Chunks(two_sets(offset, 100 * page, true), 100), {});
    EXPECT_EQ(findings.races.size(), 0u);
    EXPECT_EQ(findings.suspect_words, 0u) << offset;
  }
}

// One stream writes, and one thread of a launch in another reads, a word at `offset`.
class WriteAndLook {
 public:
  WriteAndLook() {
    records = launch({{AccessKind::read, Space::global, 4}}, 1, 1, 100 * page);
    launch_.assign(records.begin() + 2, records.end());
    records.resize(2);
    for (std::uint32_t stream : {2u, 3u})
      records.push_back(trace::StreamCreate{stream, trace::StreamCreate::Kind::non_blocking, 0, 0, 1});
  }
  void perform(decltype(trace::Operation::what) what) {
    trace::Operation operation;
    operation.id = ++number_;
    operation.stream = 2;
    operation.what = std::move(what);
    records.push_back(operation);
    records.push_back(trace::OperationBegin{operation.id});
    records.push_back(trace::OperationEnd{operation.id});
  }
  void set(std::uint64_t offset, std::uint64_t bytes) {
    perform(trace::Set{{memory + offset, 0, bytes, 1, 1, 0}, 1, 1, "cudaMemsetAsync"});
  }
  std::size_t races_at(std::uint64_t offset) {
    std::vector<trace::Record> all = records;
    auto operation = std::get<trace::Operation>(launch_[0]);
    operation.id = ++number_;
    operation.stream = 3;
    all.push_back(operation);
    all.push_back(trace::OperationBegin{operation.id});
    trace::Access access;
    access.warp = {1, 0, 0};
    access.module = 1;
    access.mask = 1;
    access.address[0] = memory + offset;
    all.push_back(access);
    all.push_back(trace::OperationEnd{operation.id});
    return detect::find_races(Chunks(all, 100), {}).races.size();
  }

  std::vector<trace::Record> records;

 private:
  std::vector<trace::Record> launch_;
  std::uint32_t number_ = 0;
};

TEST(Runs, KeepWhatWasDoneToAPageAlone) {
  WriteAndLook of;
  of.set(50 * page, page);
  trace::Copy copy; // reads all of it, and comes after the set
  copy.source = {memory, 0, 100 * page, 1, 1, 0};
  copy.pageable_destination = true;
  copy.api = "cudaMemcpyAsync";
  of.perform(copy);
  EXPECT_EQ(of.races_at(50 * page + 8), 1u);
  EXPECT_EQ(of.races_at(51 * page), 0u);
}

TEST(Runs, AreForgottenAsFarAsThereIsANewOwner) {
  WriteAndLook of;
  of.set(0, 100 * page);
  trace::Allocate allocation;
  allocation.allocation = 2;
  allocation.address = memory + 50 * page + 2048;
  allocation.bytes = 8 * page;
  of.records.push_back(allocation);
  EXPECT_EQ(of.races_at(50 * page + 2044), 1u);
  EXPECT_EQ(of.races_at(50 * page + 2048), 0u);
  EXPECT_EQ(of.races_at(58 * page + 2044), 0u);
  EXPECT_EQ(of.races_at(58 * page + 2048), 1u);
}

// ---- the runs themselves

using Numbers = detect::PageRuns<std::vector<int>>;

std::string text(Numbers& runs, std::uint64_t end) {
  std::string out;
  for (std::uint64_t at = 0; at < end; ++at) {
    const std::vector<int>* const found = runs.find(at);
    out += found ? "(" : ".";
    for (int number : found ? *found : std::vector<int>{}) out += std::to_string(number);
    if (found) out += ")";
  }
  return out;
}

TEST(Runs, AreCutWhereRangesBeginAndEnd) {
  Numbers runs;
  int pieces = 0;
  const auto add = [&](std::uint64_t first, std::uint64_t end, int number) {
    runs.over(first, end, [&](std::uint64_t, std::uint64_t, std::vector<int>& history) {
      history.push_back(number);
      ++pieces;
    });
    runs.join(first, end);
  };
  add(2, 8, 1);
  EXPECT_EQ(pieces, 1);
  add(4, 10, 2);
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(text(runs, 11), "..(1)(1)(12)(12)(12)(12)(2)(2).");
  runs.cut(5);
  runs.erase(5, 8, [](const std::vector<int>&) {});
  EXPECT_EQ(text(runs, 11), "..(1)(1)(12)...(2)(2).");
  add(5, 8, 2);
  pieces = 0;
  add(5, 10, 3);
  EXPECT_EQ(pieces, 1) << "what has one history is one run";
}

} // namespace
} // namespace deadheat::test
