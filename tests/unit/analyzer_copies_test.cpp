// Copies beside their threads: who comes after them.
#include <string>
#include <vector>

#include "deadheat/address.h"
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

using Races = std::vector<std::string>;

class AsyncCopies : public ::testing::Test {
 protected:
  LittleTrace trace;
  std::uint32_t shared_read = trace.site(4, {.space = Space::shared});
  std::uint32_t copy = trace.site(8, {.space = Space::shared, .kind = SiteKind::async_copy});
  void issue(std::uint32_t l, std::uint32_t thread, std::uint64_t to) {
    trace::AsyncCopy record;
    record.warp = {l, 0, thread / 32};
    record.module = 1;
    record.site = copy;
    record.mask = 1u << thread % 32;
    record.bytes = 4;
    record.destination[thread % 32] = to;
    record.source[thread % 32] = memory;
    record.source_bytes[thread % 32] = 4;
    trace.add(record);
  }
  void commit(std::uint32_t l, std::uint32_t thread) {
    trace::AsyncCommit record;
    record.warp = {l, 0, thread / 32};
    record.mask = 1u << thread % 32;
    trace.add(record);
  }
  void wait(std::uint32_t l, std::uint32_t thread, std::uint32_t pending) {
    trace::AsyncWait record;
    record.warp = {l, 0, thread / 32};
    record.mask = 1u << thread % 32;
    record.pending = pending;
    trace.add(record);
  }
};

TEST_F(AsyncCopies, TheIssuerItselfMustWait) {
  auto l = trace.launch();
  issue(l, 0, 0);
  commit(l, 0);
  trace.access(l, 0, 0, shared_read, 0);
  EXPECT_EQ(trace.races(), Races{"4-8"});
}

TEST_F(AsyncCopies, WaitAndBarrierOrder) {
  auto l = trace.launch();
  issue(l, 0, 0);
  commit(l, 0);
  wait(l, 0, 0);
  trace.access(l, 0, 0, shared_read, 0);
  trace.block_barrier(l, 0);
  trace.access(l, 0, 40, shared_read, 0);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(AsyncCopies, ABarrierAloneDoesNot) {
  auto l = trace.launch();
  issue(l, 0, 0);
  commit(l, 0);
  trace.block_barrier(l, 0);
  trace.access(l, 0, 40, shared_read, 0);
  EXPECT_EQ(trace.races(), Races{"4-8"});
}

TEST_F(AsyncCopies, PendingGroupsAreNotWaitedFor) {
  auto l = trace.launch();
  issue(l, 0, 0);
  commit(l, 0);
  issue(l, 0, 4);
  commit(l, 0);
  wait(l, 0, 1);
  trace.access(l, 0, 0, shared_read, 0);
  EXPECT_EQ(trace.races(), Races{});
  trace.access(l, 0, 0, shared_read, 4);
  EXPECT_EQ(trace.races(), Races{"4-8"});
}

TEST_F(AsyncCopies, AsynchronousAccessesAreCounted) {
  const std::uint32_t site = trace.site(8, {.space = Space::shared, .kind = SiteKind::bulk_copy});
  const std::uint32_t launch = trace.launch();
  trace::BulkCopy copy;
  copy.warp = {launch, 0, 0};
  copy.module = 1;
  copy.site = site;
  copy.mask = 3;
  copy.destination.fill(shared_window);
  copy.bytes.fill(4);
  trace.add(copy); // as st.async: nothing is read
  copy.mask = 4;
  copy.source.fill(memory);
  trace.add(copy);
  trace.end_launch(launch);
  EXPECT_EQ(trace.analyze().summary.accesses, 4u);
}

} // namespace
} // namespace deadheat::test
