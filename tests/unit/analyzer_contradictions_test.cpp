// Traces that are cut, shuffled, or contradict themselves: one clear line, what can be analysed is, and the report does
// not call itself complete.
#include <cstring>
#include <fstream>

#include "tests/unit/analyzer_traces.h"
#include "tracer/recorder/reader.h"

namespace deadheat::test {
namespace {

using Races = std::vector<std::string>;

class Contradictions : public ::testing::Test {
 protected:
  LittleTrace trace;
  // A race between the first and the second launch, on lines 1 and 2.
  void racy_streams() {
    auto write = trace.site(1, {AccessKind::write}), read = trace.site(2, {AccessKind::read});
    trace.stream(2);
    trace.stream(3);
    auto first = trace.launch(2), second = trace.launch(3);
    trace.access(first, 0, 0, write, memory);
    trace.access(second, 0, 0, read, memory);
    trace.end_launch(first);
    trace.end_launch(second);
  }
  void expect_warning(const char* text) {
    Analysis analysis = trace.analyze();
    EXPECT_FALSE(analysis.summary.complete);
    EXPECT_EQ(analysis.races.size(), 1u);
    bool said = false;
    for (const std::string& line : analysis.warnings) {
      said |= line.find(text) != std::string::npos;
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
    EXPECT_TRUE(said) << text;
  }
};

TEST_F(Contradictions, None) {
  racy_streams();
  Analysis analysis = trace.analyze();
  EXPECT_TRUE(analysis.summary.complete);
  EXPECT_TRUE(analysis.warnings.empty());
  EXPECT_EQ(analysis.races.size(), 1u);
}

TEST_F(Contradictions, OverlappingAllocations) {
  trace.allocate(2, memory + 100, 8);
  racy_streams();
  expect_warning("allocations overlap");
}
// They say nothing of an order.
TEST_F(Contradictions, AllocationsOverlapInTheMidst) {
  auto write = trace.site(1, {AccessKind::write}), read = trace.site(2, {AccessKind::read});
  trace.stream(2);
  trace.stream(3);
  auto first = trace.launch(2);
  trace.access(first, 0, 0, write, memory);
  trace.allocate(2, memory + 100, 8);
  trace.end_launch(first);
  auto second = trace.launch(3);
  trace.access(second, 0, 0, read, memory);
  trace.end_launch(second);
  expect_warning("allocations overlap");
  EXPECT_EQ(trace.analyze().warnings.size(), 1u);
}
TEST_F(Contradictions, AllocationAroundAnother) {
  trace.allocate(2, memory - 8, 1 << 20);
  racy_streams();
  expect_warning("allocation 2 lies on allocation 1");
}
TEST_F(Contradictions, AllocationThatWrapsAround) {
  trace.allocate(2, ~0ull - 7, 64);
  racy_streams();
  expect_warning("allocation 2 ends before it begins");
}
TEST_F(Contradictions, MemoryReusedAfterAFreeIsNone) {
  trace.add(trace::Free{1, 0, 1});
  trace.allocate(2, memory + 64, 64);
  trace.allocate(3, memory + 128, 64);
  racy_streams();
  EXPECT_TRUE(trace.analyze().warnings.empty());
}

// Its module was unloaded between the two launches, which the host did not wait for.
TEST_F(Contradictions, MemoryOfASymbolThatIsFreedIsHandedOn) {
  auto write = trace.site(1, {AccessKind::write}), read = trace.site(2, {AccessKind::read});
  trace.stream(2);
  trace.stream(3);
  constexpr std::uint64_t variable = memory + (1 << 24);
  trace.add(trace::Allocate{2, trace::Allocate::Kind::symbol, variable, 64, 0, 0, 1, "table"});
  auto first = trace.launch(2);
  trace.access(first, 0, 0, write, memory);
  trace.access(first, 0, 0, write, variable);
  trace.end_launch(first);
  trace.add(trace::Free{2, 0, 1});
  trace.allocate(3, variable, 64);
  auto second = trace.launch(3);
  trace.access(second, 0, 0, read, memory);
  trace.access(second, 0, 0, read, variable);
  trace.end_launch(second);
  Analysis analysis = trace.analyze();
  EXPECT_TRUE(analysis.summary.complete);
  EXPECT_TRUE(analysis.warnings.empty());
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_EQ(analysis.races[0].level, RaceLevel::stream);
}

// Two streams that each wait for an event that the other records later: nothing of it can have happened.
TEST_F(Contradictions, CycleOfEvents) {
  auto write = trace.site(1, {AccessKind::write}), read = trace.site(2, {AccessKind::read});
  trace.stream(2);
  trace.stream(3);
  trace.add(trace::StreamWait{2, 1, 4, 0, 1}); // operations 3 and 4 are the records
  trace.add(trace::StreamWait{3, 2, 3, 0, 1});
  auto first = trace.launch(2), second = trace.launch(3);
  trace.access(first, 0, 0, write, memory);
  trace.access(second, 0, 0, read, memory);
  trace.end_launch(first);
  trace.end_launch(second);
  trace.add(trace::EventRecord{2, 2, trace.submit({}, 2), 1});
  trace.add(trace::EventRecord{1, 3, trace.submit({}, 3), 1});
  expect_warning("waits for event records that were not made before are ignored (2,");
}

TEST_F(Contradictions, CycleOfGraphNodes) {
  racy_streams();
  trace.add(trace::GraphLaunch{1, 1, 2, 1});
  for (std::uint32_t other : {4u, 3u}) { // operations 3 and 4, each behind the other
    trace::Operation node;
    node.graph_launch = 1;
    node.node_dependencies = {other};
    trace.submit(node, 2);
  }
  trace.add(trace::GraphEnd{1});
  expect_warning("graph edges that come from no earlier node");
}

TEST_F(Contradictions, OperationsThatNeverBegan) {
  racy_streams();
  trace.end(77);
  expect_warning("operation 77 ends and never began");
}

// ---- the bytes of a log

class CutTraces : public ::testing::Test {
 protected:
  CutTraces() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cut-trace-XXXXXX").string();
    if (!mkdtemp(pattern.data())) std::abort();
    root = pattern;
    directory = root + "/run.deadheat";
    trace::Process process;
    process.pid = 9;
    auto writer = trace::TraceWriter::create(directory, process);
    trace::Module module;
    module.id = 1;
    Site site;
    site.kind = SiteKind::access;
    site.access = AccessKind::write;
    site.space = Space::global;
    site.element_bytes = 4;
    site.source.push_back({"", "a.cu", 1, 1});
    module.sites.push_back(site);
    (*writer)->write(module);
    trace::Allocate allocation;
    allocation.allocation = 1;
    allocation.address = memory;
    allocation.bytes = 4096;
    (*writer)->write(allocation);
    for (std::uint32_t number = 1; number <= launches; ++number) { // each a race of two blocks, and a chunk
      trace::Launch launch;
      launch.module = 1;
      launch.kernel = "kernel";
      launch.grid = {2, 1, 1};
      launch.instrumented = true;
      trace::Operation operation;
      operation.id = operation.launch = number;
      operation.stream = 1;
      operation.what = launch;
      (*writer)->write(operation);
      (*writer)->write(trace::OperationBegin{number});
      for (std::uint32_t block : {0u, 1u}) {
        trace::Access access;
        access.warp = {number, block, 0};
        access.module = 1;
        access.mask = 1;
        access.address[0] = memory + 8 * number;
        access.digest[0] = block;
        (*writer)->write(access);
      }
      (*writer)->write(trace::OperationEnd{number});
      (*writer)->flush();
    }
    EXPECT_TRUE((*writer)->finish(0));
    log = directory + "/9.log";
    std::ifstream in(log, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
    auto reader = trace::LogReader::open(log);
    for (std::size_t chunk = 0; chunk < reader->chunk_count(); ++chunk) {
      chunks.push_back(
          {reader->chunk_info(chunk).offset, sizeof(trace::ChunkHeader) + reader->chunk_info(chunk).stored_bytes});
    }
  }
  ~CutTraces() override { std::filesystem::remove_all(root); }

  Expected<Analysis> analyze(const std::string& bytes) {
    std::ofstream(log, std::ios::binary) << bytes;
    return detect::analyze(directory, {});
  }
  std::string chunk(std::size_t number) const { return whole.substr(chunks[number].first, chunks[number].second); }

  static constexpr std::uint32_t launches = 4;
  std::string root, directory, log, whole;
  std::vector<std::pair<std::size_t, std::size_t>> chunks; // offset, bytes
};

TEST_F(CutTraces, Whole) {
  Expected<Analysis> analysis = analyze(whole);
  ASSERT_TRUE(analysis);
  EXPECT_TRUE(analysis->summary.complete);
  EXPECT_EQ(analysis->summary.launches, launches);
  ASSERT_EQ(analysis->races.size(), 1u);
  EXPECT_EQ(analysis->races[0].occurrences, launches);
}

TEST_F(CutTraces, AtAnyByte) {
  ASSERT_GT(chunks.size(), launches);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    std::size_t left = 0; // launches whose chunk is whole; the first also needs the module's
    for (std::size_t number = 1; number <= launches; ++number) {
      left += chunks[number].first + chunks[number].second <= size;
    }
    Expected<Analysis> analysis = analyze(whole.substr(0, size));
    if (!analysis) {
      EXPECT_EQ(left, 0u);
      EXPECT_EQ(analysis.error().message().find('\n'), std::string::npos);
      continue;
    }
    EXPECT_FALSE(analysis->summary.complete);
    ASSERT_FALSE(analysis->warnings.empty());
    for (const std::string& line : analysis->warnings) EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(analysis->summary.launches, left);
    EXPECT_EQ(analysis->races.empty() ? 0 : analysis->races[0].occurrences, left);
  }
}

TEST_F(CutTraces, ChunksOutOfOrder) {
  for (std::size_t a = 1; a <= launches; ++a) {
    for (std::size_t b = a + 1; b <= launches; ++b) {
      SCOPED_TRACE(std::to_string(a) + " and " + std::to_string(b));
      std::string swapped = whole.substr(0, chunks[0].first);
      for (std::size_t number = 0; number < chunks.size(); ++number) {
        swapped += chunk(number == a ? b : number == b ? a : number);
      }
      Expected<Analysis> analysis = analyze(swapped);
      ASSERT_TRUE(analysis);
      EXPECT_FALSE(analysis->summary.complete);
      EXPECT_FALSE(analysis->warnings.empty());
      EXPECT_GE(analysis->summary.launches, 1u); // those in front at least
    }
  }
}

} // namespace
} // namespace deadheat::test
