// The order of operations as StreamOrder names it: direct predecessors of what is submitted.
#include <gtest/gtest.h>

#include <optional>

#include "analyzer/order/operation_clocks.h"
#include "analyzer/order/stream_order.h"

namespace deadheat::test {
namespace {

using order::OperationId;
using Ids = std::vector<OperationId>;
using Kind = trace::StreamCreate::Kind;

class Streams : public ::testing::Test {
 protected:
  order::StreamOrder streams;
  void create(std::uint32_t id, Kind kind, std::uint32_t device = 0) {
    streams.stream_created({id, kind, 0, device, 1});
  }
  Ids submit(OperationId id, std::uint32_t stream) {
    trace::Operation operation;
    operation.id = id;
    operation.stream = stream;
    return streams.submitted(operation);
  }
  Ids launch(OperationId id, std::uint32_t stream, bool programmatic) {
    trace::Operation operation;
    operation.id = id;
    operation.stream = stream;
    trace::Launch launch;
    launch.programmatic = programmatic;
    operation.what = launch;
    return streams.submitted(operation);
  }
  // A kernel where it says whether that is programmatic, else an empty node.
  Ids node(OperationId id, std::uint32_t launch, Ids after, std::optional<bool> programmatic = {}) {
    trace::Operation operation;
    operation.id = id;
    if (programmatic) operation.what.emplace<trace::Launch>().programmatic = *programmatic;
    operation.stream = 99;  // of the graph launch, not of the node
    operation.graph_launch = launch;
    operation.node_dependencies = std::move(after);
    return streams.submitted(operation);
  }
  void record(std::uint32_t event, std::uint32_t stream, OperationId id) {
    submit(id, stream);
    streams.event_recorded({event, stream, id, 1});
  }
  OperationId wait(std::uint32_t stream, std::uint32_t event, OperationId record = 0) {
    return streams.stream_waits({stream, event, record, 0, 1});
  }
  Ids host(trace::HostWait::Kind kind, std::uint32_t id = 0, OperationId record = 0) {
    return streams.host_waits({kind, id, record, false, 1});
  }
};

TEST_F(Streams, OneAfterTheOther) {
  create(2, Kind::non_blocking);
  EXPECT_EQ(submit(1, 2), Ids{});
  EXPECT_EQ(submit(2, 2), Ids{1});
  EXPECT_EQ(submit(3, 2), Ids{2});
  EXPECT_EQ(streams.stream_tail(2), Ids{3});
}

TEST_F(Streams, LegacyAndBlockingWaitForEachOther) {
  create(2, Kind::blocking);
  create(3, Kind::per_thread);
  create(4, Kind::non_blocking);
  submit(1, 2);
  submit(2, 3);
  submit(3, 4);
  EXPECT_EQ(submit(4, 1), (Ids{1, 2}));  // legacy: blocking and per-thread, not non-blocking
  EXPECT_EQ(submit(5, 2), (Ids{1, 4}));
  EXPECT_EQ(submit(6, 3), (Ids{2, 4}));
  EXPECT_EQ(submit(7, 4), Ids{3});
  EXPECT_EQ(submit(8, 2), (Ids{4, 5}));  // not on the other blocking stream
}

TEST_F(Streams, DependentLaunchesWaitForWhatTheirPrimaryWaitedFor) {
  create(2, Kind::blocking);
  create(3, Kind::non_blocking);
  submit(1, 1);
  EXPECT_EQ(launch(2, 2, false), Ids{1});
  EXPECT_EQ(launch(3, 2, true), Ids{1});
  EXPECT_EQ(streams.primary(3), 2u);
  EXPECT_EQ(launch(4, 2, true), Ids{1});
  EXPECT_EQ(streams.primary(4), 3u);
  EXPECT_EQ(submit(5, 2), (Ids{1, 2, 3, 4}));  // what comes behind waits for them all
  EXPECT_EQ(launch(6, 2, true), (Ids{1, 5}));  // behind something else than a launch
  EXPECT_EQ(streams.primary(6), 0u);
  submit(7, 1);
  EXPECT_EQ(launch(8, 2, true), (Ids{6, 7}));  // the legacy stream has been used since
  EXPECT_EQ(streams.primary(8), 0u);
  record(1, 3, 9);
  wait(2, 1);
  EXPECT_EQ(launch(10, 2, true), (Ids{7, 8, 9}));  // an event of another stream
  EXPECT_EQ(streams.primary(10), 0u);
  wait(2, 1);
  EXPECT_EQ(launch(11, 2, true), (Ids{7, 8, 9}));  // that the primary waited for too
  EXPECT_EQ(streams.primary(11), 10u);
}

TEST_F(Streams, DependentNodesWaitForWhatTheirPrimaryWaitedFor) {
  create(2, Kind::non_blocking);
  submit(1, 2);
  streams.graph_begin({1, 1, 2, 1});
  EXPECT_EQ(node(2, 1, {}, false), Ids{1});
  EXPECT_EQ(node(3, 1, {2}, true), Ids{1});
  EXPECT_EQ(streams.primary(3), 2u);
  EXPECT_EQ(node(4, 1, {3}, true), Ids{1});
  EXPECT_EQ(streams.primary(4), 3u);
  EXPECT_EQ(node(5, 1, {3}), (Ids{2, 3})); // an edge like any other: it comes behind both
  EXPECT_EQ(node(6, 1, {2, 5}, true), (Ids{2, 5})); // behind several
  EXPECT_EQ(streams.primary(6), 0u);
  EXPECT_EQ(node(7, 1, {5}, true), Ids{5}); // behind something else than a launch
  EXPECT_EQ(streams.primary(7), 0u);
  EXPECT_EQ(node(8, 1, {6}, true), (Ids{2, 5}));
  streams.graph_end({1});
  EXPECT_EQ(submit(9, 2), (Ids{4, 6, 7, 8})); // 4 ends by itself, and so does what it did not wait for
}

TEST_F(Streams, LegacyStreamsOfOtherDevicesAreApart) {
  create(2, Kind::blocking, 1);
  submit(1, 2);
  EXPECT_EQ(submit(2, 1), Ids{});
}

TEST_F(Streams, AWaitMeansTheRecordAtThatTime) {
  create(2, Kind::non_blocking);
  create(3, Kind::non_blocking);
  record(7, 2, 1);
  EXPECT_EQ(wait(3, 7), 1u);
  record(7, 2, 2);  // recorded again: too late for that wait
  EXPECT_EQ(submit(3, 3), Ids{1});
  EXPECT_EQ(wait(3, 7), 2u);
  EXPECT_EQ(submit(4, 3), (Ids{2, 3}));
  EXPECT_EQ(streams.event_operation(7), 2u);
}

TEST_F(Streams, ARecordNamedInTheWaitWins) {
  create(2, Kind::non_blocking);
  create(3, Kind::non_blocking);
  record(7, 2, 1);
  record(7, 2, 2);
  EXPECT_EQ(wait(3, 7, 1), 1u);
  EXPECT_EQ(submit(3, 3), Ids{1});
}

TEST_F(Streams, EventsNeverRecordedAreNoWait) {
  create(3, Kind::non_blocking);
  EXPECT_EQ(wait(3, 7), 0u);
  EXPECT_EQ(submit(1, 3), Ids{});
  EXPECT_EQ(host(trace::HostWait::Kind::event, 7), Ids{});
}

TEST_F(Streams, GraphNodesDependOnNodesAndRootsOnTheStream) {
  create(2, Kind::non_blocking);
  submit(1, 2);
  streams.graph_begin({1, 1, 2, 1});
  EXPECT_EQ(node(2, 1, {}), Ids{1});
  EXPECT_EQ(node(3, 1, {}), Ids{1});
  EXPECT_EQ(node(4, 1, {2, 3}), (Ids{2, 3}));
  EXPECT_EQ(node(5, 1, {3}), Ids{3});
  streams.graph_end({1});
  EXPECT_EQ(submit(6, 2), (Ids{4, 5}));  // all sinks
  EXPECT_EQ(submit(7, 2), Ids{6});
}

TEST_F(Streams, AnEmptyGraphChangesNothing) {
  create(2, Kind::non_blocking);
  submit(1, 2);
  streams.graph_begin({1, 1, 2, 1});
  streams.graph_end({1});
  streams.graph_end({77});  // never begun
  EXPECT_EQ(submit(2, 2), Ids{1});
}

TEST_F(Streams, WaitsBeforeAGraphHoldItsRoots) {
  create(2, Kind::non_blocking);
  create(3, Kind::non_blocking);
  record(7, 3, 1);
  wait(2, 7);
  streams.graph_begin({1, 1, 2, 1});
  EXPECT_EQ(node(2, 1, {}), Ids{1});
  streams.graph_end({1});
  EXPECT_EQ(submit(3, 2), Ids{2});
}

TEST_F(Streams, HostWaits) {
  create(2, Kind::blocking);
  create(3, Kind::non_blocking);
  submit(1, 2);
  record(7, 3, 2);
  submit(3, 3);
  submit(4, 1);
  EXPECT_EQ(host(trace::HostWait::Kind::device), (Ids{1, 3, 4}));
  EXPECT_EQ(host(trace::HostWait::Kind::stream, 3), Ids{3});
  EXPECT_EQ(host(trace::HostWait::Kind::stream, 42), Ids{});
  EXPECT_EQ(host(trace::HostWait::Kind::event, 7), Ids{2});
  EXPECT_EQ(host(trace::HostWait::Kind::event, 7, 1), Ids{1});
  EXPECT_EQ(host(trace::HostWait::Kind::operation, 3), Ids{3});
  submit(5, 2);
  EXPECT_EQ(host(trace::HostWait::Kind::stream, 1), (Ids{4, 5}));  // legacy: what blocking streams have done since
}

// cudaDeviceSynchronize waits for the current device (Runtime API, "Device Management").
TEST_F(Streams, TheHostWaitsForOneOfSeveralDevices) {
  streams.stream_created({2, Kind::non_blocking, 0, 0, 1});
  streams.stream_created({3, Kind::non_blocking, 0, 1, 1});
  streams.stream_created({4, Kind::legacy, 0, 1, 1});
  submit(1, 1);
  submit(2, 2);
  submit(3, 3);
  record(7, 2, 4);
  submit(5, 4);
  wait(4, 7);
  EXPECT_EQ(host(trace::HostWait::Kind::device, 1), (Ids{1, 4}));
  EXPECT_EQ(host(trace::HostWait::Kind::device, 2), (Ids{3, 4, 5}));  // and what a stream of it waits for
  EXPECT_EQ(host(trace::HostWait::Kind::device, 3), Ids{});
  EXPECT_EQ(host(trace::HostWait::Kind::device), (Ids{1, 3, 4, 5}));
}

TEST_F(Streams, DestroyedStreamsStillHoldTheirWork) {
  create(2, Kind::blocking);
  submit(1, 2);
  streams.stream_destroyed({2, 1});
  EXPECT_EQ(submit(2, 1), Ids{1});
  EXPECT_EQ(host(trace::HostWait::Kind::device), (Ids{1, 2}));
  streams.stream_destroyed({55, 1});  // unknown
}

class Clocks : public ::testing::Test {
 protected:
  order::OperationClocks clocks;
  order::OperationIndex submit(OperationId id, std::uint32_t stream) {
    trace::Operation operation;
    operation.id = id;
    operation.stream = stream;
    return clocks.submitted(operation);
  }
};

TEST_F(Clocks, OrderIsTransitiveAndNeverReversed) {
  clocks.apply(trace::StreamCreate{2, Kind::non_blocking, 0, 0, 1});
  clocks.apply(trace::StreamCreate{3, Kind::non_blocking, 0, 0, 1});
  auto a = submit(10, 2), r = submit(11, 2);
  clocks.apply(trace::EventRecord{1, 2, 11, 1});
  clocks.apply(trace::StreamWait{3, 1, 0, 0, 1});
  auto b = submit(12, 3), c = submit(13, 2);
  EXPECT_TRUE(clocks.ordered(a, b));
  EXPECT_TRUE(clocks.ordered(r, b));
  EXPECT_FALSE(clocks.ordered(b, a));
  EXPECT_FALSE(clocks.ordered(c, b));
  EXPECT_FALSE(clocks.ordered(b, c));
  EXPECT_FALSE(clocks.ordered(b, b));
}

TEST_F(Clocks, TheHostOrdersWhatItSubmitsAfterAWait) {
  clocks.apply(trace::StreamCreate{2, Kind::non_blocking, 0, 0, 1});
  clocks.apply(trace::StreamCreate{3, Kind::non_blocking, 0, 0, 1});
  auto a = submit(1, 2), early = submit(2, 3);
  clocks.apply(trace::HostWait{trace::HostWait::Kind::operation, 1, 0, true, 1});
  auto b = submit(3, 3);
  EXPECT_TRUE(clocks.ordered(a, b));
  EXPECT_FALSE(clocks.ordered(a, early));
  EXPECT_TRUE(clocks.ordered(early, b));
}

TEST_F(Clocks, LyingRecordsDoNoHarm) {
  trace::Operation operation;
  operation.id = 5;
  operation.stream = 77;
  operation.graph_launch = 9;
  operation.node_dependencies = {5, 6, 4000000000u};  // itself, the future, nonsense
  auto a = clocks.submitted(operation);
  auto b = clocks.submitted(operation);  // twice
  EXPECT_FALSE(clocks.ordered(a, a));
  EXPECT_FALSE(clocks.ordered(b, a));
  clocks.apply(trace::StreamWait{1, 1, 4000000000u, 0, 1});
  clocks.apply(trace::HostWait{trace::HostWait::Kind::operation, 123456, 0, false, 1});
  EXPECT_EQ(clocks.index(123456), 0u);
}

}  // namespace
}  // namespace deadheat::test
