// The writer among threads, processes and full disks.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "tests/unit/trace_directory.h"
#include "tests/unit/trace_generate.h"
#include "tracer/recorder/blobs.h"
#include "tracer/recorder/describe.h"
#include "tracer/recorder/reader.h"
#include "tracer/recorder/writer.h"

namespace deadheat::trace {
namespace {

// Runs `body` in a process of its own; 0 when it returned true.
template <class Body> int in_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(TraceWriter, AnUnfinishedLogIsRecognised) {
  const TestDirectory directory;
  {
    auto writer = TraceWriter::create(directory.path(), process_of(5));
    (*writer)->write(GraphEnd{1});
    EXPECT_TRUE(std::filesystem::exists(directory.file("5.log.incomplete")));
  }
  auto trace = TraceReader::open(directory.path());
  ASSERT_EQ(trace->logs().size(), 1u);
  EXPECT_TRUE(trace->logs()[0].incomplete);
  auto log = trace->open_log(0);
  Record record;
  EXPECT_TRUE(log->next(record) && log->next(record)); // what was flushed is there
  EXPECT_FALSE(log->next(record));
  EXPECT_FALSE(log->complete());
  EXPECT_EQ(log->warnings().size(), 1u);
}

TEST(TraceWriter, ARecordThatIsLeftOutLeavesAGap) {
  const TestDirectory directory;
  auto writer = TraceWriter::create(directory.path(), process_of(5));
  ASSERT_TRUE(writer);
  (*writer)->write(Incident{"before", 1, ""});
  for (int i = 0; i < 2; i++) (*writer)->write(Incident{"large", 1, std::string(max_record_bytes + 1, 'x')});
  (*writer)->write(Incident{"behind", 1, ""});
  (*writer)->write(Incident{"further behind", 1, ""});
  ASSERT_TRUE((*writer)->finish(0));
  EXPECT_EQ((*writer)->counts().lost_records, 2u);
  Expected<LogReader> log = LogReader::open(directory.file("5.log"));
  ASSERT_TRUE(log);
  ASSERT_EQ(log->chunk_count(), 3u);
  EXPECT_FALSE(log->gap_before(1));
  EXPECT_TRUE(log->gap_before(2));
  EXPECT_FALSE(log->complete());
}

TEST(TraceWriter, FinishIsOnceAndLaterRecordsAreLost) {
  const TestDirectory directory;
  auto writer = TraceWriter::create(directory.path(), process_of(5));
  EXPECT_TRUE((*writer)->finish(0));
  EXPECT_TRUE((*writer)->finish(1));
  (*writer)->write(GraphEnd{1});
  (*writer)->flush();
  EXPECT_EQ((*writer)->counts().lost_records, 1u);
  EXPECT_TRUE(LogReader::open(directory.file("5.log"))->complete());
}

TEST(TraceWriter, AKilledProcessLeavesItsWholeChunks) {
  const TestDirectory directory;
  const int status = in_child([&] {
    auto writer = TraceWriter::create(directory.path(), process_of(5));
    (*writer)->write(GraphEnd{1});
    (*writer)->flush();
    (*writer)->write(GraphEnd{2});
    ::raise(SIGKILL);
    return true;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  auto trace = TraceReader::open(directory.path());
  auto log = trace->open_log(0);
  Record record;
  EXPECT_TRUE(log->next(record) && log->next(record));
  EXPECT_EQ(std::get<GraphEnd>(record).id, 1u);
  EXPECT_FALSE(log->next(record));
  EXPECT_FALSE(log->complete());
}

TEST(TraceWriter, TwoProcessesInOneTraceShareBlobs) {
  const TestDirectory directory;
  const std::vector<std::uint8_t> data(100000, 42);
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ(in_child([&] {
                auto writer = TraceWriter::create(directory.path(), Process{});
                (*writer)->add_blob(data);
                (*writer)->add_blob(data);
                return (*writer)->finish(0).has_value();
              }),
              0);
  }
  auto trace = TraceReader::open(directory.path());
  EXPECT_EQ(trace->logs().size(), 2u);
  EXPECT_EQ(*trace->blob(hash_blob(data)), data);
  unsigned files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory.file(blob_directory))) {
    files += entry.is_regular_file();
  }
  EXPECT_EQ(files, 1u);
}

TEST(TraceWriter, AProgramThatRunsInPlaceOfAnotherHasALogOfItsOwn) {
  const TestDirectory directory;
  for (unsigned i = 0; i < 3; i++) {
    auto writer = TraceWriter::create(directory.path(), process_of(5));
    if (i == 1) continue; // killed
    EXPECT_TRUE((*writer)->finish(0));
  }
  auto trace = TraceReader::open(directory.path());
  ASSERT_EQ(trace->logs().size(), 3u);
  EXPECT_EQ(trace->logs()[0].name, "5.log");
  EXPECT_EQ(trace->logs()[1].name, "5-2.log.incomplete");
  EXPECT_EQ(trace->logs()[2].name, "5-3.log");
}

TEST(TraceWriter, AForkDoesNotTouchTheLog) {
  const TestDirectory directory;
  auto writer = TraceWriter::create(directory.path(), process_of(5));
  (*writer)->write(GraphEnd{1});
  EXPECT_EQ(in_child([&] {
              (*writer)->write(GraphEnd{2});
              (*writer)->flush();
              const bool finished = (*writer)->finish(0).has_value();
              (*writer).reset();
              return finished;
            }),
            0);
  (*writer)->write(GraphEnd{3});
  EXPECT_TRUE((*writer)->finish(0));
  auto log = LogReader::open(directory.file("5.log"));
  Record record;
  std::vector<std::uint32_t> ids;
  while (log->next(record)) {
    if (const GraphEnd* end = std::get_if<GraphEnd>(&record)) ids.push_back(end->id);
  }
  EXPECT_EQ(ids, (std::vector<std::uint32_t>{1, 3}));
  EXPECT_TRUE(log->complete());
}

TEST(TraceWriter, BytesAreInlineOrBlobs) {
  const TestDirectory directory;
  auto writer = TraceWriter::create(directory.path(), process_of(5));
  for (const std::size_t size :
       {std::size_t(0), std::size_t(1), inline_bytes, inline_bytes + 1, std::size_t(3) << 20}) {
    std::vector<std::uint8_t> data(size);
    std::mt19937 random(7);
    for (std::uint8_t& byte : data) byte = std::uint8_t(random());
    const Bytes kept = (*writer)->bytes(data);
    EXPECT_EQ(kept.size, size);
    EXPECT_EQ(kept.inlined.empty(), size == 0 || size > inline_bytes);
    EXPECT_EQ(*TraceReader::open(directory.path())->bytes(kept), data);
  }
}

// What a program prints after it closed a descriptor goes nowhere, and not into a log that took the number.
TEST(TraceWriter, LogsTakeNoStandardDescriptor) {
  const TestDirectory directory;
  EXPECT_EQ(in_child([&] {
              for (int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(number);
              auto writer = TraceWriter::create(directory.path(), process_of(5), {});
              (*writer)->add_blob(std::vector<std::uint8_t>(5000, 1));
              const bool open = ::fcntl(STDIN_FILENO, F_GETFD) >= 0 || ::fcntl(STDOUT_FILENO, F_GETFD) >= 0 ||
                                ::fcntl(STDERR_FILENO, F_GETFD) >= 0;
              return (*writer)->finish(0).has_value() && !open;
            }),
            0);
  auto log = LogReader::open(directory.file("5.log"));
  ASSERT_TRUE(log);
  EXPECT_TRUE(log->complete());
}

TEST(TraceWriter, AFullDiskStopsTheRecordingNotTheProgram) {
  const TestDirectory directory;
  EXPECT_EQ(in_child([&] {
              const rlimit limit{100000, 100000};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              unsigned errors = 0;
              WriterOptions options;
              options.chunk_bytes = 20000;
              options.on_error = [&](const Error& error) {
                errors++;
                if (error.message().find("File too large") == std::string::npos) errors += 100;
              };
              auto writer = TraceWriter::create(directory.path(), process_of(5), options);
              std::mt19937_64 random(1);
              for (unsigned i = 0; i < 2000; i++) {
                Access access;
                access.mask = ~0u;
                for (std::uint64_t& address : access.address) address = random() >> 20;
                (*writer)->write(access);
              }
              std::vector<std::uint8_t> large(300000);
              for (std::uint8_t& byte : large) byte = std::uint8_t(random());
              (*writer)->add_blob(large);
              (*writer)->flush();
              const bool refused = !(*writer)->finish(0);
              const WriterCounts counts = (*writer)->counts();
              return refused && errors == 1 && counts.lost_records > 100 &&
                     counts.records + counts.lost_records == 2002 && counts.file_bytes <= 100000;
            }),
            0);
  auto trace = TraceReader::open(directory.path());
  auto log = trace->open_log(0);
  EXPECT_EQ(log->warnings().size(), 1u); // it ends with a whole chunk
  Record record;
  unsigned accesses = 0;
  while (log->next(record)) accesses += std::holds_alternative<Access>(record);
  EXPECT_GT(accesses, 100u);
  EXPECT_TRUE(log->lost().empty());
  EXPECT_FALSE(log->complete());
}

TEST(TraceWriter, ABlobThatDoesNotFitIsReportedAndTheLogGoesOn) {
  const TestDirectory directory;
  EXPECT_EQ(in_child([&] {
              const rlimit limit{50000, 50000};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              unsigned errors = 0;
              WriterOptions options;
              options.on_error = [&](const Error&) { errors++; };
              auto writer = TraceWriter::create(directory.path(), process_of(5), options);
              std::mt19937 random(1);
              std::vector<std::uint8_t> large(300000);
              for (std::uint8_t& byte : large) byte = std::uint8_t(random());
              (*writer)->add_blob(large);
              return (*writer)->finish(0).has_value() && errors == 1;
            }),
            0);
  auto log = LogReader::open(directory.file("5.log"));
  ASSERT_TRUE(log);
  EXPECT_FALSE(log->complete());
  ASSERT_EQ(log->warnings().size(), 1u);
  EXPECT_NE(log->warnings()[0].find("1 record could not be written"), std::string::npos);
}

TEST(TraceWriter, WhereNothingCanBeWrittenIsSaid) {
  const TestDirectory directory;
  write_file(directory.file("file"), {'x'});
  EXPECT_EQ(TraceWriter::create(directory.file("file"), Process{}).error().what, "is not a directory");
  EXPECT_FALSE(TraceWriter::create(directory.file("file/below"), Process{}));
  EXPECT_FALSE(TraceWriter::create("/proc/nowhere", Process{}));
}

TEST(TraceWriter, ThreadsWriteTogether) {
  const TestDirectory directory;
  constexpr std::uint32_t threads = 4, each = 3000;
  {
    WriterOptions options;
    options.chunk_bytes = 4096;
    auto writer = TraceWriter::create(directory.path(), process_of(5), options);
    std::vector<std::thread> running;
    for (std::uint32_t t = 0; t < threads; t++) {
      running.emplace_back([&, t] {
        for (std::uint32_t i = 0; i < each; i++) {
          (*writer)->write(WarpBarrier{{t, i, 0}, 1, i, ~0u});
          if (i % 500 == 0) (*writer)->add_blob(std::vector<std::uint8_t>(5000 + i, 1));
        }
      });
    }
    for (std::thread& thread : running) thread.join();
    EXPECT_TRUE((*writer)->finish(0));
  }
  auto log = LogReader::open(directory.file("5.log"));
  std::uint32_t next[threads] = {};
  Record record;
  while (log->next(record)) {
    if (const WarpBarrier* barrier = std::get_if<WarpBarrier>(&record)) {
      EXPECT_EQ(barrier->warp.block, next[barrier->warp.launch]++); // each thread's records in its order
      EXPECT_EQ(barrier->site, barrier->warp.block);
    }
  }
  for (const std::uint32_t n : next) EXPECT_EQ(n, each);
  EXPECT_TRUE(log->complete());

  // Chunks decode in parallel.
  std::atomic<std::size_t> chunk{0}, records{0};
  std::vector<std::thread> decoding;
  for (unsigned t = 0; t < threads; t++) {
    decoding.emplace_back([&] {
      for (std::size_t i; (i = chunk++) < log->chunk_count();) {
        auto payload = log->chunk(i);
        Decoder decoder(*payload);
        while (decoder.next() < Decoder::Item::end) records++;
      }
    });
  }
  for (std::thread& thread : decoding) thread.join();
  EXPECT_EQ(records, log->end()->records);
}

TEST(TraceDescribe, OneLineARecord) {
  Random random(1);
  for (unsigned i = 0; i < 2000; i++) {
    const std::string line = describe(random.any());
    EXPECT_FALSE(line.empty());
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
  Access access;
  access.warp = {1, 2, 3};
  access.module = 4;
  access.site = 5;
  access.mask = 3;
  access.space = Space::shared;
  access.address[1] = 16;
  access.digest[1] = 0xAB;
  EXPECT_EQ(describe(access), "access launch 1 block 2 warp 3 site 4:5 lanes 00000003 shared 0x0 0x10#ab");
}

TEST(TraceDescribe, ASummaryCounts) {
  const TestDirectory directory;
  {
    auto writer = TraceWriter::create(directory.path(), process_of(5));
    Operation operation;
    operation.id = 1;
    operation.launch = 1;
    Launch launch;
    launch.kernel = "_Z1kv";
    launch.instrumented = true;
    operation.what = launch;
    (*writer)->write(operation);
    Access access;
    access.mask = 0xFF;
    (*writer)->write(access);
    access.mask = 1;
    access.order_first[0] = access.order_last[0] = 1;
    (*writer)->write(access);
    Allocate allocate;
    allocate.bytes = 2048;
    (*writer)->write(allocate);
    (*writer)->write(Incident{"opaque", 2, "two"});
    EXPECT_TRUE((*writer)->finish(0));
  }
  const auto summary = summarize(directory.path());
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->launches, 1u);
  EXPECT_EQ(summary->instrumented, 1u);
  EXPECT_EQ(summary->kernels.at("_Z1kv"), 1u);
  EXPECT_EQ(summary->accesses, 9u);
  EXPECT_EQ(summary->strong_accesses, 1u);
  EXPECT_EQ(summary->access_records, 2u);
  EXPECT_EQ(summary->allocated_bytes, 2048u);
  EXPECT_EQ(summary->incidents.size(), 1u);
  EXPECT_TRUE(summary->complete);
  EXPECT_GT(summary->bytes_per_access(), 0);
  EXPECT_NE(to_text(*summary).find("9 (1 strong)"), std::string::npos);
  std::size_t lines = 0;
  EXPECT_TRUE(describe_records(directory.path(), [&](const std::string&) { lines++; }));
  EXPECT_EQ(lines, 7u);
  EXPECT_FALSE(summarize(directory.file("none")));
}

} // namespace
} // namespace deadheat::trace
