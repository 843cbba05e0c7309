#include <atomic>
#include <future>
#include <thread>

#include "device_support.h"
#include "replay/device/other_threads.h"

namespace deadheat::device_test {

using device::Progress;
using Direction = trace::Copy::Direction;

TEST(Operations, CopiesAndSetsRunWhenTheHostWaits) {
  FakeSource source;
  Rig rig(source);
  const std::uint64_t a = rig.alloc(64), b = rig.alloc(64);
  std::vector<std::uint32_t> in(16, 7);
  rig.copy(Direction::h2d, a, std::uint64_t(in.data()), 64);
  in.assign(16, 9); // pageable memory was read at submission
  rig.copy(Direction::d2d, b, a, 64);
  rig.set(b, 0xAB, 4);
  EXPECT_NE(rig.words(a, 1)[0], 7u) << "nothing runs before the host waits";
  const std::vector<std::uint32_t> out = rig.read(b, 16);
  EXPECT_EQ(out[0], 0xABABABABu);
  EXPECT_EQ(out[1], 7u);
  const auto reads = rig.sink.all<trace::HostRead>();
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].address, b);
  EXPECT_EQ(rig.sink.all<trace::OperationBegin>().size(), 4u);
}

TEST(Operations, PitchedCopies) {
  FakeSource source;
  Rig rig(source);
  const std::uint64_t a = rig.alloc(4096);
  std::vector<std::uint8_t> in(6 * 10);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = std::uint8_t(i);
  trace::Copy c;
  c.direction = Direction::h2d;
  c.source = {std::uint64_t(in.data()), 10, 4, 6};
  c.destination = {a, 64, 4, 6};
  rig.submit(c, 1);
  rig.sync();
  EXPECT_EQ(rig.device->peek(a, 1024)[5 * 64 + 3], 53);
}

TEST(Operations, RangesAreChecked) {
  FakeSource source;
  Rig rig(source);
  const std::uint64_t a = rig.alloc(64);
  trace::Operation operation;
  operation.stream = 1;
  trace::Set set;
  set.destination = {a, 0, 65};
  operation.what = set;
  EXPECT_FALSE(rig.device->submit(operation));
}

TEST(Operations, FreedMemoryIsHandedOutAgainAndUnknown) {
  FakeSource source;
  Rig rig(source);
  const std::uint64_t a = rig.alloc(64);
  EXPECT_TRUE(rig.device->release(a, 0));
  EXPECT_FALSE(rig.device->release(a, 0));
  EXPECT_EQ(rig.device->peek(a, 1), nullptr);
  EXPECT_EQ(rig.alloc(60), a);
}

TEST(Operations, QueriesMakeProgress) {
  FakeSource source;
  Rig rig(source);
  const std::uint64_t a = rig.alloc(64);
  rig.set(a, 1, 64);
  trace::HostWait wait;
  int asked = 0;
  while (rig.device->query(wait) == Progress::pending) ASSERT_LT(++asked, 100);
  EXPECT_EQ(rig.words(a, 1)[0], 0x01010101u);
}

TEST(Operations, StreamsAndEvents) {
  FakeSource source;
  Rig rig(source);
  const std::uint64_t a = rig.alloc(64), b = rig.alloc(64);
  const std::uint32_t s = rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  const std::uint32_t u = rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  const std::uint32_t e = rig.device->create_event();
  rig.set(a, 1, 64, s);
  rig.device->record_event(e, s, 0);
  rig.device->stream_wait(u, e, 0);
  rig.copy(Direction::d2d, b, a, 64, u);
  EXPECT_EQ(rig.device->wait({trace::HostWait::Kind::stream, u, 0, false, 0}), Progress::done);
  EXPECT_EQ(rig.words(b, 1)[0], 0x01010101u);
}

TEST(Operations, PoolMemoryIsReusedInItsStream) {
  FakeSource source;
  Rig rig(source);
  const std::uint32_t s = rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  const std::uint32_t u = rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  const auto first = rig.device->allocate(trace::Allocate::Kind::pool, 256, 0, s);
  ASSERT_TRUE(first);
  rig.set(first->address, 3, 256, s);
  ASSERT_TRUE(rig.device->release(first->address, 0, s));
  const auto elsewhere = rig.device->allocate(trace::Allocate::Kind::pool, 256, 0, u);
  const auto second = rig.device->allocate(trace::Allocate::Kind::pool, 256, 0, s);
  EXPECT_NE(elsewhere->address, first->address) << "another stream, not ordered";
  EXPECT_EQ(second->address, first->address);
  EXPECT_EQ(rig.sync(), Progress::done);
  EXPECT_NE(rig.words(second->address, 1)[0], 0x03030303u) << "fresh again";
}

TEST(Operations, PinnedMemoryIsSeenByBothSides) {
  FakeSource source;
  Rig rig(source);
  const auto pinned = rig.device->allocate(trace::Allocate::Kind::pinned, 4096, 0);
  ASSERT_TRUE(pinned);
  auto* host = reinterpret_cast<std::uint32_t*>(pinned->host_address);
  host[3] = 5;
  const std::uint64_t a = rig.alloc(64);
  rig.copy(Direction::h2d, a, pinned->address, 64);
  host[3] = 6; // pinned memory is read when the copy runs
  rig.sync();
  EXPECT_EQ(rig.words(a, 4)[3], 6u);
  const auto writes = rig.sink.all<trace::HostWrite>();
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].address, pinned->address + 12);
  rig.set(pinned->address + 100, 1, 4);
  rig.sync();
  EXPECT_EQ(host[25], 0x01010101u);
  const auto reads = rig.sink.all<trace::HostRead>();
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].address, pinned->address + 100);
  EXPECT_EQ(replay(source, rig).host_reads, rig.sink.host_reads());
}

TEST(Operations, SymbolsAreInitialised) {
  FakeSource source;
  source.ptx += ".visible .global .align 4 .u32 answer = 42;\n.visible .const .align 4 .u32 other[2] = {1, 2};\n";
  Rig rig(source);
  rig.load();
  std::uint64_t bytes = 0;
  const std::uint64_t answer = rig.device->symbol_address(rig.module, "answer", &bytes);
  ASSERT_NE(answer, 0u);
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(rig.read(answer, 1)[0], 42u);
  EXPECT_EQ(rig.words(rig.device->symbol_address(rig.module, "other", nullptr), 2)[1], 2u);
  EXPECT_EQ(rig.sink.all<trace::Symbol>().size(), 2u);
  EXPECT_EQ(replay(source, rig).host_reads, rig.sink.host_reads());
}

TEST(Operations, HostCallbacksRunInOrder) {
  FakeSource source;
  Rig rig(source);
  const std::uint64_t a = rig.alloc(64);
  std::uint32_t seen = 0;
  rig.set(a, 2, 64);
  rig.next_function([&] { std::memcpy(&seen, rig.device->peek(a, 4), 4); });
  rig.submit(trace::HostCallback{}, 1);
  rig.sync();
  EXPECT_EQ(seen, 0x02020202u);
}

// They are looked at where no other thread of the process runs meanwhile, and no kernel may tell the host anything.
TEST(Operations, WhatHostFunctionsWriteIsTheirs) {
  FakeSource source;
  Rig rig(source);
  const auto pinned = rig.device->allocate(trace::Allocate::Kind::pinned, 4096, 0);
  ASSERT_TRUE(pinned);
  auto* host = reinterpret_cast<std::uint32_t*>(pinned->host_address);
  const std::uint64_t a = rig.alloc(64);
  host[2] = 4; // by the host, before
  rig.next_function([&] { host[3] = 5; });
  const std::uint32_t function = rig.submit(trace::HostCallback{}, 1);
  rig.copy(Direction::h2d, a, pinned->address, 64);
  rig.sync();
  EXPECT_EQ(rig.words(a, 4)[3], 5u);
  const auto effects = rig.sink.all<trace::Effects>();
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_EQ(effects[0].operation, function);
  ASSERT_EQ(effects[0].changes.size(), 1u);
  EXPECT_EQ(effects[0].changes[0].address, pinned->address + 12);
  EXPECT_EQ(rig.sink.all<trace::HostWrite>().size(), 1u);
}

// Page-locked memory out of which a copy in one stream reads, and a stream for host functions.
struct Refills {
  Refills() : rig(source) {
    const auto pinned = rig.device->allocate(trace::Allocate::Kind::pinned, 4096, 0);
    EXPECT_TRUE(pinned);
    host = reinterpret_cast<std::uint32_t*>(pinned->host_address);
    address = pinned->address;
    to = rig.alloc(64);
    copying = rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
    filling = rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  }
  std::uint32_t copy() { return rig.copy(Direction::h2d, to, address, 64, copying); }
  std::uint32_t function(std::function<void()> function, const void* code = nullptr) {
    rig.next_function(std::move(function), code);
    return rig.submit(trace::HostCallback{}, filling);
  }
  device::Progress wait(std::uint32_t stream) { return rig.device->wait({trace::HostWait::Kind::stream, stream}); }
  // How many host waits come before the first for the operation or stream.
  std::size_t place(trace::HostWait::Kind kind, std::uint32_t id) const {
    const auto waits = rig.sink.all<trace::HostWait>();
    return std::size_t(
        std::find_if(waits.begin(), waits.end(), [&](const auto& wait) { return wait.kind == kind && wait.id == id; }) -
        waits.begin());
  }
  FakeSource source;
  Rig rig;
  std::uint32_t* host = nullptr;
  std::uint64_t address = 0, to = 0;
  std::uint32_t copying = 0, filling = 0;
};

TEST(Operations, HostFunctionsBeginBeforeTheHostLearnsOfCopies) {
  Refills refills;
  refills.copy();
  const std::uint32_t function = refills.function([&] { refills.host[1] = 7; });
  EXPECT_EQ(refills.wait(refills.copying), device::Progress::done);
  EXPECT_EQ(refills.host[1], 7u);
  EXPECT_LT(refills.place(trace::HostWait::Kind::operation, function),
            refills.place(trace::HostWait::Kind::stream, refills.copying));
  EXPECT_EQ(refills.rig.sink.all<trace::Effects>().size(), 1u);
  EXPECT_EQ(replay(refills.source, refills.rig).host_reads, refills.rig.sink.host_reads());
}

// What comes before a function would be known to the host too early, for nothing.
TEST(Operations, HostFunctionsThatWroteNothingBeginInTheirTurn) {
  Refills refills;
  int called = 0;
  const auto tell = [&] { ++called; };
  refills.copy();
  refills.function(tell, &called);
  EXPECT_EQ(refills.wait(refills.copying), device::Progress::done);
  EXPECT_EQ(called, 1) << "nobody knew yet";
  refills.copy();
  refills.function(tell, &called);
  EXPECT_EQ(refills.wait(refills.copying), device::Progress::done);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(refills.wait(refills.filling), device::Progress::done);
  EXPECT_EQ(called, 2);
}

TEST(Operations, HostFunctionsBesideNoCopyBeginInTheirTurn) {
  Refills refills;
  bool called = false;
  refills.rig.set(refills.to, 1, 64, refills.copying);
  refills.function([&] { called = true; });
  EXPECT_EQ(refills.wait(refills.copying), device::Progress::done);
  EXPECT_FALSE(called);
}

TEST(Operations, HostFunctionsRunOnBesideTheHost) {
  Refills refills;
  const auto over = std::make_shared<std::atomic<bool>>(false);
  refills.copy();
  refills.rig.device->next_callback({nullptr, [&] { return over; }});
  const std::uint32_t function = refills.rig.submit(trace::HostCallback{}, refills.filling);
  const std::uint32_t behind = refills.rig.set(refills.to, 9, 64, refills.filling);
  EXPECT_EQ(refills.wait(refills.copying), device::Progress::done);
  EXPECT_EQ(refills.wait(refills.filling), device::Progress::pending);
  refills.host[1] = 7; // by the function
  *over = true;
  EXPECT_EQ(refills.wait(refills.filling), device::Progress::done);
  EXPECT_EQ(refills.rig.words(refills.to, 1)[0], 0x09090909u);
  EXPECT_TRUE(refills.rig.sink.all<trace::Effects>().empty());
  std::size_t waits = 0;
  for (const trace::HostWait& wait : refills.rig.sink.all<trace::HostWait>())
    waits += wait.kind == trace::HostWait::Kind::operation && wait.id == function;
  EXPECT_EQ(waits, 2u) << "at its end it may have been told";
  EXPECT_GT(behind, function);
}

TEST(Operations, OtherThreadsMayEndWhileTheyAreLookedAt) {
  std::atomic<bool> over{false};
  std::thread many([&] {
    while (!over) std::thread([] {}).join();
  });
  for (int i = 0; i < 5000; ++i) EXPECT_NO_THROW(device::OtherThreads());
  over = true;
  many.join();
}

TEST(Operations, OtherThreadsMayWriteBesideHostFunctions) {
  FakeSource source;
  Rig rig(source);
  const auto pinned = rig.device->allocate(trace::Allocate::Kind::pinned, 4096, 0);
  ASSERT_TRUE(pinned);
  auto* host = reinterpret_cast<std::uint32_t*>(pinned->host_address);
  std::promise<void> called, written;
  std::thread other([&] {
    called.get_future().wait();
    host[3] = 5;
    written.set_value();
  });
  rig.next_function([&] {
    called.set_value();
    written.get_future().wait();
  });
  rig.submit(trace::HostCallback{}, 1);
  rig.sync();
  other.join();
  EXPECT_TRUE(rig.sink.all<trace::Effects>().empty());
  rig.set(rig.alloc(64), 1, 64);
  rig.sync();
  EXPECT_EQ(rig.sink.all<trace::HostWrite>().size(), 1u);
}

} // namespace deadheat::device_test
