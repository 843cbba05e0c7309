// Runs of many operations: what is over and behind everything is forgotten, and nothing of the answer with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/analyzer_chunks.h"

namespace deadheat::test {
namespace {

// Two streams that fill one buffer in turns: each waits for the other's event, and the host for each turn.
class Turns {
 public:
  Turns() {
    records.push_back(trace::StreamCreate{2, trace::StreamCreate::Kind::non_blocking, 0, 0, 1});
    records.push_back(trace::StreamCreate{3, trace::StreamCreate::Kind::non_blocking, 0, 0, 1});
    trace::Allocate buffer;
    buffer.allocation = 1;
    buffer.address = memory;
    buffer.bytes = 1 << 16;
    records.push_back(buffer);
  }
  // wait: the second stream waits for the first. host_waits: the host for both.
  void turn(bool wait, bool host_waits = true) {
    fill(2);
    if (wait) pass_on(2, 3);
    fill(3);
    pass_on(3, 2);
    if (host_waits) records.push_back(trace::HostWait{trace::HostWait::Kind::stream, 3, 0, false, 1});
  }
  std::uint32_t operations() const { return operations_; }

  std::vector<trace::Record> records;

 private:
  std::uint32_t perform(trace::Operation operation, std::uint32_t stream) {
    operation.id = ++operations_;
    operation.stream = stream;
    operation.host_thread = 1;
    records.push_back(operation);
    records.push_back(trace::OperationBegin{operation.id});
    records.push_back(trace::OperationEnd{operation.id});
    return operation.id;
  }
  void fill(std::uint32_t stream) {
    trace::Operation operation;
    trace::Set set;
    set.api = "cudaMemsetAsync";
    set.destination = {memory, 0, 1 << 16, 1, 1, 0};
    operation.what = set;
    perform(operation, stream);
  }
  void pass_on(std::uint32_t from, std::uint32_t to) {
    const std::uint32_t record = perform({}, from);
    records.push_back(trace::EventRecord{from, from, record, 1});
    records.push_back(trace::StreamWait{to, from, record, 0, 1});
  }
  std::uint32_t operations_ = 0;
};

detect::Findings findings(const std::vector<trace::Record>& records, unsigned jobs = 1) {
  detect::FindOptions options;
  options.jobs = jobs;
  return detect::find_races(Chunks(records, 1000), options);
}

bool remembers_clock(const detect::Findings& of, std::uint32_t operation) {
  const order::ChainClock& clock = of.detector->operations().complete_before(operation);
  return clock.begin() != clock.end();
}

TEST(LongRuns, WhatIsBehindEverythingIsForgotten) {
  Turns turns;
  for (int i = 0; i < 3000; ++i) turns.turn(true);
  const detect::Findings found = findings(turns.records);
  EXPECT_EQ(found.races.size(), 0u);
  std::uint32_t remembered = 0;
  for (std::uint32_t operation = 2; operation <= turns.operations(); ++operation)
    remembered += remembers_clock(found, operation);
  EXPECT_LT(remembered, 4000u) << "of " << turns.operations(); // two looks: of those that came since the last but one
  EXPECT_GT(remembered, 0u);
}

TEST(LongRuns, NothingIsForgottenThatTheHostHasNotWaitedFor) {
  Turns turns;
  for (int i = 0; i < 1000; ++i) turns.turn(true, false);
  const detect::Findings found = findings(turns.records);
  for (std::uint32_t operation = 2; operation <= turns.operations(); ++operation)
    ASSERT_TRUE(remembers_clock(found, operation)) << operation;
}

TEST(LongRuns, RacesAreFoundAndExplainedWhereverTheyAre) {
  for (int at : {3, 1500, 2999}) {
    Turns turns;
    std::uint32_t first = 0;
    for (int i = 0; i < 3000; ++i) {
      if (i == at) first = turns.operations() + 1;
      turns.turn(i != at);
    }
    for (unsigned jobs : {1u, 3u}) {
      const detect::Findings found = findings(turns.records, jobs);
      ASSERT_EQ(found.races.size(), 1u) << at;
      const detect::FoundRace& race = found.races[0];
      EXPECT_EQ(race.first.thread.operation(), first);
      EXPECT_EQ(race.second.thread.operation(), first + 1);
      // Explanations ask for what the two have in common.
      EXPECT_TRUE(remembers_clock(found, race.first.thread.operation())) << at;
      EXPECT_TRUE(remembers_clock(found, race.second.thread.operation())) << at;
      EXPECT_TRUE(found.detector->operations().ordered(first - 1, first + 1)) << at;
    }
  }
}

TEST(LongRuns, OperationsThatAreNotLookedAtAreCounted) {
  Turns turns;
  for (int i = 0; i < 10; ++i) turns.turn(i != 8);
  detect::FindOptions options;
  EXPECT_EQ(detect::find_races(Chunks(turns.records, 7), options).races.size(), 1u);
  options.most_operations = 20;
  const detect::Findings some = detect::find_races(Chunks(turns.records, 7), options);
  EXPECT_EQ(some.races.size(), 0u);
  EXPECT_EQ(some.detector->operations_left_out(), turns.operations() - 20);
}

TEST(LongRuns, LaunchesOfMoreBlocksThanHaveNamesAreUnknown) {
  const std::vector<SiteOf> sites{{AccessKind::write, Space::global, 4}};
  const auto unknown = [&](std::uint32_t blocks) {
    std::vector<trace::Record> records = launch(sites, blocks, 1, 1 << 16);
    trace::Access access;
    access.warp = {1, 0, 0};
    access.module = 1;
    access.mask = 1;
    access.address[0] = memory;
    records.push_back(access);
    return findings(records).unknown;
  };
  EXPECT_EQ(unknown(1u << 27), 0u);
  EXPECT_EQ(unknown(1u << 28), 1u);
}

} // namespace
} // namespace deadheat::test
