// The rules between operations: streams, events, default streams, graphs, host synchronization, stream-ordered memory.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

using Races = std::vector<std::string>;
using Kind = trace::StreamCreate::Kind;

class Operations : public ::testing::Test {
 protected:
  LittleTrace trace;
  std::uint32_t write = trace.site(1, {.access = AccessKind::write});
  std::uint32_t read = trace.site(2, {});
  std::uint32_t event_ = 0;

  // A kernel that touches the data once.
  void kernel(std::uint32_t stream, std::uint32_t site) {
    std::uint32_t launch = trace.launch(stream);
    trace.access(launch, 0, 0, site, memory);
    trace.end_launch(launch);
  }
  std::uint32_t record_event(std::uint32_t event, std::uint32_t stream) {
    trace::EventRecord record{event, stream, trace.submit({}, stream), 1};
    trace.add(record);
    return record.operation;
  }
  void wait_event(std::uint32_t stream, std::uint32_t event, std::uint32_t record) {
    trace::StreamWait wait;
    wait.stream = stream;
    wait.event = event;
    wait.record_operation = record;
    trace.add(wait);
  }
  void host_wait(trace::HostWait::Kind kind, std::uint32_t id, std::uint32_t record = 0) {
    trace::HostWait wait;
    wait.kind = kind;
    wait.id = id;
    wait.record_operation = record;
    trace.add(wait);
  }
};

TEST_F(Operations, OneStreamIsInOrder) {
  trace.stream(2);
  kernel(2, write);
  kernel(2, read);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Operations, TwoStreamsAreNot) {
  trace.stream(2);
  trace.stream(3);
  kernel(2, write);
  kernel(3, read);
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_EQ(analysis.races[0].level, RaceLevel::stream);
  EXPECT_NE(analysis.races[0].why.find("stream 3 never waits for stream 2"), std::string::npos);
}

TEST_F(Operations, AnEventOrders) {
  trace.stream(2);
  trace.stream(3);
  kernel(2, write);
  wait_event(3, 1, record_event(1, 2));
  kernel(3, read);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Operations, AWaitForAThirdStreamIsNoWrongOne) { // it may have a reason of its own
  for (std::uint32_t stream : {2u, 3u, 4u}) trace.stream(stream);
  kernel(2, write);
  wait_event(3, 1, record_event(1, 4));
  kernel(3, read);
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  const std::string& why = analysis.races[0].why;
  EXPECT_EQ(why.rfind("stream 3 never waits for stream 2", 0), 0u) << why;
  EXPECT_NE(why.find("(its last wait is for event 1, which was recorded in stream 4)"), std::string::npos) << why;
}

TEST_F(Operations, ARecordThatIsTooEarlyIsFoundBehindOtherWaits) {
  for (std::uint32_t stream : {2u, 3u, 4u}) trace.stream(stream);
  const std::uint32_t record = record_event(1, 2);
  kernel(2, write);
  wait_event(3, 1, record);
  wait_event(3, 2, record_event(2, 4));
  kernel(3, read);
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  const std::string& why = analysis.races[0].why;
  EXPECT_NE(why.find("event 1 of stream 2, but for a record made before"), std::string::npos) << why;
}

TEST_F(Operations, AnEventRecordedTooEarlyDoesNot) {
  trace.stream(2);
  trace.stream(3);
  std::uint32_t record = record_event(1, 2);
  kernel(2, write);
  wait_event(3, 1, record);
  kernel(3, read);
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_NE(analysis.races[0].why.find("before the operation it should cover"), std::string::npos);
}

TEST_F(Operations, AWaitOnAnEventNeverRecordedDoesNothing) {
  trace.stream(2);
  trace.stream(3);
  kernel(2, write);
  wait_event(3, 1, 0);
  kernel(3, read);
  EXPECT_EQ(trace.races().size(), 1u);
}

// The first turn of a ring waits for events that nobody has recorded yet: of a third stream, it is not what is missing.
TEST_F(Operations, AWaitForAnEventThatIsRecordedLaterIsToldOfItsStreamAlone) {
  for (const std::uint32_t recorded_in : {2u, 4u}) {
    trace = LittleTrace();
    write = trace.site(1, {.access = AccessKind::write});
    read = trace.site(2, {});
    for (std::uint32_t stream : {2u, 3u, 4u}) trace.stream(stream);
    wait_event(3, 7, 0);
    kernel(2, write);
    record_event(7, recorded_in);
    kernel(3, read);
    const Analysis analysis = trace.analyze();
    ASSERT_EQ(analysis.races.size(), 1u);
    const bool told = analysis.races[0].why.find("had never been recorded then") != std::string::npos;
    EXPECT_EQ(told, recorded_in == 2) << analysis.races[0].why;
  }
}

TEST_F(Operations, TheLegacyStreamWaitsForBlockingStreams) {
  trace.stream(2, Kind::blocking);
  kernel(2, write);
  kernel(1, read);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Operations, BlockingStreamsWaitForTheLegacyStream) {
  trace.stream(2, Kind::per_thread);
  kernel(1, write);
  kernel(2, read);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Operations, NonBlockingStreamsDoNot) {
  trace.stream(2, Kind::non_blocking);
  kernel(1, write);
  kernel(2, read);
  EXPECT_EQ(trace.races().size(), 1u);
}

TEST_F(Operations, HostSynchronizationOrders) {
  trace.stream(2);
  trace.stream(3);
  kernel(2, write);
  host_wait(trace::HostWait::Kind::stream, 2);
  kernel(3, read);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Operations, SynchronizingAnotherStreamDoesNot) {
  trace.stream(2);
  trace.stream(3);
  kernel(2, write);
  host_wait(trace::HostWait::Kind::stream, 3);
  kernel(3, read);
  EXPECT_EQ(trace.races().size(), 1u);
}

TEST_F(Operations, DeviceSynchronizationOrdersAll) {
  trace.stream(2);
  trace.stream(3);
  kernel(2, write);
  host_wait(trace::HostWait::Kind::device, 0);
  kernel(3, read);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Operations, WorkSubmittedAfterTheWaitOnly) {
  // The reader was submitted before the host waited.
  trace.stream(2);
  trace.stream(3);
  std::uint32_t reader = trace.submit_launch(3);
  kernel(2, write);
  host_wait(trace::HostWait::Kind::stream, 2);
  trace.begin(trace.operation_of(reader));
  trace.access(reader, 0, 0, read, memory);
  EXPECT_EQ(trace.races().size(), 1u);
}

// A thread waits; another submits meanwhile, or has before; the wait returns.
using WaitKind = trace::HostWait::Kind;
struct Waits : Operations, ::testing::WithParamInterface<std::tuple<WaitKind, std::uint32_t, bool>> {};
TEST_P(Waits, AreForWhatThereIsWhenTheyBegin) {
  const auto [kind, id, later] = GetParam();
  trace.stream(2);
  trace.stream(3);
  if (!later) kernel(2, write);
  record_event(7, 2);
  trace.add(trace::HostWaitBegin{kind, id, 0});
  if (later) kernel(2, write);
  const std::uint32_t again = record_event(7, 2);
  host_wait(kind, id, kind == WaitKind::event ? again : 0);
  kernel(3, read);
  EXPECT_EQ(trace.races().size(), later ? 1u : 0u);
}
INSTANTIATE_TEST_SUITE_P(
    Of, Waits,
    ::testing::Values(std::tuple(WaitKind::stream, 2u, false), std::tuple(WaitKind::stream, 2u, true),
                      std::tuple(WaitKind::device, 1u, false), std::tuple(WaitKind::device, 1u, true),
                      std::tuple(WaitKind::event, 7u, false), std::tuple(WaitKind::event, 7u, true)));
TEST_F(Operations, AQueryIsForWhatThereIsWhenItSucceeds) {
  trace.stream(2);
  trace.stream(3);
  trace.add(trace::HostWaitBegin{WaitKind::stream, 2, 0}); // which failed
  kernel(2, write);
  trace::HostWait query;
  query.kind = WaitKind::stream;
  query.id = 2;
  query.query = true;
  trace.add(query);
  kernel(3, read);
  EXPECT_EQ(trace.races(), Races{});
}

// A thread copies, and its call waits; another launches meanwhile, or once the call has returned.
struct Copies : Operations {
  using Direction = trace::Copy::Direction;
  std::uint32_t copy(std::uint32_t stream, Direction direction, bool pageable, std::uint64_t bytes = 64,
                     std::uint64_t offset = 0) {
    trace::Copy copy;
    copy.direction = direction;
    const trace::MemoryRange here{memory + offset, 0, bytes, 1, 1, 0}, there{0x1000, 0, bytes, 1, 1, 0};
    copy.source = direction == Direction::h2d ? there : here;
    copy.destination = direction == Direction::h2d ? here : there;
    (direction == Direction::h2d ? copy.pageable_source : copy.pageable_destination) = pageable;
    copy.api = "cudaMemcpy";
    trace::Operation operation;
    operation.what = copy;
    const std::uint32_t id = trace.submit(operation, stream);
    trace.begin(id);
    trace.end(id);
    return id;
  }
};
TEST_F(Copies, HaveTheirPlaceWhereTheyWereSubmitted) {
  for (const bool returned : {false, true}) {
    LittleTrace fresh;
    std::swap(trace, fresh);
    write = trace.site(1, {.access = AccessKind::write});
    trace.stream(2);
    trace.stream(3);
    trace.add(trace::HostWaitBegin{WaitKind::operation, trace.next_operation(), 0});
    const std::uint32_t made = copy(2, Direction::d2h, true);
    if (returned) host_wait(WaitKind::operation, made);
    kernel(3, write);
    if (!returned) host_wait(WaitKind::operation, made);
    EXPECT_EQ(trace.races().size(), returned ? 0u : 1u);
  }
}
TEST_F(Copies, FromPageableMemoryWaitForWhatComesBeforeThem) {
  for (const bool before : {false, true}) {
    LittleTrace fresh;
    std::swap(trace, fresh);
    write = trace.site(1, {.access = AccessKind::write});
    read = trace.site(2, {});
    trace.stream(2);
    trace.stream(3);
    kernel(2, write);
    trace.add(trace::HostWaitBegin{WaitKind::stream, 2, 0});
    copy(2, Direction::h2d, true, 1 << 17, before ? 4096 : 0); // what the kernel wrote, or other bytes
    host_wait(WaitKind::stream, 2);
    kernel(3, read);
    EXPECT_EQ(trace.races().size(), before ? 0u : 1u);
  }
}
TEST_F(Copies, OfLittlePageableMemoryWaitForNothing) {
  for (const bool little : {false, true}) {
    LittleTrace fresh;
    std::swap(trace, fresh);
    write = trace.site(1, {.access = AccessKind::write});
    read = trace.site(2, {});
    trace.stream(2);
    trace.stream(3);
    kernel(2, write);
    copy(2, Direction::h2d, true, little ? 1 << 16 : (1 << 16) + 4, 4096);
    kernel(3, read);
    EXPECT_EQ(trace.races().size(), little ? 1u : 0u);
  }
}

TEST_F(Operations, CopiesAreAccessesOfTheirExactBytes) {
  trace.stream(2);
  trace.stream(3);
  kernel(2, write); // bytes [0, 4)
  auto copy = [&](std::uint64_t offset) {
    trace::Copy copy;
    copy.direction = trace::Copy::Direction::d2h;
    copy.source = {memory + offset, 0, 64, 1, 1, 0};
    copy.pageable_destination = true;
    copy.api = "cudaMemcpyAsync";
    trace::Operation operation;
    operation.what = copy;
    operation.call_site = "train.py:7";
    std::uint32_t id = trace.submit(operation, 3);
    trace.begin(id);
    trace.end(id);
  };
  copy(4);
  EXPECT_EQ(trace.races(), Races{});
  copy(3);
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_EQ(analysis.races[0].second.kernel, "cudaMemcpyAsync");
  EXPECT_EQ(analysis.races[0].second.op, AccessKind::read);
  EXPECT_EQ(analysis.races[0].second.called_at, "train.py:7");
}

TEST_F(Operations, LargeSetsMeetSmallAccesses) {
  trace.stream(2);
  trace.stream(3);
  trace::Set set;
  set.destination = {memory, 0, 1 << 16, 1, 1, 0};
  set.api = "cudaMemsetAsync";
  trace::Operation operation;
  operation.what = set;
  std::uint32_t id = trace.submit(operation, 2);
  trace.begin(id);
  trace.end(id);
  std::uint32_t launch = trace.launch(3);
  trace.access(launch, 0, 0, read, memory + 40000);
  EXPECT_EQ(trace.races().size(), 1u);
}

TEST_F(Operations, GraphNodesFollowTheirEdges) {
  trace.stream(2);
  auto node = [&](std::uint32_t site, std::vector<std::uint32_t> after) {
    trace::Launch launch;
    launch.module = 1;
    launch.kernel = "node";
    launch.grid = {1, 1, 1};
    launch.block = {32, 1, 1};
    trace::Operation operation;
    static std::uint32_t number;
    operation.launch = 100 + ++number;
    operation.graph_launch = 1;
    operation.node_dependencies = std::move(after);
    operation.what = launch;
    std::uint32_t id = trace.submit(operation, 2);
    trace.begin(id);
    trace.access(operation.launch, 0, 0, site, memory);
    trace.end(id);
    return id;
  };
  trace.add(trace::GraphLaunch{1, 1, 2, 1});
  std::uint32_t writer = node(write, {});
  node(read, {writer});
  trace.add(trace::GraphEnd{1});
  kernel(2, write); // after the graph in its stream
  EXPECT_EQ(trace.races(), Races{});
  trace.add(trace::GraphLaunch{1, 1, 2, 1});
  node(write, {});
  node(read, {});
  trace.add(trace::GraphEnd{1});
  EXPECT_EQ(trace.races().size(), 1u);
}

TEST_F(Operations, FreeingMemoryInUseIsARace) {
  trace.stream(2);
  trace.stream(3);
  kernel(2, read);
  trace::Operation operation;
  operation.what = trace::PoolOperation{true, 1};
  std::uint32_t id = trace.submit(operation, 3);
  trace.begin(id);
  trace.end(id);
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_EQ(analysis.races[0].second.op, AccessKind::free);
}

// Stream-ordered allocations: an operation that allocates or frees, in the middle of a log.
struct Pools : Operations {
  static constexpr std::uint32_t first = 7;
  std::uint32_t pool(std::uint32_t stream, std::uint32_t allocation, bool free) {
    trace::Operation operation;
    operation.what = trace::PoolOperation{free, allocation};
    return trace.submit(operation, stream);
  }
  void performed(std::uint32_t id) {
    trace.begin(id);
    trace.end(id);
  }
  void handed_out(std::uint32_t allocation, std::uint64_t at = memory, std::uint64_t bytes = 4096) {
    trace::Allocate record;
    record.allocation = allocation;
    record.kind = trace::Allocate::Kind::pool;
    record.address = at; // where the kernels' memory is
    record.bytes = bytes;
    trace.add(record);
  }
  // As a GPU's log has it: next to its operation, behind what has begun before.
  void handed_out_by(std::uint32_t stream, std::uint32_t allocation) {
    trace::Allocate record;
    record.allocation = allocation;
    record.kind = trace::Allocate::Kind::pool;
    record.address = memory;
    record.bytes = 4096;
    record.operation = trace.next_operation();
    trace.add(record);
    performed(pool(stream, allocation, false));
  }
};

// cudaFree: the host's own, which it has done when the call returns.
TEST_F(Pools, FreesByTheHostWaitForNothing) {
  for (const bool waits : {false, true}) {
    LittleTrace fresh;
    std::swap(trace, fresh);
    read = trace.site(2, {});
    trace.stream(2);
    trace.stream(3);
    handed_out(first);
    performed(pool(2, first, false));
    kernel(2, read);
    if (waits) host_wait(trace::HostWait::Kind::stream, 2);
    trace.add(trace::Free{first, trace.next_operation(), 0});
    trace.add(trace::HostWaitBegin{trace::HostWait::Kind::operation, trace.next_operation(), 0});
    const std::uint32_t free = pool(3, first, true);
    performed(free);
    host_wait(trace::HostWait::Kind::operation, free);
    const Analysis analysis = trace.analyze();
    ASSERT_EQ(analysis.races.size(), waits ? 0u : 1u);
    if (waits) continue;
    EXPECT_EQ(analysis.races[0].second.kernel, "cudaFree");
    EXPECT_EQ(analysis.races[0].second.op, AccessKind::free);
    EXPECT_NE(analysis.races[0].why.find("cudaFree of memory of a pool waits for nothing"), std::string::npos);
  }
}

TEST_F(Pools, FreesByTheHostOfWhatNobodyUsedAreNoRace) {
  trace.stream(2);
  trace.stream(3);
  handed_out(first);
  performed(pool(2, first, false));
  trace.add(trace::Free{first, trace.next_operation(), 0});
  trace.add(trace::HostWaitBegin{trace::HostWait::Kind::operation, trace.next_operation(), 0});
  const std::uint32_t free = pool(3, first, true);
  performed(free);
  host_wait(trace::HostWait::Kind::operation, free);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Pools, UseBeforeAllocationIsARace) {
  trace.stream(2);
  trace.stream(3);
  handed_out(first);
  performed(pool(2, first, false));
  kernel(3, read);
  const Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_EQ(analysis.races[0].first.kernel, "cudaMallocAsync");
  EXPECT_NE(analysis.races[0].why.find("before it exists"), std::string::npos) << analysis.races[0].why;
}
TEST_F(Pools, UseBehindTheAllocationIsNone) {
  trace.stream(2);
  handed_out(first);
  performed(pool(2, first, false));
  kernel(2, write);
  performed(pool(2, first, true));
  EXPECT_EQ(trace.races(), Races{});
}
TEST_F(Pools, WhatIsHandedOnHasBeenFreed) { // the pool sees to that, with no event of the program's
  trace.stream(2);
  trace.stream(3);
  handed_out(first);
  performed(pool(2, first, false));
  handed_out(first + 1); // as the host sees it; the streams are behind
  kernel(2, write);
  const std::uint32_t freed = pool(2, first, true), taken = pool(3, first + 1, false);
  performed(freed);
  performed(taken);
  kernel(3, write);
  EXPECT_EQ(trace.races(), Races{});
}
TEST_F(Pools, WhatIsHandedOnOrdersNothingElse) { // another time the pool hands on other memory
  trace.stream(2);
  trace.stream(3);
  handed_out(first, memory + 4096);
  performed(pool(2, first, false));
  handed_out(first + 1, memory + 4096);
  kernel(2, write); // of memory that stays
  const std::uint32_t freed = pool(2, first, true), taken = pool(3, first + 1, false);
  performed(freed);
  performed(taken);
  kernel(3, write);
  EXPECT_EQ(trace.races().size(), 1u);
}
TEST_F(Pools, HandedOnTwice) {
  for (std::uint32_t stream : {2u, 3u, 4u}) trace.stream(stream);
  for (std::uint32_t i = 0; i < 3; ++i) handed_out(first + i);
  performed(pool(2, first, false));
  kernel(2, write);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::uint32_t freed = pool(2 + i, first + i, true), taken = pool(3 + i, first + i + 1, false);
    performed(freed);
    performed(taken);
  }
  kernel(4, write);
  EXPECT_EQ(trace.races(), Races{});
}
// cudaFree waits, but not where the memory is a pool's.
struct FreedAtOnce : Operations, ::testing::WithParamInterface<trace::Allocate::Kind> {};
TEST_P(FreedAtOnce, WhoIsWaitedFor) {
  trace.stream(2);
  trace.stream(3);
  trace::Allocate record;
  record.allocation = 7;
  record.kind = GetParam();
  record.address = memory + 4096;
  record.bytes = 64;
  trace.add(record);
  kernel(2, write);
  trace.add(trace::Free{7, 0, 1});
  kernel(3, write);
  EXPECT_EQ(trace.races().size(), GetParam() == trace::Allocate::Kind::pool ? 1u : 0u);
}
INSTANTIATE_TEST_SUITE_P(Of, FreedAtOnce,
                         ::testing::Values(trace::Allocate::Kind::pool, trace::Allocate::Kind::device,
                                           trace::Allocate::Kind::pinned));
TEST_F(Pools, HandedOnWhileAThirdStreamUsesIt) {
  for (std::uint32_t stream : {2u, 3u, 4u}) trace.stream(stream);
  handed_out(first);
  performed(pool(2, first, false));
  host_wait(trace::HostWait::Kind::stream, 2);
  handed_out(first + 1);
  kernel(4, write);
  const std::uint32_t freed = pool(2, first, true), taken = pool(3, first + 1, false);
  performed(freed);
  performed(taken);
  kernel(3, write);
  const Analysis analysis = trace.analyze();
  EXPECT_EQ(analysis.races.size(), 3u); // with the free, the allocation, and the next user
  EXPECT_TRUE(std::any_of(analysis.races.begin(), analysis.races.end(), [](const Race& race) {
    return race.why.find("stream 3 is handed memory that was freed") != std::string::npos;
  }));
  // It is one fault: what makes the free wait orders all.
  ASSERT_FALSE(analysis.races.empty());
  for (const Race& race : analysis.races)
    EXPECT_EQ(race.same_fault_as, &race == &analysis.races[0] ? 0 : analysis.races[0].id);
}
TEST_F(Pools, HandedOnBehindWhoStillUsesIt) {
  for (std::uint32_t stream : {2u, 3u, 4u}) trace.stream(stream);
  handed_out_by(2, first);
  host_wait(trace::HostWait::Kind::stream, 2);
  kernel(4, write);
  trace.add(trace::Free{first, trace.next_operation(), 0});
  performed(pool(2, first, true));
  handed_out_by(3, first + 1);
  kernel(3, write);
  EXPECT_EQ(trace.races().size(), 3u); // with the free, the allocation, and the next user
}
TEST_F(Pools, HandedOnBehindItsFree) { // a race of the new owner's is one, and no other is
  for (std::uint32_t stream : {2u, 3u, 4u}) trace.stream(stream);
  handed_out_by(2, first);
  kernel(2, write);
  trace.add(trace::Free{first, trace.next_operation(), 0});
  performed(pool(2, first, true));
  handed_out_by(3, first + 1);
  host_wait(trace::HostWait::Kind::stream, 3);
  kernel(3, write);
  kernel(4, write);
  const Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_EQ(analysis.races[0].first.stream, 3u);
  EXPECT_EQ(analysis.races[0].occurrences, 1u);
}
TEST_F(Pools, PartsHandedOnHaveBeenFreed) { // whoever takes the first part leaves the others their edge
  for (std::uint32_t stream : {2u, 3u, 4u, 5u}) trace.stream(stream);
  handed_out(first, memory - 4096, 3 * 4096);
  performed(pool(2, first, false));
  kernel(2, write);
  const std::uint32_t freed = pool(2, first, true);
  performed(freed);
  std::uint32_t allocation = first;
  for (const auto& [stream, at] : {std::pair(3u, memory - 4096), {4u, memory + 4096}, {5u, memory}}) {
    handed_out(++allocation, at);
    performed(pool(stream, allocation, false));
  }
  kernel(5, write);
  EXPECT_EQ(trace.races(), Races{});
}

} // namespace
} // namespace deadheat::test
