// Systematic exploration on the device of what runs beside threads: copies and launches of other streams, groups of
// cp.async. Every outcome is reached, each trace is run once, and the list of a run repeats it.
#include <map>
#include <set>

#include "device_support.h"
#include "replay/search/exploration.h"

namespace deadheat::device_test {

using device::Progress;
using Direction = trace::Copy::Direction;

namespace {

enum : std::uint32_t { write_x, write_y, write_s, read_s, write_out, copy, commit, wait };

// One thread: x, then y.
template <Mode M> std::int32_t two_stores(ThreadContext* t, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  STORE(write_x, param<std::uint64_t>(t, 0), std::uint32_t, 1);
  STORE(write_y, param<std::uint64_t>(t, 0) + 4, std::uint32_t, 2);
  END
}

// Thread 0 copies a word to shared memory asynchronously and waits for it; thread 1 reads the word when it likes.
template <Mode M> std::int32_t staged(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  if (t->linear == 0) {
    STORE(write_s, shared_window, std::uint32_t, 5);
    t->block->launch->exec->services->async_copy(t, copy, 0, param<std::uint64_t>(t, 0), 4, 4);
    t->block->launch->exec->services->async_commit(t, commit);
    STORE(write_s, shared_window + 8, std::uint32_t, 6);
    t->pending_site = wait, t->arg[0] = 0, t->arg[1] = 0;
    STOP(Step::async_wait);
    LOAD(read_s, shared_window, std::uint32_t, f.value);
    STORE(write_out, param<std::uint64_t>(t, 8), std::uint32_t, f.value);
  } else {
    LOAD(read_s, shared_window, std::uint32_t, f.value);
    STORE(write_out, param<std::uint64_t>(t, 8) + 4, std::uint32_t, f.value);
  }
  END
}

FakeSource make_source() {
  FakeSource s;
  using K = SiteKind;
  s.site(K::access, AccessKind::write);
  s.site(K::access, AccessKind::write);
  s.site(K::access, AccessKind::write);
  s.site(K::access, AccessKind::read);
  s.site(K::access, AccessKind::write);
  s.site(K::async_copy);
  s.site(K::async_commit);
  s.site(K::async_wait);
  ADD_KERNEL(s, two_stores, 16, 0);
  ADD_KERNEL(s, staged, 16, 4096);
  return s;
}

struct Reached {
  std::map<std::vector<std::uint32_t>, std::uint64_t> outcomes; // and how often
  std::uint64_t traces = 0;
};

struct ExploredStreams : testing::Test {
  ExploredStreams() { rig.load(); }
  // A stream that nothing from now on is ordered with, once what was submitted has ended.
  std::uint32_t stream_beside() {
    rig.sync();
    return rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  }
  Reached explore();

  const FakeSource source = make_source();
  Rig rig{source};
};

// Every order of what has been submitted, none of them beyond what exploration chooses.
Reached ExploredStreams::explore() {
  Reached reached;
  search::Exploration exploration({});
  Schedule schedule;
  schedule.kind = Schedule::Kind::switches;
  schedule.driven = true;
  for (bool more = true; more && exploration.traces() < 1000;) {
    exploration.begin();
    const Replayed run = replay(source, rig, schedule, 0, 100000, nullptr, &exploration);
    EXPECT_EQ(run.progress, Progress::done);
    more = exploration.end();
    if (exploration.redundant()) continue;
    std::vector<std::uint32_t> outcome(run.host_reads.size() / 4);
    std::memcpy(outcome.data(), run.host_reads.data(), outcome.size() * 4);
    ++reached.outcomes[outcome];
    Schedule listed = schedule;
    listed.switches = run.switches;
    EXPECT_EQ(replay(source, rig, listed).host_reads, run.host_reads);
  }
  reached.traces = exploration.traces();
  EXPECT_EQ(exploration.beyond(), "");
  return reached;
}

using Words = std::vector<std::uint32_t>;

TEST_F(ExploredStreams, ACopyBesideAKernelSeesAllItsStates) {
  const std::uint64_t x = rig.alloc(8), z = rig.alloc(8);
  rig.set(x, 0, 8);
  const std::uint32_t other = stream_beside();
  rig.launch("two_stores", 1, 1, {x});
  rig.copy(Direction::d2d, z, x, 8, other);
  rig.sync();
  rig.read(z, 2);
  const Reached reached = explore();
  EXPECT_EQ(reached.traces, 3u);
  const std::map<Words, std::uint64_t> expected{{{0, 0}, 1}, {{1, 0}, 1}, {{1, 2}, 1}};
  EXPECT_EQ(reached.outcomes, expected);
}

TEST_F(ExploredStreams, OneStreamHasOneOrder) {
  const std::uint64_t x = rig.alloc(8), z = rig.alloc(8);
  rig.set(x, 0, 8);
  rig.launch("two_stores", 1, 1, {x});
  rig.copy(Direction::d2d, z, x, 8);
  rig.launch("two_stores", 1, 1, {x});
  rig.sync();
  rig.read(z, 2);
  const Reached reached = explore();
  EXPECT_EQ(reached.traces, 1u);
}

TEST_F(ExploredStreams, KernelsOfTwoStreamsInterleave) {
  const std::uint64_t x = rig.alloc(8);
  rig.set(x, 0, 8);
  const std::uint32_t other = stream_beside();
  rig.launch("two_stores", 1, 1, {x});
  rig.set(x, 7, 8, other);
  rig.launch("two_stores", 1, 1, {x}, other);
  rig.sync();
  rig.read(x, 2);
  const Reached reached = explore();
  // The set comes before, between or after the first kernel's stores; those of the second are of the same values.
  EXPECT_EQ(reached.traces, 3u);
}

TEST_F(ExploredStreams, GroupsOfCopiesComeWhenTheyLike) {
  const std::uint64_t from = rig.alloc(4), out = rig.alloc(8);
  rig.set(from, 9, 4);
  rig.sync();
  trace::Launch launch;
  launch.kernel = "staged";
  launch.block = {2, 1, 1};
  launch.dynamic_shared = 16;
  launch.module = rig.module;
  rig.launch(launch, {from, out});
  rig.sync();
  rig.read(out, 2);
  const Reached reached = explore();
  // Thread 1 reads before the store of 5, after it, or what was copied: what thread 0 has waited for is always that.
  EXPECT_EQ(reached.traces, 3u);
  std::set<std::uint32_t> seen;
  for (const auto& [words, count] : reached.outcomes) {
    EXPECT_EQ(words[0], 0x09090909u);
    seen.insert(words[1]);
  }
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_TRUE(seen.count(5) && seen.count(0x09090909u));
}

} // namespace
} // namespace deadheat::device_test
