// Races between operations that one wait would end are one fault; those that need two waits are two.
#include <map>

#include "deadheat/host_waits.h"
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

using Kind = trace::StreamCreate::Kind;

class MissingWaits : public ::testing::Test {
 protected:
  LittleTrace trace;
  std::uint32_t line_ = 0, event_ = 0;
  static constexpr std::uint32_t a = 2, b = 3, c = 4;

  MissingWaits() {
    for (std::uint32_t stream : {a, b, c}) trace.stream(stream);
  }
  // A kernel with a line of its own for each word that it touches.
  void kernel(std::uint32_t stream, const std::vector<std::uint32_t>& words, AccessKind kind) {
    const std::uint32_t launch = trace.launch(stream);
    touch(launch, words, kind);
    trace.end_launch(launch);
  }
  void touch(std::uint32_t launch, const std::vector<std::uint32_t>& words, AccessKind kind) {
    for (const std::uint32_t word : words)
      trace.access(launch, 0, 0, trace.site(++line_, {.access = kind}), memory + 64 * std::uint64_t(word));
  }
  void writes(std::uint32_t stream, const std::vector<std::uint32_t>& words) {
    kernel(stream, words, AccessKind::write);
  }
  void reads(std::uint32_t stream, const std::vector<std::uint32_t>& words) { kernel(stream, words, AccessKind::read); }
  void wait(std::uint32_t stream, std::uint32_t other) { // for all that the other one was given
    const trace::EventRecord record{++event_, other, trace.submit({}, other), 1};
    trace.add(record);
    trace::StreamWait wait;
    wait.stream = stream;
    wait.event = record.event;
    wait.record_operation = record.operation;
    trace.add(wait);
  }
  trace::Operation launch_of(const char* kernel, bool programmatic) {
    trace::Launch launch;
    launch.module = 1;
    launch.kernel = kernel;
    launch.grid = {1, 1, 1};
    launch.block = {64, 1, 1};
    launch.instrumented = true;
    launch.programmatic = programmatic;
    trace::Operation operation;
    operation.launch = ++other_launches_;
    operation.what = launch;
    return operation;
  }
  // A launch that need not wait for the one before it.
  void begins_early(std::uint32_t stream, std::uint32_t word) {
    const trace::Operation operation = launch_of("early", true);
    const std::uint32_t id = trace.submit(operation, stream);
    trace.begin(id);
    touch(operation.launch, {word}, AccessKind::read);
    trace.end(id);
  }
  // Submits a node; what it does it has done when the graph ends.
  std::uint32_t node(std::uint32_t graph, std::uint32_t stream, std::vector<std::uint32_t> dependencies,
                     const std::vector<std::uint32_t>& words, AccessKind kind) {
    trace::Operation operation = launch_of("node", false);
    operation.graph_launch = graph;
    operation.node_dependencies = std::move(dependencies);
    nodes_.push_back({trace.submit(operation, stream), operation.launch, words, kind});
    return nodes_.back().operation;
  }
  // A copy of page-locked memory to the device, or what the host writes there.
  void copy(std::uint32_t stream, std::uint32_t word, const char* api) {
    const bool by_host = api == host_itself;
    trace::Copy copy;
    const trace::MemoryRange host{memory + (1 << 20) + 64 * std::uint64_t(word), 4, 4};
    copy.direction = by_host ? trace::Copy::Direction::h2h : trace::Copy::Direction::h2d;
    copy.api = api;
    copy.destination = by_host ? host : trace::MemoryRange{memory + 64 * std::uint64_t(word), 4, 4};
    copy.source = by_host ? trace::MemoryRange{} : host;
    trace::Operation operation;
    operation.what = copy;
    const std::uint32_t id = trace.submit(operation, stream);
    trace.begin(id);
    trace.end(id);
  }
  void graph(std::uint32_t id, std::uint32_t stream) { trace.add(trace::GraphLaunch{id, 1, stream, 1}); }
  void end(std::uint32_t id) {
    trace.add(trace::GraphEnd{id});
    for (const Node& node : nodes_) {
      trace.begin(node.operation);
      touch(node.launch, node.words, node.kind);
      trace.end(node.operation);
    }
    nodes_.clear();
  }
  // Of each fault the races; the first of each says so.
  std::vector<std::size_t> faults() {
    analysis_ = trace.analyze();
    std::map<std::uint32_t, std::size_t> count;
    for (const Race& race : analysis_.races) ++count[race.same_fault_as ? race.same_fault_as : race.id];
    std::vector<std::size_t> sizes;
    for (const auto& [first, races] : count) {
      sizes.push_back(races);
      EXPECT_EQ(analysis_.races[first - 1].same_fault_as, 0u);
    }
    return sizes;
  }
  bool says(const std::string& text) const { return analysis_.races[0].why.find(text) != std::string::npos; }

  Analysis analysis_;

 private:
  struct Node {
    std::uint32_t operation = 0, launch = 0;
    std::vector<std::uint32_t> words;
    AccessKind kind = AccessKind::read;
  };
  std::vector<Node> nodes_;
  std::uint32_t other_launches_ = 100;
};
using Sizes = std::vector<std::size_t>;

TEST_F(MissingWaits, OfOneStreamForAnotherIsOneFault) { // a b c of one step, then what uses them
  writes(a, {1});
  writes(a, {2});
  writes(a, {3});
  reads(b, {2, 1});
  reads(b, {3});
  EXPECT_EQ(faults(), Sizes{3});
  EXPECT_TRUE(
      says("; a wait for kernel kernel (operation 3 in stream 2) before kernel kernel (operation 4 in stream "
           "3) orders 2 more races of the same fault"))
      << analysis_.races[0].why;
}
TEST_F(MissingWaits, PossibleRacesGoWithACertainOne) {
  trace::Launch opaque;
  opaque.kernel = "opaque";
  opaque.footprint = {1};
  trace::Operation operation;
  operation.launch = 99;
  operation.what = opaque;
  const std::uint32_t id = trace.submit(operation, a);
  trace.begin(id);
  trace.end(id);
  writes(a, {1});
  reads(b, {1, 2});
  EXPECT_EQ(faults(), Sizes{3});
  EXPECT_EQ(analysis_.races[0].certainty, Certainty::certain);
  EXPECT_EQ(analysis_.races[2].certainty, Certainty::possible);
}
TEST_F(MissingWaits, OneRaceAloneSaysNothingOfOthers) {
  writes(a, {1});
  reads(b, {1});
  EXPECT_EQ(faults(), Sizes{1});
  EXPECT_FALSE(says("more race"));
}
TEST_F(MissingWaits, WhoseUserComesBeforeTheNextIsWrittenAreTwo) { // no place for one wait
  writes(a, {1});
  reads(b, {1});
  writes(a, {2});
  reads(b, {2});
  EXPECT_EQ(faults(), (Sizes{1, 1}));
}
TEST_F(MissingWaits, InBothDirectionsAreTwo) {
  writes(a, {1, 2});
  writes(b, {3, 1, 2});
  writes(a, {3});
  EXPECT_EQ(faults(), (Sizes{2, 1}));
}
TEST_F(MissingWaits, OfTwoStreamsForOneAreTwo) {
  writes(a, {1, 2});
  reads(b, {1, 2});
  reads(c, {1, 2});
  EXPECT_EQ(faults(), (Sizes{2, 2}));
}
TEST_F(MissingWaits, OfOneStreamForTwoAreTwo) {
  writes(a, {1, 2});
  writes(b, {3, 4});
  reads(c, {1, 2, 3, 4});
  EXPECT_EQ(faults(), (Sizes{2, 2}));
}
TEST_F(MissingWaits, WhatWaitsForWhoShouldHaveWaitedIsTheSameFault) {
  writes(a, {1, 2});
  reads(b, {1});
  wait(c, b);
  reads(c, {2});
  EXPECT_EQ(faults(), Sizes{2});
}
TEST_F(MissingWaits, WhatShouldHaveBeenWaitedForHadWaited) {
  writes(a, {1});
  wait(b, a);
  writes(b, {2});
  reads(c, {1, 2});
  EXPECT_EQ(faults(), Sizes{2});
}
TEST_F(MissingWaits, OfTheDefaultStream) { // behind which blocking streams come
  trace.stream(5, Kind::blocking);
  writes(a, {1, 2});
  reads(1, {1});
  reads(5, {2});
  EXPECT_EQ(faults(), Sizes{2});
}
TEST_F(MissingWaits, OfAGraphForAStreamIsOneFaultOfAllItsNodes) {
  writes(a, {1, 2});
  graph(1, b);
  node(1, b, {}, {1}, AccessKind::read);
  node(1, b, {}, {2}, AccessKind::read);
  end(1);
  EXPECT_EQ(faults(), Sizes{2});
  EXPECT_TRUE(says("before the graph of kernel node (operation 2 in stream 3)")) << analysis_.races[0].why;
}
TEST_F(MissingWaits, OfAStreamForAGraph) {
  graph(1, b);
  node(1, b, {}, {1}, AccessKind::write);
  node(1, b, {}, {2}, AccessKind::write);
  end(1);
  reads(a, {1, 2});
  EXPECT_EQ(faults(), Sizes{2});
}
TEST_F(MissingWaits, EdgesOfAGraphOrderOnlyWhatLiesOnTheirWay) {
  graph(1, b);
  const std::uint32_t first = node(1, b, {}, {1}, AccessKind::write);
  node(1, b, {first}, {2, 3}, AccessKind::write);
  node(1, b, {}, {4}, AccessKind::write);
  const std::uint32_t reader = node(1, b, {}, {1, 2}, AccessKind::read);
  node(1, b, {reader}, {3, 4}, AccessKind::read);
  end(1);
  EXPECT_EQ(faults(), (Sizes{3, 1}));
  EXPECT_TRUE(says("an edge from kernel node (operation 2 in stream 3) to kernel node (operation 4 in stream 3)"))
      << analysis_.races[0].why;
}
TEST_F(MissingWaits, OfLaunchesWaitedForInTheKernelAreNone) { // griddepcontrol.wait is each kernel's own
  writes(a, {1, 2});
  begins_early(a, 1);
  begins_early(a, 2);
  EXPECT_EQ(faults(), (Sizes{1, 1}));
}
struct Staged : MissingWaits {
  static constexpr std::uint32_t host = 9; // a stream of its own
  Staged() {
    trace.stream(host);
    trace.allocate(2, memory + (1 << 20), 4096);
    copy(a, 1, "cudaMemcpyAsync");
  }
};
TEST_F(Staged, OfTheHostBeforeItRefills) {
  copy(a, 2, "cudaMemcpy2DAsync");
  copy(host, 1, host_itself);
  copy(host, 2, host_itself);
  EXPECT_EQ(faults(), Sizes{2});
  EXPECT_TRUE(
      says("a wait of the host for cudaMemcpy2DAsync (operation 2 in stream 2) before a write of the host itself"))
      << analysis_.races[0].why;
}
TEST_F(Staged, OfTheHostAndOfAStreamAreTwo) { // though a wait of the host orders both
  copy(host, 1, host_itself);
  reads(b, {1});
  EXPECT_EQ(faults(), (Sizes{1, 1}));
}

} // namespace
} // namespace deadheat::test
