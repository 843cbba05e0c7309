#include <set>

#include "device_support.h"

namespace deadheat::device_test {

using device::Progress;
using Direction = trace::Copy::Direction;

namespace {

enum : std::uint32_t {
  read_x,
  write_x,
  write_out,
  bar,
  add,
  copy,
  commit,
  wait,
  flag_load,
  flag_store,
  relaxed_load,
  relaxed_store
};

// Thread 0 of block 0 reads x, thread 0 of the last block writes it: a race.
template <Mode M> std::int32_t race(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  if (t->linear == 0 && t->block->linear == 0) {
    LOAD(read_x, param<std::uint64_t>(t, 0), std::uint32_t, f.value);
    STORE(write_out, param<std::uint64_t>(t, 8), std::uint32_t, f.value);
  } else if (t->linear == 0 && t->block->linear + 1 == t->block->launch->nctaid[0]) {
    STORE(write_x, param<std::uint64_t>(t, 0), std::uint32_t, 42);
  }
  END
}

// Every thread writes its value, then reads its neighbour's; the barrier is there, or is not.
template <Mode M, bool Barrier> std::int32_t neighbour(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  STORE(write_x, shared_window + 4 * t->linear, std::uint32_t, t->linear + 1);
  if (Barrier) {
    BARRIER(bar, 0, 0, 0);
  }
  LOAD(read_x, shared_window + 4 * ((t->linear + 1) % t->block->launch->ntid[0]), std::uint32_t, f.value);
  STORE(write_out, param<std::uint64_t>(t, 0) + 4 * global_id(t), std::uint32_t, f.value);
  END
}
template <Mode M> std::int32_t with_barrier(ThreadContext* t, std::uint8_t* b) { return neighbour<M, true>(t, b); }
template <Mode M> std::int32_t without_barrier(ThreadContext* t, std::uint8_t* b) { return neighbour<M, false>(t, b); }

template <Mode M> std::int32_t read_once(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  LOAD(read_x, param<std::uint64_t>(t, 0), std::uint32_t, f.value);
  STORE(write_out, param<std::uint64_t>(t, 8) + 4 * global_id(t), std::uint32_t, f.value);
  END
}

template <Mode M> std::int32_t tickets(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  ATOMIC_ADD(add, param<std::uint64_t>(t, 0), 1, f.value);
  BARRIER(bar, 0, 0, 0);
  ATOMIC_ADD(add, param<std::uint64_t>(t, 0), 1, f.value);
  STORE(write_out, param<std::uint64_t>(t, 8) + 4 * global_id(t), std::uint32_t, f.value);
  END
}

// Reads what it copies asynchronously, without waiting.
template <Mode M> std::int32_t staged(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  STORE(write_x, shared_window + 4 * t->linear, std::uint32_t, 5);
  t->block->launch->exec->services->async_copy(t, copy, 4 * t->linear, param<std::uint64_t>(t, 0) + 4 * t->linear, 4,
                                               4);
  t->block->launch->exec->services->async_commit(t, commit);
  LOAD(read_x, shared_window + 4 * t->linear, std::uint32_t, f.value);
  t->pending_site = wait, t->arg[0] = 0, t->arg[1] = 0;
  STOP(Step::async_wait);
  STORE(write_out, param<std::uint64_t>(t, 8) + 4 * t->linear, std::uint32_t, f.value);
  END
}

// Block 1 waits for block 0's flag, which orders the data or does not.
template <Mode M, std::uint32_t Load, std::uint32_t Store> std::int32_t flag(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  if (t->block->linear == 0) {
    STORE(write_x, param<std::uint64_t>(t, 8), std::uint32_t, 9);
    STRONG_STORE(Store, param<std::uint64_t>(t, 0), 1);
  } else {
    do {
      STRONG_LOAD(Load, param<std::uint64_t>(t, 0), f.value);
    } while (!f.value);
    LOAD(read_x, param<std::uint64_t>(t, 8), std::uint32_t, f.value);
    STORE(write_out, param<std::uint64_t>(t, 8) + 4, std::uint32_t, f.value);
  }
  END
}

template <Mode M> std::int32_t flags(ThreadContext* t, std::uint8_t* b) { return flag<M, flag_load, flag_store>(t, b); }
template <Mode M> std::int32_t relaxed_flags(ThreadContext* t, std::uint8_t* b) {
  return flag<M, relaxed_load, relaxed_store>(t, b);
}

FakeSource make_source() {
  FakeSource s;
  using K = SiteKind;
  s.site(K::access, AccessKind::read);
  s.site(K::access, AccessKind::write);
  s.site(K::access, AccessKind::write);
  s.site(K::barrier);
  s.site(K::access, AccessKind::atomic, Ordering::relaxed);
  s.site(K::async_copy);
  s.site(K::async_commit);
  s.site(K::async_wait);
  s.site(K::access, AccessKind::read, Ordering::acquire);
  s.site(K::access, AccessKind::write, Ordering::release);
  s.site(K::access, AccessKind::read, Ordering::relaxed);
  s.site(K::access, AccessKind::write, Ordering::relaxed);
  ADD_KERNEL(s, relaxed_flags, 16, 0);
  ADD_KERNEL(s, race, 16, 0);
  ADD_KERNEL(s, with_barrier, 16, 4096);
  ADD_KERNEL(s, without_barrier, 16, 4096);
  ADD_KERNEL(s, read_once, 16, 0);
  ADD_KERNEL(s, tickets, 16, 0);
  ADD_KERNEL(s, staged, 16, 1024);
  ADD_KERNEL(s, flags, 16, 0);
  return s;
}

AccessName thread(std::uint32_t operation, std::uint32_t launch, std::uint32_t block, std::uint32_t thread,
                  std::uint32_t site, std::uint64_t nth = 0) {
  return {operation, launch, block, thread, 1, site, nth};
}
AccessName whole(std::uint32_t operation) { return {operation, 0, 0, 0, 0, 0, 0}; }
Schedule holds(AccessName held, AccessName until) {
  Schedule s;
  s.kind = Schedule::Kind::holds;
  s.holds.push_back({held, until});
  return s;
}
std::uint32_t word(const std::vector<std::uint8_t>& bytes, std::size_t n) {
  std::uint32_t v = 0;
  if (bytes.size() >= 4 * n + 4) std::memcpy(&v, bytes.data() + 4 * n, 4);
  return v;
}

class Schedules : public ::testing::Test {
 protected:
  Schedules() : source(make_source()), rig(source) { rig.load(); }
  FakeSource source;
  Rig rig;
};

} // namespace

TEST_F(Schedules, AReadWaitsForAWriteOfABlockThatIsNotThereYet) {
  const std::uint64_t x = rig.alloc(4), out = rig.alloc(4);
  rig.set(x, 0, 4);
  const std::uint32_t op = rig.launch("race", 10000, 32, {x, out});
  EXPECT_EQ(rig.read(out, 1)[0], 0u);
  const Replayed again = replay(source, rig, holds(thread(op, 1, 0, 0, read_x), thread(op, 1, 9999, 0, write_x)));
  EXPECT_EQ(again.progress, Progress::done);
  EXPECT_EQ(word(again.host_reads, 0), 42u);
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{3});
  EXPECT_TRUE(again.choices.held_performed);
}

TEST_F(Schedules, AHoldThatIsNaturallyMetChangesNothing) {
  const std::uint64_t x = rig.alloc(4), out = rig.alloc(4);
  rig.set(x, 0, 4);
  const std::uint32_t op = rig.launch("race", 3, 32, {x, out});
  rig.read(out, 1);
  const Replayed again = replay(source, rig, holds(thread(op, 1, 2, 0, write_x), thread(op, 1, 0, 0, read_x)));
  EXPECT_EQ(again.host_reads, rig.sink.host_reads());
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{3});
}

TEST_F(Schedules, ReadsBeforeWritesWithoutABarrier) {
  const std::uint64_t out = rig.alloc(4 * 64);
  const std::uint32_t op = rig.launch("without_barrier", 1, 64, {out});
  const auto natural = rig.read(out, 64);
  EXPECT_EQ(natural[63], 1u) << "the last thread reads what the first has written";
  EXPECT_NE(natural[5], 7u) << "its neighbour has not run yet";
  Schedule s = holds(thread(op, 1, 0, 5, read_x), thread(op, 1, 0, 6, write_x)); // in its warp
  s.holds.push_back({thread(op, 1, 0, 31, read_x), thread(op, 1, 0, 32, write_x)}); // in another
  const Replayed again = replay(source, rig, s);
  EXPECT_EQ(word(again.host_reads, 5), 7u);
  EXPECT_EQ(word(again.host_reads, 31), 33u);
  EXPECT_EQ(word(again.host_reads, 4), natural[4]) << "nothing else changes";
  EXPECT_EQ(again.choices.hold_state, (std::vector<std::uint8_t>{3, 3}));
}

TEST_F(Schedules, AHoldAgainstABarrierIsReleased) {
  const std::uint64_t out = rig.alloc(4 * 64);
  const std::uint32_t op = rig.launch("with_barrier", 1, 64, {out});
  rig.read(out, 64);
  const Replayed again = replay(source, rig, holds(thread(op, 1, 0, 6, write_x), thread(op, 1, 0, 5, read_x)));
  EXPECT_EQ(again.progress, Progress::done);
  EXPECT_EQ(again.host_reads, rig.sink.host_reads());
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{4});
}

TEST_F(Schedules, UntilIsBehindABarrierThatOthersMustReach) {
  const std::uint64_t out = rig.alloc(4 * 128);
  const std::uint32_t op = rig.launch("with_barrier", 2, 64, {out});
  rig.read(out, 128);
  // Block 0's first read waits for block 1's last output.
  const Replayed again = replay(source, rig, holds(thread(op, 1, 0, 0, read_x), thread(op, 1, 1, 63, write_out)));
  EXPECT_EQ(again.host_reads, rig.sink.host_reads());
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{3});
}

TEST_F(Schedules, AHoldAgainstAFlagIsReleased) {
  const std::uint64_t a = rig.alloc(4), b = rig.alloc(8);
  rig.set(a, 0, 4);
  const std::uint32_t op = rig.launch("flags", 2, 1, {a, b});
  rig.read(b, 2);
  const Replayed again = replay(source, rig, holds(thread(op, 1, 0, 0, write_x), thread(op, 1, 1, 0, read_x)));
  EXPECT_EQ(again.progress, Progress::done);
  EXPECT_EQ(again.host_reads, rig.sink.host_reads());
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{4});
}

TEST_F(Schedules, AReadNeedNotSeeWhatAFlagDoesNotOrder) {
  const std::uint64_t a = rig.alloc(4), b = rig.alloc(8);
  rig.set(a, 0, 4);
  rig.set(b, 0, 8);
  const std::uint32_t op = rig.launch("relaxed_flags", 2, 1, {a, b});
  EXPECT_EQ(rig.read(b, 2), (std::vector<std::uint32_t>{9, 9}));
  const Replayed again = replay(source, rig, holds(thread(op, 1, 0, 0, write_x), thread(op, 1, 1, 0, read_x)));
  EXPECT_EQ(again.progress, Progress::done);
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{3});
  EXPECT_EQ(word(again.host_reads, 1), 0u) << "the read saw the data from before the flag";
  EXPECT_EQ(word(again.host_reads, 0), 9u) << "and the write has happened";
}

TEST_F(Schedules, AnAccessWaitsForACopyOfAnotherStream) {
  const std::uint32_t s = rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  const std::uint64_t x = rig.alloc(4), out = rig.alloc(4 * 64);
  std::uint32_t value = 8;
  rig.set(x, 0, 4);
  rig.sync();
  const std::uint32_t op = rig.launch("read_once", 2, 32, {x, out});
  const std::uint32_t copied = rig.copy(Direction::h2d, x, std::uint64_t(&value), 4, s);
  EXPECT_EQ(rig.read(out, 64)[40], 0u);
  const Replayed again = replay(source, rig, holds(thread(op, 1, 1, 8, read_x), whole(copied)));
  EXPECT_EQ(word(again.host_reads, 40), 8u);
  EXPECT_EQ(word(again.host_reads, 39), 0u) << "those before it have read already";
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{3});
}

TEST_F(Schedules, ACopyWaitsForAnAccess) {
  const std::uint32_t s = rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  const std::uint64_t x = rig.alloc(4), out = rig.alloc(4 * 64);
  std::uint32_t value = 8;
  rig.set(x, 0, 4);
  rig.sync();
  const std::uint32_t copied = rig.copy(Direction::h2d, x, std::uint64_t(&value), 4, s);
  const std::uint32_t op = rig.launch("read_once", 2, 32, {x, out});
  EXPECT_EQ(rig.read(out, 64)[40], 8u);
  const Replayed again = replay(source, rig, holds(whole(copied), thread(op, 1, 1, 8, read_x)));
  EXPECT_EQ(word(again.host_reads, 40), 0u);
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{3});
}

TEST_F(Schedules, OperationsWaitForOperations) {
  const std::uint32_t s = rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  const std::uint64_t x = rig.alloc(4);
  const std::uint32_t first = rig.set(x, 1, 4), second = rig.set(x, 2, 4, s);
  rig.sync();
  EXPECT_EQ(rig.read(x, 1)[0], 0x02020202u);
  const Replayed again = replay(source, rig, holds(whole(first), whole(second)));
  EXPECT_EQ(word(again.host_reads, 0), 0x01010101u);
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{3});
}

TEST_F(Schedules, OrderedOperationsCannotBeReversed) {
  const std::uint64_t x = rig.alloc(4);
  const std::uint32_t first = rig.set(x, 1, 4), second = rig.set(x, 2, 4);
  EXPECT_EQ(rig.read(x, 1)[0], 0x02020202u);
  const Replayed again = replay(source, rig, holds(whole(first), whole(second)));
  EXPECT_EQ(again.host_reads, rig.sink.host_reads());
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{4});
}

TEST_F(Schedules, AtomicsChangePlaces) {
  const std::uint64_t a = rig.alloc(4), out = rig.alloc(4 * 8);
  rig.set(a, 0, 4);
  const std::uint32_t op = rig.launch("tickets", 1, 8, {a, out});
  EXPECT_EQ(rig.read(out, 8)[2], 10u);
  const Replayed again = replay(source, rig, holds(thread(op, 1, 0, 2, add, 1), thread(op, 1, 0, 6, add, 1)));
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{3});
  EXPECT_GT(word(again.host_reads, 2), word(again.host_reads, 6));
}

TEST_F(Schedules, AnAsynchronousCopyIsDelayed) {
  const std::uint64_t a = rig.alloc(4 * 32), out = rig.alloc(4 * 32);
  rig.set(a, 1, 128);
  const std::uint32_t op = rig.launch("staged", 1, 32, {a, out});
  EXPECT_EQ(rig.read(out, 32)[7], 0x01010101u);
  const Replayed again = replay(source, rig, holds(thread(op, 1, 0, 7, copy), thread(op, 1, 0, 7, read_x)));
  EXPECT_EQ(word(again.host_reads, 7), 5u);
  EXPECT_EQ(word(again.host_reads, 8), 0x01010101u);
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{3});
}

TEST_F(Schedules, AHoldThatIsNeverReached) {
  const std::uint64_t a = rig.alloc(4), out = rig.alloc(4 * 8);
  const std::uint32_t op = rig.launch("tickets", 1, 8, {a, out});
  rig.read(out, 8);
  const Replayed again = replay(source, rig, holds(thread(op, 1, 0, 2, add, 7), thread(op, 1, 0, 6, add, 0)));
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{1});
  EXPECT_EQ(again.host_reads, rig.sink.host_reads());
}

TEST_F(Schedules, AnUntilThatNeverComes) {
  const std::uint64_t a = rig.alloc(4), out = rig.alloc(4 * 8);
  const std::uint32_t op = rig.launch("tickets", 1, 8, {a, out});
  rig.read(out, 8);
  const Replayed again = replay(source, rig, holds(thread(op, 1, 0, 2, write_out), thread(op, 1, 0, 6, add, 9)));
  EXPECT_EQ(again.choices.hold_state, std::vector<std::uint8_t>{2});
  EXPECT_EQ(again.progress, Progress::done);
}

// ---- random schedules and their repetition

TEST_F(Schedules, RandomOrdersFindWhatNaturalDoesNot) {
  const std::uint64_t out = rig.alloc(4 * 256);
  rig.launch("without_barrier", 4, 64, {out});
  rig.read(out, 256);
  std::set<std::vector<std::uint8_t>> results;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Schedule s;
    s.kind = Schedule::Kind::random;
    s.seed = seed;
    s.quantum = seed % 2 ? 0 : 4;
    results.insert(replay(source, rig, s).host_reads);
  }
  EXPECT_EQ(results.size(), 20u);
}

TEST_F(Schedules, RandomOrdersKeepWhatIsOrdered) {
  const std::uint64_t out = rig.alloc(4 * 256), a = rig.alloc(4), b = rig.alloc(8);
  rig.set(a, 0, 4);
  rig.launch("with_barrier", 4, 64, {out});
  rig.launch("flags", 2, 1, {a, b});
  rig.read(out, 256);
  rig.read(b, 2);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Schedule s;
    s.kind = Schedule::Kind::random;
    s.seed = seed;
    s.quantum = std::uint32_t(seed % 5);
    const Replayed again = replay(source, rig, s);
    EXPECT_EQ(again.progress, Progress::done);
    EXPECT_EQ(again.host_reads, rig.sink.host_reads()) << seed;
  }
}

Schedule priorities(std::uint64_t seed, std::uint32_t depth, std::uint64_t steps) {
  Schedule s;
  s.kind = Schedule::Kind::priorities;
  s.seed = seed;
  s.depth = depth;
  s.steps = steps;
  return s;
}

TEST_F(Schedules, PrioritiesFindWhatNaturalDoesNot) {
  const std::uint64_t out = rig.alloc(4 * 256);
  rig.launch("without_barrier", 4, 64, {out});
  rig.read(out, 256);
  std::set<std::vector<std::uint8_t>> results;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    results.insert(replay(source, rig, priorities(seed, 3, 1000)).host_reads);
  EXPECT_EQ(results.size(), 20u);
}

TEST_F(Schedules, PrioritiesKeepWhatIsOrderedAndEnd) {
  const std::uint64_t out = rig.alloc(4 * 256), a = rig.alloc(4), b = rig.alloc(8);
  rig.set(a, 0, 4);
  rig.launch("with_barrier", 4, 64, {out});
  rig.launch("flags", 2, 1, {a, b}); // one spins on what the other writes
  rig.read(out, 256);
  rig.read(b, 2);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Replayed again = replay(source, rig, priorities(seed, 1 + std::uint32_t(seed % 5), 500));
    EXPECT_EQ(again.progress, Progress::done) << seed << again.stuck;
    EXPECT_EQ(again.host_reads, rig.sink.host_reads()) << seed;
  }
}

TEST_F(Schedules, FewChangesOfPriorityAreFewSwitches) {
  // Threads that never wait: each runs to its end, but for the changes.
  const std::uint64_t out = rig.alloc(4 * 256);
  rig.launch("without_barrier", 1, 64, {out});
  rig.read(out, 64);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Replayed plain = replay(source, rig, priorities(seed, 1, 0)),
                   changed = replay(source, rig, priorities(seed, 4, 128));
    EXPECT_LE(plain.switches.size(), 70u);
    EXPECT_LE(changed.switches.size(), 2 * 3 + 70u);
    const Replayed again = replay(source, rig, priorities(seed, 4, 128));
    EXPECT_EQ(again.host_reads, changed.host_reads);
  }
}

TEST_F(Schedules, EveryRunCanBePlayedBack) {
  const std::uint32_t stream = rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  const std::uint64_t out = rig.alloc(4 * 256), a = rig.alloc(4), b = rig.alloc(4 * 256), c = rig.alloc(128),
                      d = rig.alloc(128), e = rig.alloc(4), g = rig.alloc(8);
  rig.set(a, 0, 4);
  rig.set(c, 1, 128);
  rig.set(e, 0, 4);
  rig.sync();
  rig.launch("without_barrier", 4, 64, {out});
  rig.launch("tickets", 8, 32, {a, b}, stream);
  rig.launch("staged", 1, 32, {c, d});
  rig.launch("flags", 2, 1, {e, g}, stream);
  rig.sync();
  rig.read(out, 256);
  rig.read(b, 256);
  rig.read(d, 32);
  std::set<std::vector<std::uint8_t>> results;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Schedule s;
    s.kind = Schedule::Kind::random;
    s.seed = seed;
    s.quantum = std::uint32_t(seed % 3 * 5);
    if (seed % 4 == 3) s = priorities(seed, 5, 2000);
    const Replayed first = replay(source, rig, s);
    ASSERT_EQ(first.progress, Progress::done) << first.stuck;
    EXPECT_GT(first.switches.size(), 10u);
    Schedule same;
    same.kind = Schedule::Kind::switches;
    same.switches = first.switches;
    const Replayed second = replay(source, rig, same);
    EXPECT_EQ(second.progress, Progress::done);
    EXPECT_EQ(second.host_reads, first.host_reads) << "seed " << seed;
    EXPECT_EQ(second.switches.size(), first.switches.size());
    EXPECT_EQ(second.choices.visible, first.choices.visible);
    results.insert(first.host_reads);
  }
  EXPECT_GT(results.size(), 20u);
}

TEST_F(Schedules, SeedsAreRepeatable) {
  const std::uint64_t out = rig.alloc(4 * 256);
  rig.launch("without_barrier", 4, 64, {out});
  rig.read(out, 256);
  Schedule s;
  s.kind = Schedule::Kind::random;
  s.seed = 5;
  EXPECT_EQ(replay(source, rig, s).host_reads, replay(source, rig, s).host_reads);
}

TEST_F(Schedules, BudgetsEndARun) {
  const std::uint64_t out = rig.alloc(4 * 65536);
  rig.launch("without_barrier", 1024, 64, {out});
  rig.read(out, 65536);
  Schedule s;
  s.kind = Schedule::Kind::random;
  const Replayed again = replay(source, rig, s, 0, 10000);
  EXPECT_EQ(again.progress, Progress::hang);
  EXPECT_NE(again.stuck.find("budget"), std::string::npos);
}

} // namespace deadheat::device_test
