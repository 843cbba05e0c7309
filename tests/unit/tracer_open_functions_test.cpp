// What comes behind a host function begins when that is over, and nothing else waits for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/trace_directory.h"
#include "tracer/cupti/open_functions.h"
#include "tracer/recorder/describe.h"

namespace deadheat::cupti {
namespace {

using StreamKind = trace::StreamCreate::Kind;

// A launch whose accesses have come when it is asked for the second time.
class Late final : public Awaited {
 public:
  bool write(trace::TraceWriter& writer, bool) override {
    if (!std::exchange(asked_, true)) return false;
    writer.write(trace::GraphEnd{77});
    return true;
  }

 private:
  bool asked_ = false;
};

class OpenFunctionsTest : public testing::Test {
 protected:
  OpenFunctionsTest() {
    trace::Process process;
    process.pid = 1;
    writer = std::move(*trace::TraceWriter::create(directory.path(), std::move(process)));
    for (const std::uint32_t stream : {2u, 3u}) functions.stream_made({stream, StreamKind::non_blocking, 0, 0, 1});
    for (const std::uint32_t stream : {4u, 5u}) functions.stream_made({stream, StreamKind::blocking, 0, 0, 1});
  }
  // As the journal does.
  std::uint32_t submit(std::uint32_t stream, std::vector<std::uint32_t> after = {}, std::uint32_t graph = 0) {
    trace::Operation operation;
    operation.id = next++;
    operation.stream = stream;
    operation.graph_launch = graph;
    operation.node_dependencies = std::move(after);
    if (functions.any()) functions.submitted(operation);
    return operation.id;
  }
  std::uint32_t function(std::uint32_t stream, std::vector<std::uint32_t> after = {}, std::uint32_t graph = 0) {
    functions.opens(next);
    return submit(stream, std::move(after), graph);
  }
  std::uint32_t run(std::uint32_t operation) {
    if (!functions.any() || !functions.keeps_begin(operation)) writer->write(trace::OperationBegin{operation});
    if (!functions.any() || !functions.keeps_end(operation)) writer->write(trace::OperationEnd{operation});
    return operation;
  }
  void over(std::uint32_t function, bool told = false, std::vector<trace::Effects::Change> wrote = {}) {
    functions.comes(function, *writer);
    EXPECT_TRUE(functions.flush(*writer, false));
    functions.over({function, told, std::move(wrote)}, *writer);
    functions.flush(*writer, false);
  }
  std::vector<std::string> log() {
    EXPECT_TRUE(writer->finish(0, true));
    std::vector<std::string> lines;
    EXPECT_TRUE(trace::describe_records(directory.path(), [&](const std::string& line) {
      if (line.starts_with("begin") || line.starts_with("end") || line.starts_with("effects") ||
          line.starts_with("host_wait") || line.starts_with("graph_end"))
        lines.push_back(line.substr(0, line.find(" address")));
    }));
    return lines;
  }
  static std::string begins(std::uint32_t id) { return "begin operation " + std::to_string(id); }
  static std::string ends(std::uint32_t id) { return "end operation " + std::to_string(id); }
  // In which order operations have begun.
  std::vector<std::uint32_t> order() {
    std::vector<std::uint32_t> operations;
    for (const std::string& line : log()) {
      if (line.starts_with("begin ")) operations.push_back(std::uint32_t(std::stoul(line.substr(16))));
    }
    return operations;
  }
  using Order = std::vector<std::uint32_t>;

  trace::TestDirectory directory;
  std::unique_ptr<trace::TraceWriter> writer;
  OpenFunctions functions;
  std::uint32_t next = 1;
};

TEST_F(OpenFunctionsTest, WhatFollowsInTheStream) {
  const auto before = run(submit(2)), first = function(2), behind = run(submit(2)), beside = run(submit(3));
  functions.begun(first, *writer);
  over(first);
  const auto later = run(submit(2));
  EXPECT_EQ(order(), (Order{before, beside, first, behind, later}));
}

TEST_F(OpenFunctionsTest, WhatWaitsForAnEventBehindIt) {
  const auto early = submit(2), first = function(2), event = submit(2);
  functions.wait({3, 1, early, 0, 1});
  const auto beside = run(submit(3));
  functions.wait({3, 2, event, 0, 1});
  const auto behind = run(submit(3)), other_event = submit(3);
  functions.wait({5, 3, other_event, 0, 1});
  const auto far = run(submit(5));
  over(first);
  EXPECT_EQ(order(), (Order{beside, first, behind, far}));
}

TEST_F(OpenFunctionsTest, TheDefaultStreamsRule) {
  const auto first = function(4), beside = run(submit(5)), none = run(submit(2)), legacy = run(submit(1)),
             behind = run(submit(5)), still_none = run(submit(3));
  over(first);
  EXPECT_EQ(order(), (Order{beside, none, still_none, first, legacy, behind}));
}

TEST_F(OpenFunctionsTest, EdgesOfGraphs) {
  functions.graph_begins({9, 1, 2, 1});
  const auto root = run(submit(2, {}, 9)), node = function(2, {root}, 9), behind = run(submit(2, {node}, 9)),
             beside = run(submit(2, {root}, 9));
  functions.graph_ends({9});
  const auto follows = run(submit(2)), elsewhere = run(submit(3));
  functions.begun(node, *writer);
  over(node);
  EXPECT_EQ(order(), (Order{root, beside, elsewhere, node, behind, follows}));
}

TEST_F(OpenFunctionsTest, FirstNodesFollowTheStream) {
  const auto first = function(2);
  functions.graph_begins({9, 1, 2, 1});
  const auto root = run(submit(2, {}, 9));
  functions.graph_ends({9});
  over(first);
  EXPECT_EQ(order(), (Order{first, root}));
}

TEST_F(OpenFunctionsTest, OneBehindAnother) {
  const auto first = function(2), second = function(2), behind = run(submit(2)), other = function(3), event = submit(3);
  functions.wait({2, 1, event, 0, 1});
  const auto behind_all = run(submit(2));
  functions.begun(first, *writer);
  over(first);
  over(second);
  over(other);
  EXPECT_EQ(order(), (Order{first, second, behind, other, behind_all}));
}

TEST_F(OpenFunctionsTest, OneThatRunsComesBehindThoseThatAreOver) {
  const auto first = function(2), behind_first = run(submit(2)), second = function(2), behind = run(submit(2));
  over(second);
  over(first);
  EXPECT_EQ(order(), (Order{first, behind_first, second, behind}));
}

TEST_F(OpenFunctionsTest, AccessesThatAreToCome) {
  const auto first = function(2), launch = submit(2);
  std::shared_ptr<Awaited> accesses = std::make_shared<Late>();
  EXPECT_TRUE(functions.keeps_begin(launch) && functions.keeps(launch, accesses) && functions.keeps_end(launch));
  functions.over({first, false, {}}, *writer);
  EXPECT_FALSE(functions.flush(*writer, false));
  EXPECT_TRUE(functions.any());
  EXPECT_TRUE(functions.flush(*writer, false));
  EXPECT_FALSE(functions.any());
  const auto lines = log();
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[2], begins(launch));
  EXPECT_TRUE(lines[3].starts_with("graph_end"));
  EXPECT_EQ(lines[4], ends(launch));
}

TEST_F(OpenFunctionsTest, WhatItWroteAndWhatItWasTold) {
  const auto first = function(2);
  functions.begun(first, *writer);
  over(first, true, {{0x1000, {4, {1, 2, 3, 4}, {}}}});
  const std::string waits = "host_wait operation " + std::to_string(first) + " thread 0";
  EXPECT_EQ(log(), (std::vector<std::string>{begins(first), waits, "effects operation 1", waits, ends(first)}));
}

TEST_F(OpenFunctionsTest, WhatTheHostHasWaitedForIsOver) {
  using Kind = trace::HostWait::Kind;
  const auto waits = [&](Kind kind, std::uint32_t id, std::uint32_t record = 0) {
    functions.host_waited({kind, id, record, false, 1}, *writer);
    EXPECT_TRUE(functions.flush(*writer, false));
  };
  const auto first = function(2), second = function(2), third = function(2), behind = run(submit(2));
  functions.host_begins_to_wait({Kind::stream, 2, 1});
  const auto later = function(2), other = function(3), event = submit(3), elsewhere = function(4);
  waits(Kind::stream, 2);
  waits(Kind::event, 1, event);
  EXPECT_TRUE(functions.any());
  functions.host_begins_to_wait({Kind::device, 1, 1});
  waits(Kind::device, 1);
  EXPECT_FALSE(functions.any());
  Order all = order();
  std::sort(all.begin() + 5, all.end());
  EXPECT_EQ(all, (Order{first, second, third, behind, other, later, elsewhere}));
}

TEST_F(OpenFunctionsTest, OfSomeNoMoreIsHeard) {
  const auto first = function(2), second = function(2), behind = run(submit(2));
  functions.begun(first, *writer);
  functions.all_over(*writer);
  EXPECT_TRUE(functions.flush(*writer, true));
  over(first); // after all
  EXPECT_EQ(order(), (Order{first, second, behind}));
}

} // namespace
} // namespace deadheat::cupti
