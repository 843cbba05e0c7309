#include <set>

#include "device_support.h"

namespace deadheat::device_test {

using device::Progress;

namespace {

enum : std::uint32_t { load, store, bar, add, fence, arrive, named, copy, commit, wait, flag_load, flag_store };

// Writes, adds to a counter, fences, writes again, meets the others, reads.
template <Mode M> std::int32_t mixed(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  STORE(store, shared_window + 4 * t->linear, std::uint32_t, t->linear);
  ATOMIC_ADD(add, param<std::uint64_t>(t, 0), 1, f.value);
  FENCE(fence);
  STORE(store, shared_window + 4 * t->linear, std::uint32_t, f.value);
  if (t->linear >= 60) return 0; // leaves before the barrier
  BARRIER(bar, 0, 0, 0);
  LOAD(load, shared_window + 4 * (t->linear ^ 1), std::uint32_t, f.value);
  STORE(store, param<std::uint64_t>(t, 8) + 4 * global_id(t), std::uint32_t, f.value);
  END
}

template <Mode M> std::int32_t hand_over(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  STORE(store, shared_window + 4 * t->linear, std::uint32_t, t->linear);
  if (t->warp == 0) {
    BARRIER(arrive, 1, 64, 0);
    STORE(store, shared_window + 4 * (64 + t->linear), std::uint32_t, 1);
  } else {
    BARRIER(named, 1, 64, 0);
    LOAD(load, shared_window + 4 * (t->linear - 32), std::uint32_t, f.value);
  }
  END
}

// A barrier of 64 threads: those from the first parameter on and below the second exit before it, the warp that the
// third names goes past it.
template <Mode M> std::int32_t counted(ThreadContext* t, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  if (t->linear >= param<std::uint64_t>(t, 0) && t->linear < param<std::uint64_t>(t, 8)) {
    if (t->linear % 2) { // later than others arrive
      STRONG_STORE(flag_store, param<std::uint64_t>(t, 24), 1);
    }
    return 0;
  }
  if (t->warp != param<std::uint64_t>(t, 16)) {
    BARRIER(named, 1, 64, 0);
  }
  BARRIER(bar, 0, 0, 0);
  END
}

// A long log in each lane.
template <Mode M> std::int32_t many(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t i;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  for (f.i = 0; f.i < 5000; ++f.i) {
    STORE(store, param<std::uint64_t>(t, 0) + 4 * t->linear, std::uint32_t, f.i);
  }
  END
}

template <Mode M> std::int32_t staged(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  STORE(store, shared_window + 4 * t->linear, std::uint32_t, 5);
  t->block->launch->exec->services->async_copy(t, copy, 4 * t->linear, param<std::uint64_t>(t, 0) + 4 * t->linear, 4,
                                               4);
  t->block->launch->exec->services->async_commit(t, commit);
  LOAD(load, shared_window + 4 * t->linear, std::uint32_t, f.value);
  t->pending_site = wait, t->arg[0] = 0, t->arg[1] = 0;
  STOP(Step::async_wait);
  STORE(store, param<std::uint64_t>(t, 8) + 4 * t->linear, std::uint32_t, f.value);
  END
}

// Pairs of threads in different blocks hand a value over by a flag.
template <Mode M> std::int32_t flags(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  if (t->block->linear == 0) {
    do {
      STRONG_LOAD(flag_load, param<std::uint64_t>(t, 0) + 4 * t->linear, f.value);
    } while (!f.value);
    LOAD(load, param<std::uint64_t>(t, 8) + 4 * t->linear, std::uint32_t, f.value);
  } else {
    STORE(store, param<std::uint64_t>(t, 8) + 4 * t->linear, std::uint32_t, 9);
    STRONG_STORE(flag_store, param<std::uint64_t>(t, 0) + 4 * t->linear, 1);
  }
  END
}

FakeSource make_source() {
  FakeSource s;
  using K = SiteKind;
  s.site(K::access, AccessKind::read);
  s.site(K::access, AccessKind::write);
  s.site(K::barrier);
  s.site(K::access, AccessKind::atomic, Ordering::relaxed);
  s.site(K::fence, AccessKind::read, Ordering::sc);
  s.sites.back().scope = Scope::gpu;
  s.site(K::barrier);
  s.sites.back().arrive_only = true;
  s.site(K::barrier);
  s.site(K::async_copy);
  s.site(K::async_commit);
  s.site(K::async_wait);
  s.site(K::access, AccessKind::read, Ordering::acquire);
  s.site(K::access, AccessKind::write, Ordering::release);
  ADD_KERNEL(s, mixed, 16, 1024);
  ADD_KERNEL(s, hand_over, 16, 1024);
  ADD_KERNEL(s, counted, 32, 0);
  ADD_KERNEL(s, many, 16, 0);
  ADD_KERNEL(s, staged, 16, 1024);
  ADD_KERNEL(s, flags, 16, 0);
  return s;
}

// What a record does to one thread, by site: for checking program order.
struct Step1 {
  std::uint32_t thread, site;
};
std::vector<Step1> steps(const KeepingSink& sink, std::uint32_t block) {
  std::vector<Step1> all;
  auto lanes = [&](const trace::Warp& w, std::uint32_t mask, std::uint32_t site) {
    if (w.block != block) return;
    for (; mask; mask &= mask - 1) all.push_back({w.warp * 32 + std::uint32_t(__builtin_ctz(mask)), site});
  };
  for (const auto& item : sink.items) {
    for (const WeakEntry& e : item.weak)
      if (e.block == block) all.push_back({e.thread, e.entry.site});
    if (!item.weak.empty()) continue;
    if (auto* r = std::get_if<trace::Access>(&item.record)) lanes(r->warp, r->mask, r->site);
    if (auto* r = std::get_if<trace::Fence>(&item.record)) lanes(r->warp, r->mask, r->site);
    if (auto* r = std::get_if<trace::BarrierArrive>(&item.record)) lanes(r->warp, r->mask, r->site);
    if (auto* r = std::get_if<trace::AsyncCopy>(&item.record)) lanes(r->warp, r->mask, r->site);
    if (auto* r = std::get_if<trace::AsyncCommit>(&item.record)) lanes(r->warp, r->mask, r->site);
    if (auto* r = std::get_if<trace::AsyncWait>(&item.record)) lanes(r->warp, r->mask, r->site);
    if (auto* r = std::get_if<trace::BlockBarrier>(&item.record); r && r->block == block)
      for (std::uint32_t thread = 0; thread < 60; ++thread) all.push_back({thread, r->site});
  }
  return all;
}
std::vector<std::uint32_t> of_thread(const std::vector<Step1>& all, std::uint32_t thread) {
  std::vector<std::uint32_t> sites;
  for (const Step1& s : all)
    if (s.thread == thread) sites.push_back(s.site);
  return sites;
}

class Record : public ::testing::Test {
 protected:
  Record() : source(make_source()), rig(source) { rig.load(); }
  FakeSource source;
  Rig rig;
};

} // namespace

TEST_F(Record, EachThreadInProgramOrder) {
  const std::uint64_t a = rig.alloc(4), b = rig.alloc(4 * 256);
  rig.set(a, 0, 4);
  rig.launch("mixed", 4, 64, {a, b});
  ASSERT_EQ(rig.sync(), Progress::done);
  const auto all = steps(rig.sink, 2);
  for (std::uint32_t thread = 0; thread < 64; ++thread) {
    std::vector<std::uint32_t> expected{store, add, fence, store};
    if (thread < 60) expected.insert(expected.end(), {bar, load, store});
    EXPECT_EQ(of_thread(all, thread), expected) << thread;
  }
}

TEST_F(Record, StrongOperationsOfAWarpAreOneRecord) {
  const std::uint64_t a = rig.alloc(4), b = rig.alloc(4 * 256);
  rig.set(a, 0, 4);
  rig.launch("mixed", 4, 64, {a, b});
  rig.sync();
  const auto accesses = rig.sink.all<trace::Access>();
  ASSERT_EQ(accesses.size(), 8u);
  std::set<std::uint64_t> tickets;
  for (const trace::Access& access : accesses) {
    EXPECT_EQ(access.mask, ~0u);
    EXPECT_EQ(access.space, Space::global);
    for (int lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(access.address[lane], a);
      EXPECT_EQ(access.value_written[lane], access.value_read[lane] + 1);
      EXPECT_EQ(access.digest[lane], access.value_written[lane]);
      EXPECT_TRUE(access.wrote[lane]);
      EXPECT_TRUE(tickets.insert(access.order_first[lane]).second);
      if (lane) {
        EXPECT_GT(access.order_first[lane], access.order_first[lane - 1]);
      }
    }
  }
  EXPECT_EQ(rig.sink.all<trace::Fence>().size(), 8u);
}

TEST_F(Record, ExitsComeBeforeTheBarrierThatDoesNotWaitForThem) {
  const std::uint64_t a = rig.alloc(4), b = rig.alloc(4 * 64);
  rig.launch("mixed", 1, 64, {a, b});
  rig.sync();
  bool exited = false, met = false;
  for (const auto& item : rig.sink.items) {
    if (!item.weak.empty()) continue;
    if (auto* r = std::get_if<trace::ThreadExit>(&item.record); r && !met) {
      EXPECT_EQ(r->warp.warp, 1u);
      EXPECT_EQ(r->mask, 0xf0000000u);
      exited = true;
    }
    if (std::get_if<trace::BlockBarrier>(&item.record)) {
      EXPECT_TRUE(exited);
      met = true;
    }
  }
  EXPECT_TRUE(met);
}

TEST_F(Record, ArrivalsAreWrittenWhenTheyHappen) {
  rig.launch("hand_over", 1, 64, {});
  ASSERT_EQ(rig.sync(), Progress::done);
  const auto arrivals = rig.sink.all<trace::BarrierArrive>();
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_FALSE(arrivals[0].sync);
  EXPECT_TRUE(arrivals[1].sync);
  EXPECT_EQ(arrivals[1].mask, ~0u);
  EXPECT_EQ(rig.sink.all<trace::BarrierComplete>().size(), 1u);
  EXPECT_TRUE(rig.sink.all<trace::BlockBarrier>().empty());
  const auto all = steps(rig.sink, 0);
  EXPECT_EQ(of_thread(all, 3), (std::vector<std::uint32_t>{store, arrive, store}));
  EXPECT_EQ(of_thread(all, 40), (std::vector<std::uint32_t>{store, named, load}));
}

TEST_F(Record, CountsAreOfWarpsWhateverHasExited) {
  const std::uint64_t flag = rig.alloc(4);
  rig.launch("counted", 1, 64, {40, 64, 9, flag});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  EXPECT_EQ(rig.sink.all<trace::BlockBarrier>().size(), 2u);
  EXPECT_TRUE(rig.sink.all<trace::SyncError>().empty());
}

TEST_F(Record, AFullCountIsNotTheWholeBlock) {
  const std::uint64_t flag = rig.alloc(4);
  rig.launch("counted", 1, 80, {48, 64, 1, flag}); // 64 are left: of them 48 meet, of two warps
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  const auto arrivals = rig.sink.all<trace::BarrierArrive>();
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_EQ(arrivals[0].mask, ~0u);
  EXPECT_EQ(arrivals[1].mask, 0xffffu);
  EXPECT_EQ(rig.sink.all<trace::BarrierComplete>().size(), 1u);
  EXPECT_EQ(rig.sink.all<trace::BlockBarrier>().size(), 1u);
}

TEST_F(Record, LongLogsGrow) {
  const std::uint64_t a = rig.alloc(4 * 32);
  rig.launch("many", 1, 32, {a});
  ASSERT_EQ(rig.sync(), Progress::done);
  std::size_t calls = 0;
  std::vector<std::uint32_t> next(32, 0);
  for (const auto& item : rig.sink.items) {
    calls += !item.weak.empty();
    for (const WeakEntry& e : item.weak) EXPECT_EQ(e.entry.digest, next[e.thread]++);
  }
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(next[31], 5000u);
}

TEST_F(Record, AsynchronousCopiesKeepTheirPlace) {
  const std::uint64_t a = rig.alloc(4 * 32), b = rig.alloc(4 * 32);
  rig.set(a, 1, 128);
  rig.launch("staged", 1, 32, {a, b});
  ASSERT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(of_thread(steps(rig.sink, 0), 7), (std::vector<std::uint32_t>{store, copy, commit, load, wait, store}));
  EXPECT_EQ(rig.sink.all<trace::AsyncCopy>()[0].digest[7], 0x01010101u);
  EXPECT_EQ(rig.words(b, 1)[0], 0x01010101u) << "in the natural order a group is performed when it is committed";
}

TEST_F(Record, AcquiresComeAfterTheReleasesTheyRead) {
  const std::uint64_t a = rig.alloc(4 * 32), b = rig.alloc(4 * 32);
  rig.set(a, 0, 128);
  rig.launch("flags", 2, 32, {a, b});
  ASSERT_EQ(rig.sync(), Progress::done);
  bool released = false;
  for (const auto& item : rig.sink.items) {
    if (!item.weak.empty()) continue;
    auto* r = std::get_if<trace::Access>(&item.record);
    if (!r) continue;
    if (r->site == flag_store) released = true;
    if (r->site == flag_load && r->value_read[0]) {
      EXPECT_TRUE(released);
    }
  }
}

TEST_F(Record, ReplaysGiveTheSameBytes) {
  const std::uint64_t a = rig.alloc(4), b = rig.alloc(4 * 256), c = rig.alloc(128), d = rig.alloc(128);
  rig.set(a, 0, 4);
  rig.set(c, 0, 128);
  rig.launch("mixed", 4, 64, {a, b});
  rig.launch("flags", 2, 32, {c, d});
  rig.read(b, 256);
  rig.read(d, 32);
  const Replayed again = replay(source, rig);
  EXPECT_EQ(again.host_reads.size(), 4u * (256 + 32));
  EXPECT_EQ(again.host_reads, rig.sink.host_reads());
}

} // namespace deadheat::device_test
