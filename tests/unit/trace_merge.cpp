// The warp merge against what it promises: every entry once, each lane's in its order.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <vector>

#include "tests/unit/trace_directory.h"
#include "tests/unit/trace_generate.h"
#include "tracer/recorder/reader.h"
#include "tracer/recorder/writer.h"

namespace deadheat::trace {
namespace {

using Lanes = std::vector<std::vector<LogEntry>>; // 32

void logs_of(const Lanes& lanes, LaneLog (&logs)[32]) {
  for (unsigned lane = 0; lane < 32; lane++) {
    logs[lane].begin = lanes[lane].data();
    logs[lane].end = logs[lane].begin + lanes[lane].size();
  }
}

// Undoes the merge: the entries of each lane, from the accesses.
struct Unmerged {
  Lanes lanes = Lanes(32);
  std::size_t accesses = 0;
  bool sound = true;
  void operator()(std::uint32_t site, std::uint32_t mask, Space space, const std::uint64_t* address,
                  const std::uint32_t* digest) {
    accesses++;
    sound &= mask != 0;
    for (unsigned lane = 0; lane < 32; lane++) {
      if (!(mask >> lane & 1)) continue;
      const std::uint64_t generic = address[lane] + window_start(space);
      sound &= space_of(generic) == space;
      lanes[lane].push_back({generic, site, digest ? digest[lane] : 0});
    }
  }
};

bool equal(const Lanes& a, const Lanes& b) {
  for (unsigned lane = 0; lane < 32; lane++) {
    if (a[lane].size() != b[lane].size()) return false;
    for (std::size_t i = 0; i < a[lane].size(); i++) {
      const LogEntry &x = a[lane][i], &y = b[lane][i];
      if (x.address != y.address || x.site != y.site || x.digest != y.digest) return false;
    }
  }
  return true;
}

// Paths of lanes through a random program: mostly the same, with branches, loops of different lengths, early exits.
Lanes random_lanes(Random& random) {
  Lanes lanes(32);
  const std::uint64_t shape = random.below(4);
  const std::uint32_t absent = random.below(2) ? 0 : std::uint32_t(random.engine());
  const std::size_t length = random.below(40);
  for (unsigned lane = 0; lane < 32; lane++) {
    if (absent >> lane & 1) continue;
    for (std::size_t i = 0; i < length; i++) {
      if (shape == 1 && random.below(10) == 0) break;
      LogEntry entry{};
      entry.site = std::uint32_t(i % 5);
      if (shape >= 2 && random.below(shape == 2 ? 20 : 2) == 0) entry.site = std::uint32_t(random.below(6));
      if (random.below(50) == 0) entry.site = ~0u;
      entry.address = device_bit + 4 * lane + 128 * i;
      const std::uint64_t where = random.below(shape == 0 ? 100 : 6);
      if (i % 3 == 1) entry.address = shared_window + 4 * lane;
      if (where == 1) entry.address = shared_window + random.below(1 << 20);
      if (where == 2) entry.address = random.engine() >> 16;
      if (where == 3 && random.below(4) == 0) entry.address = local_window + random.below(100);
      if (where == 4 && random.below(4) == 0) entry.address = param_window + random.below(100);
      if (i % 2) entry.digest = random.below(2) ? std::uint32_t(random.engine()) : lane;
      lanes[lane].push_back(entry);
    }
  }
  return lanes;
}

TEST(TraceMerge, KeepsEveryEntryInItsLanesOrder) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Random random(seed);
    const Lanes lanes = random_lanes(random);
    LaneLog logs[32];
    logs_of(lanes, logs);
    Unmerged unmerged;
    merge_warp(logs, unmerged);
    RC_ASSERT(unmerged.sound);
    RC_ASSERT(equal(unmerged.lanes, lanes));
  }));
}

TEST(TraceMerge, ThroughALogToo) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Random random(seed);
    const TestDirectory directory;
    WriterOptions options;
    options.chunk_bytes = 500;
    auto writer = TraceWriter::create(directory.path(), process_of(5), options);
    const Lanes lanes = random_lanes(random);
    LaneLog logs[32];
    logs_of(lanes, logs);
    (*writer)->write_warp({1, 2, 3}, 4, logs);
    RC_ASSERT((*writer)->finish(0).has_value());
    struct Collect : RecordVisitor {
      Unmerged unmerged;
      bool context = true;
      bool access(const AccessView& a) override {
        unmerged(a.site, a.mask, a.space, a.address, a.digest);
        context &= a.warp.launch == 1 && a.warp.block == 2 && a.warp.warp == 3 && a.module == 4 && !a.strong;
        return true;
      }
      bool record(Record&) override { return true; }
    } collect;
    auto log = LogReader::open(directory.file("5.log"));
    RC_ASSERT(log->for_each(collect));
    RC_ASSERT(collect.context);
    RC_ASSERT(log->complete());
    RC_ASSERT(equal(collect.unmerged.lanes, lanes));
  }));
}

std::vector<LogEntry> path(std::initializer_list<std::uint32_t> sites) {
  std::vector<LogEntry> entries;
  for (const std::uint32_t site : sites) entries.push_back({device_bit, site, 0});
  return entries;
}
std::size_t accesses_of(const Lanes& lanes) {
  LaneLog logs[32];
  logs_of(lanes, logs);
  Unmerged unmerged;
  merge_warp(logs, unmerged);
  EXPECT_TRUE(equal(unmerged.lanes, lanes));
  return unmerged.accesses;
}

TEST(TraceMerge, LanesJoinAgainAfterABranch) {
  Lanes lanes(32, path({1, 2, 5, 6}));
  EXPECT_EQ(accesses_of(lanes), 4u);
  for (unsigned lane = 0; lane < 16; lane++) lanes[lane] = path({1, 3, 4, 5, 6});
  EXPECT_EQ(accesses_of(lanes), 6u); // 1 2 3 4 5 6
}

TEST(TraceMerge, LanesJoinAgainAfterALoop) {
  Lanes lanes(32, path({1, 2, 1, 2, 9}));
  for (unsigned lane = 0; lane < 5; lane++) lanes[lane] = path({1, 2, 1, 2, 1, 2, 1, 2, 9});
  for (unsigned lane = 5; lane < 7; lane++) lanes[lane].clear();
  EXPECT_EQ(accesses_of(lanes), 9u);
}

} // namespace
} // namespace deadheat::trace
