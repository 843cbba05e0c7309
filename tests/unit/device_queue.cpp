// What is recorded through another thread is what is recorded without one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/device/trace_sink.h"
#include "trace_directory.h"
#include "trace_generate.h"

namespace deadheat::device_test {

namespace {

using trace::Random;
using trace::TestDirectory;

constexpr std::uint32_t fixed_pid = 4711;

// Several batches of logs of all lengths, records between them, and a flush on the way.
void put_all(device::TraceSink& sink, std::uint64_t seed) {
  Random random(seed);
  std::vector<engine::LogEntry> log[32];
  for (std::uint32_t n = 0; n < 9000; ++n) {
    device::LaneLogs logs;
    const std::uint64_t lanes = random.engine();
    const std::size_t most = n % 1000 == 7 ? 3 * device::RecordQueue::batch_entries / 32 : 1 + random.below(24);
    for (unsigned lane = 0; lane < 32; ++lane) {
      log[lane].clear();
      for (std::size_t i = lanes >> lane & 1 ? most : 0; i > 0; --i)
        log[lane].push_back({0x8000'1000'0000 + 4 * lane + random.below(64), std::uint32_t(random.below(9)),
                             std::uint32_t(random.engine())});
      logs.begin[lane] = log[lane].data();
      logs.end[lane] = log[lane].data() + log[lane].size();
    }
    sink.weak_accesses({1, n / 8, n % 8}, 1, logs);
    if (n % 3 == 0) sink.record(trace::BlockBarrier{1, n / 8, 0, n, 1, 5});
    if (n % 5 == 0) sink.record(random.any());
    if (n == 4000) sink.flush();
  }
}

std::vector<char> log_of(unsigned cores, std::uint64_t seed) {
  TestDirectory directory;
  auto sink = device::TraceSink::create(directory.path(), trace::process_of(fixed_pid), {}, cores);
  EXPECT_TRUE(sink);
  put_all(**sink, seed);
  EXPECT_TRUE((*sink)->finish(0));
  return trace::read_file(directory.file(std::to_string(fixed_pid) + ".log"));
}

} // namespace

TEST(RecordQueue, WritesTheSameBytes) {
  for (std::uint64_t seed : {1, 2}) {
    const std::vector<char> alone = log_of(1, seed);
    ASSERT_GT(alone.size(), 1u << 20);
    EXPECT_TRUE(alone == log_of(2, seed));
    EXPECT_TRUE(alone == log_of(16, seed));
  }
}

TEST(RecordQueue, WhatWasFlushedIsInTheFile) {
  TestDirectory directory;
  auto sink = device::TraceSink::create(directory.path(), trace::process_of(fixed_pid), {}, 2);
  ASSERT_TRUE(sink);
  for (std::uint32_t n = 0; n < 5000; ++n) (*sink)->record(trace::BlockBarrier{1, n, 0, n, 1, 5});
  (*sink)->flush();
  const std::string path = directory.file(std::to_string(fixed_pid) + ".log.incomplete");
  const std::size_t flushed = trace::read_file(path).size();
  EXPECT_GT(flushed, 5000u);
  (*sink)->flush();
  EXPECT_EQ(trace::read_file(path).size(), flushed);
}

// The child has a copy of the sink, and no thread to serve it.
TEST(RecordQueue, AForkNeitherWaitsNorWrites) {
  TestDirectory directory;
  auto sink = device::TraceSink::create(directory.path(), trace::process_of(fixed_pid), {}, 2);
  ASSERT_TRUE(sink);
  for (std::uint32_t n = 0; n < 10000; ++n) (*sink)->record(trace::BlockBarrier{1, n, 0, n, 1, 5});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    (*sink)->flush();
    sink->reset();
    _exit(7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  EXPECT_TRUE((*sink)->finish(0));
}

} // namespace deadheat::device_test
