// Logs that were cut off, damaged, or written by another version: what is left is read, what is missing is said.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include <xxhash.h>

#include "tests/unit/trace_directory.h"
#include "tests/unit/trace_generate.h"
#include "tracer/recorder/blobs.h"
#include "tracer/recorder/reader.h"
#include "tracer/recorder/writer.h"

namespace deadheat::trace {
namespace {

constexpr unsigned chunk_records = 3, record_count = 30;

// A log of small chunks: Process alone, then Incidents "0" … "29" three a chunk, then ProgramEnd.
std::string write_small_log(const TestDirectory& directory) {
  Process process;
  process.pid = 9;
  process.start_nanoseconds = 1;
  auto writer = TraceWriter::create(directory.path(), process);
  for (unsigned i = 0; i < record_count; i++) {
    (*writer)->write(Incident{std::to_string(i), i, "some text"});
    if (i % chunk_records == chunk_records - 1) (*writer)->flush();
  }
  EXPECT_TRUE((*writer)->finish(0));
  return directory.file("9.log");
}

struct Outcome {
  bool opened = false, process = false, program_end = false, complete = false;
  std::vector<unsigned> incidents;
  std::vector<std::string> warnings;
  std::vector<LostRange> lost;
};

Outcome read_log(const std::string& path) {
  Outcome outcome;
  auto log = LogReader::open(path);
  if (!log) {
    outcome.warnings.push_back(log.error().message());
    return outcome;
  }
  outcome.opened = true;
  Record record;
  while (log->next(record)) {
    if (std::holds_alternative<Process>(record)) outcome.process = true;
    if (std::holds_alternative<ProgramEnd>(record)) outcome.program_end = true;
    if (const Incident* incident = std::get_if<Incident>(&record)) {
      EXPECT_EQ(incident->kind, std::to_string(incident->count));
      outcome.incidents.push_back(unsigned(incident->count));
    }
  }
  outcome.complete = log->complete();
  outcome.warnings = log->warnings();
  outcome.lost = log->lost();
  return outcome;
}

void expect_one_line_each(const Outcome& outcome) {
  for (const std::string& warning : outcome.warnings) {
    EXPECT_EQ(warning.find('\n'), std::string::npos);
    EXPECT_NE(warning.find("9.log"), std::string::npos) << warning;
  }
}

TEST(TraceDamage, AWholeLogIsComplete) {
  const TestDirectory directory;
  const Outcome outcome = read_log(write_small_log(directory));
  EXPECT_TRUE(outcome.complete && outcome.process && outcome.program_end);
  EXPECT_EQ(outcome.incidents.size(), record_count);
  EXPECT_TRUE(outcome.warnings.empty());
}

TEST(TraceDamage, CutOffAnywhere) {
  const TestDirectory directory;
  const std::string path = write_small_log(directory);
  const std::vector<char> whole = read_file(path);
  const auto log = LogReader::open(path);
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    write_file(path, {whole.begin(), whole.begin() + std::ptrdiff_t(size)});
    const Outcome outcome = read_log(path);
    SCOPED_TRACE(size);
    EXPECT_FALSE(outcome.complete);
    EXPECT_FALSE(outcome.warnings.empty());
    expect_one_line_each(outcome);
    std::size_t expected = 0; // records of the chunks that are whole
    for (std::size_t chunk = 1; chunk < log->chunk_count(); chunk++) {
      const ChunkInfo& info = log->chunk_info(chunk);
      if (info.offset + sizeof(ChunkHeader) + info.stored_bytes <= size) expected += info.records;
    }
    expected = std::min<std::size_t>(expected, record_count); // the last one's is ProgramEnd
    EXPECT_EQ(outcome.incidents.size(), expected);
    for (unsigned i = 0; i < outcome.incidents.size(); i++) EXPECT_EQ(outcome.incidents[i], i);
  }
}

// A flipped byte costs one chunk at most (its own), never what is before or after.
TEST(TraceDamage, AFlippedByteAnywhere) {
  const TestDirectory directory;
  const std::string path = write_small_log(directory);
  const std::vector<char> whole = read_file(path);
  const auto log = LogReader::open(path);
  for (std::size_t at = 0; at < whole.size(); at++) {
    for (const int flip : {0x01, 0xFF}) {
      std::vector<char> bytes = whole;
      bytes[at] = char(bytes[at] ^ flip);
      write_file(path, bytes);
      const Outcome outcome = read_log(path);
      SCOPED_TRACE(at);
      ASSERT_TRUE(outcome.opened);
      EXPECT_FALSE(outcome.complete);
      EXPECT_FALSE(outcome.warnings.empty());
      expect_one_line_each(outcome);
      std::vector<unsigned> expected;
      bool process = true, program_end = true;
      for (std::size_t chunk = 0; chunk < log->chunk_count(); chunk++) {
        const ChunkInfo& info = log->chunk_info(chunk);
        const bool hit = at >= info.offset && at < info.offset + sizeof(ChunkHeader) + info.stored_bytes;
        if (chunk == 0) {
          process = !hit;
        } else if (chunk + 1 == log->chunk_count()) {
          program_end = !hit;
        } else if (!hit) {
          for (unsigned i = 0; i < chunk_records; i++) expected.push_back(unsigned(chunk - 1) * chunk_records + i);
        }
      }
      EXPECT_EQ(outcome.incidents, expected);
      EXPECT_EQ(outcome.process, process);
      EXPECT_EQ(outcome.program_end, program_end);
      EXPECT_TRUE(std::any_of(outcome.lost.begin(), outcome.lost.end(), [&](const LostRange& range) {
        return at >= range.offset && at < range.offset + range.bytes;
      }));
    }
  }
}

TEST(TraceDamage, BytesMissingOrAddedInTheMiddle) {
  const TestDirectory directory;
  const std::string path = write_small_log(directory);
  const std::vector<char> whole = read_file(path);
  const auto log = LogReader::open(path);
  const std::ptrdiff_t middle = std::ptrdiff_t(log->chunk_info(4).offset + sizeof(ChunkHeader) + 10);
  for (const bool add : {false, true}) {
    std::vector<char> bytes = whole;
    if (add) {
      bytes.insert(bytes.begin() + middle, 1000, 'x');
    } else {
      bytes.erase(bytes.begin() + middle, bytes.begin() + middle + 9);
    }
    write_file(path, bytes);
    const Outcome outcome = read_log(path);
    EXPECT_FALSE(outcome.complete);
    EXPECT_EQ(outcome.incidents.size(), record_count - chunk_records);
    EXPECT_TRUE(outcome.program_end);
  }
}

TEST(TraceDamage, AMissingChunkIsNoticed) {
  const TestDirectory directory;
  const std::string path = write_small_log(directory);
  std::vector<char> bytes = read_file(path);
  const auto log = LogReader::open(path);
  bytes.erase(bytes.begin() + std::ptrdiff_t(log->chunk_info(2).offset),
              bytes.begin() + std::ptrdiff_t(log->chunk_info(4).offset));
  write_file(path, bytes);
  const Outcome outcome = read_log(path);
  EXPECT_FALSE(outcome.complete);
  EXPECT_EQ(outcome.incidents.size(), record_count - 2 * chunk_records);
  ASSERT_EQ(outcome.lost.size(), 1u);
  EXPECT_EQ(outcome.lost[0].first_chunk, 2u);
  EXPECT_EQ(outcome.lost[0].chunks, 2u);
}

TEST(TraceDamage, VerifyFindsItWithoutReadingRecords) {
  const TestDirectory directory;
  const std::string path = write_small_log(directory);
  std::vector<char> bytes = read_file(path);
  bytes[LogReader::open(path)->chunk_info(3).offset + sizeof(ChunkHeader) + 2] ^= 1;
  write_file(path, bytes);
  auto log = LogReader::open(path);
  EXPECT_TRUE(log->complete()); // the headers are sound
  log->verify();
  EXPECT_FALSE(log->complete());
  Record record;
  while (log->next(record)) {
  }
  EXPECT_EQ(log->warnings().size(), 1u); // said once
}

// Bytes that pass the checksum and still make no sense: written by a faulty or hostile program.
TEST(TraceDamage, AChunkWithAFaultInsideIsReadUpToIt) {
  const TestDirectory directory;
  {
    auto writer = TraceWriter::create(directory.path(), process_of(9));
    (*writer)->write(Incident{"0", 0, ""});
    (*writer)->flush();
    const std::uint8_t nonsense[] = {22, 2, 0, 0, 0, 0, 1, 127, 1, 2, 3};
    (*writer)->write_chunk(ChunkKind::events, nonsense);
    (*writer)->write(Incident{"1", 1, ""});
    EXPECT_TRUE((*writer)->finish(0));
  }
  const Outcome outcome = read_log(directory.file("9.log"));
  EXPECT_TRUE(outcome.program_end);
  EXPECT_FALSE(outcome.complete);
  EXPECT_EQ(outcome.incidents, (std::vector<unsigned>{0, 1}));
  ASSERT_EQ(outcome.warnings.size(), 1u);
  EXPECT_NE(outcome.warnings[0].find("makes no sense"), std::string::npos);
}

TEST(TraceDamage, ReservedAndUnknownKindsAreSkipped) {
  const TestDirectory directory;
  const std::uint8_t payload[] = {1, 2, 3};
  {
    auto writer = TraceWriter::create(directory.path(), process_of(9));
    (*writer)->write(Incident{"0", 0, ""});
    (*writer)->write_chunk(ChunkKind::snapshots, payload);
    (*writer)->write_chunk(ChunkKind(77), payload);
    (*writer)->write_chunk(ChunkKind(77), payload);
    (*writer)->write(Incident{"1", 1, ""});
    EXPECT_TRUE((*writer)->finish(0));
  }
  const Outcome outcome = read_log(directory.file("9.log"));
  EXPECT_FALSE(outcome.complete); // they may say what orders the rest
  EXPECT_EQ(outcome.incidents.size(), 2u);
  ASSERT_EQ(outcome.warnings.size(), 2u);
  EXPECT_NE(outcome.warnings[0].find("1 chunk skipped (snapshots)"), std::string::npos);
  EXPECT_NE(outcome.warnings[1].find("2 chunks skipped (kind 77)"), std::string::npos);
  auto log = LogReader::open(directory.file("9.log"));
  ASSERT_EQ(log->other_chunks().size(), 4u);
  auto read = log->payload(log->other_chunks()[0]);
  ASSERT_TRUE(read);
  EXPECT_EQ(std::vector<std::uint8_t>(read->data(), read->data() + read->size()),
            std::vector<std::uint8_t>(payload, payload + 3));
}

TEST(TraceDamage, AnotherVersionIsNamed) {
  const TestDirectory directory;
  const std::string path = write_small_log(directory);
  std::vector<char> bytes = read_file(path);
  LogHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.version = 7;
  header.checksum = XXH3_64bits(&header, offsetof(LogHeader, checksum));
  std::memcpy(bytes.data(), &header, sizeof header);
  write_file(path, bytes);
  const auto log = LogReader::open(path);
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().what, "trace format version 7, this deadheat reads version 1");
  EXPECT_EQ(log.error().where, path);
}

TEST(TraceDamage, WhatIsNoTraceIsSaid) {
  const TestDirectory directory;
  EXPECT_EQ(TraceReader::open(directory.file("none")).error().what, "there is no such trace");
  EXPECT_EQ(TraceReader::open(directory.path()).error().what, "holds no log: nothing was recorded in it");
  write_file(directory.file("1.log"), {'h', 'e', 'l', 'l', 'o'});
  write_file(directory.file("notes.txt"), {'h'});
  EXPECT_EQ(TraceReader::open(directory.file("1.log")).error().what, "is not a trace: a trace is a directory");
  const auto trace = TraceReader::open(directory.path());
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->logs().size(), 1u);
  EXPECT_EQ(trace->open_log(0).error().what, "is not a deadheat log, or nothing of it can be read");
  EXPECT_FALSE(LogReader::open(directory.file("2.log")));
}

TEST(TraceDamage, DamagedBlobs) {
  const TestDirectory directory;
  BlobWriter writer(directory.path(), 1);
  std::vector<std::uint8_t> data(5000);
  for (std::size_t i = 0; i < data.size(); i++) data[i] = std::uint8_t(i * i >> 3);
  const BlobHash hash = *writer.add(data);
  const std::string path = blob_path(directory.path(), hash);
  const std::vector<char> whole = read_file(path);
  ASSERT_EQ(*read_blob(directory.path(), hash), data);
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    std::vector<char> bytes = whole;
    bytes[at] ^= 0x10;
    write_file(path, bytes);
    const auto read = read_blob(directory.path(), hash);
    EXPECT_TRUE(!read || *read == data) << at; // some bits of a zstd frame mean nothing
    write_file(path, {whole.begin(), whole.begin() + std::ptrdiff_t(at)});
    EXPECT_FALSE(read_blob(directory.path(), hash)) << at;
  }
  std::filesystem::remove(path);
  EXPECT_EQ(read_blob(directory.path(), hash).error().what, "a blob of the trace is missing");
}

} // namespace
} // namespace deadheat::trace
