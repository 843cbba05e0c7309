#include "device_support.h"

namespace deadheat::device_test {

using device::Progress;

namespace {

enum : std::uint32_t {
  load,
  store,
  bar,
  flag_load,
  flag_store,
  add,
  shfl,
  red,
  sync,
  named,
  arrive,
  fence,
  trap,
  vote
};
FakeSource make_source();

template <Mode M> std::int32_t fill(ThreadContext* t, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  STORE(store, param<std::uint64_t>(t, 0) + 4 * global_id(t), std::uint32_t, global_id(t) * 3);
  END
}

// Reverses a block's values by way of shared memory.
template <Mode M> std::int32_t reverse(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  LOAD(load, param<std::uint64_t>(t, 0) + 4 * global_id(t), std::uint32_t, f.value);
  STORE(store, shared_window + 4 * t->linear, std::uint32_t, f.value);
  BARRIER(bar, 0, 0, 0);
  LOAD(load, shared_window + 4 * (t->block->launch->ntid[0] - 1 - t->linear), std::uint32_t, f.value);
  STORE(store, param<std::uint64_t>(t, 8) + 4 * global_id(t), std::uint32_t, f.value);
  END
}

// Block 0 waits for a value that the last block writes.
template <Mode M> std::int32_t wait_for_last(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  if (t->block->linear == 0) {
    do {
      STRONG_LOAD(flag_load, param<std::uint64_t>(t, 0), f.value);
    } while (f.value == 0);
    STORE(store, param<std::uint64_t>(t, 8), std::uint32_t, f.value);
  } else if (t->block->linear + 1 == t->block->launch->nctaid[0]) {
    STRONG_STORE(flag_store, param<std::uint64_t>(t, 0), 77);
  }
  END
}

// One thread waits for a value that nobody writes.
template <Mode M> std::int32_t wait_forever(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  do {
    STRONG_LOAD(flag_load, param<std::uint64_t>(t, 0), f.value);
  } while (f.value == 0);
  END
}

// Looks a thousand times, then gives up.
template <Mode M> std::int32_t wait_patiently(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value, looks;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  do {
    STRONG_LOAD(flag_load, param<std::uint64_t>(t, 0), f.value);
  } while (f.value == 0 && ++f.looks < 1000);
  STORE(store, param<std::uint64_t>(t, 8), std::uint32_t, f.looks);
  END
}

template <Mode M> std::int32_t warp_sum(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value, distance;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  f.value = t->lane;
  for (f.distance = 16; f.distance; f.distance /= 2) {
    WARP(shfl, WarpOp::shfl_down, ~0u, f.value, f.distance, 31);
    f.value += std::uint32_t(t->result[0]);
  }
  STORE(store, param<std::uint64_t>(t, 0) + 4 * global_id(t), std::uint32_t, f.value);
  END
}

template <Mode M> std::int32_t count_even(ThreadContext* t, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  BARRIER(red, 1, 0, t->linear % 2 == 0);
  STORE(store, param<std::uint64_t>(t, 0) + 4 * global_id(t), std::uint32_t, t->result[0]);
  END
}

// Warps 0 and 1 meet at barrier 2; warp 2 only arrives at barrier 3, for which warp 3 waits.
template <Mode M> std::int32_t named_barriers(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  if (t->warp == 0) {
    STORE(store, shared_window + 4 * t->lane, std::uint32_t, t->lane + 100);
    BARRIER(named, 2, 64, 0);
  } else if (t->warp == 1) {
    BARRIER(named, 2, 64, 0);
    LOAD(load, shared_window + 4 * t->lane, std::uint32_t, f.value);
    STORE(store, param<std::uint64_t>(t, 0) + 4 * t->lane, std::uint32_t, f.value);
  } else if (t->warp == 2) {
    STORE(store, shared_window + 128 + 4 * t->lane, std::uint32_t, t->lane + 200);
    BARRIER(arrive, 3, 64, 0);
  } else {
    BARRIER(named, 3, 64, 0);
    LOAD(load, shared_window + 128 + 4 * t->lane, std::uint32_t, f.value);
    STORE(store, param<std::uint64_t>(t, 0) + 128 + 4 * t->lane, std::uint32_t, f.value);
  }
  END
}

// Odd threads leave before the barrier.
template <Mode M> std::int32_t leave_early(ThreadContext* t, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  if (t->linear % 2 == 0) {
    BARRIER(bar, 0, 0, 0);
    WARP(sync, WarpOp::barrier, ~0u);
    STORE(store, param<std::uint64_t>(t, 0) + 4 * t->linear, std::uint32_t, 1);
  }
  END
}

// Odd threads leave, even ones shuffle among themselves, then read what odd ones would have to give.
template <Mode M> std::int32_t shuffle_behind(ThreadContext* t, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  if (t->linear % 2 == 0) {
    WARP(shfl, WarpOp::shfl_bfly, ~0u, t->lane, 2, 31);
    STORE(store, param<std::uint64_t>(t, 0) + 4 * t->linear, std::uint32_t, std::uint32_t(t->result[0]));
    WARP(shfl, WarpOp::shfl_bfly, ~0u, t->lane, param<std::uint64_t>(t, 8), 31);
  }
  END
}

// Half the block waits at one barrier, half at another.
template <Mode M> std::int32_t deadlock(ThreadContext* t, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  BARRIER(bar, t->linear % 2, 0, 0);
  END
}

template <Mode M> std::int32_t out_of_bounds(ThreadContext* t, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  STORE(store, param<std::uint64_t>(t, 0) + 4 * global_id(t), std::uint32_t, 1);
  END
}

// Everybody adds; each gets a number of its own.
template <Mode M> std::int32_t count_up(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t old;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  ATOMIC_ADD(add, param<std::uint64_t>(t, 0), 1, f.old);
  STORE(store, param<std::uint64_t>(t, 8) + 4 * f.old, std::uint32_t, global_id(t));
  END
}

template <Mode M> std::int32_t say_hello(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t padding2[2];
    std::uint64_t arguments[3];
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  if (global_id(t) < 2) {
    const double half = 0.5;
    std::uint32_t id = global_id(t);
    std::memcpy(&f.arguments[0], &id, 4);
    std::memcpy(&f.arguments[1], &half, 8);
    f.arguments[2] = param<std::uint64_t>(t, 8);
    t->block->launch->exec->services->print(
        t, param<std::uint64_t>(t, 0),
        local_window + std::uint64_t(reinterpret_cast<std::uint8_t*>(f.arguments) - t->stack));
  }
  END
}

// Each thread allocates, writes, reads back and frees.
template <Mode M> std::int32_t use_heap(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint64_t at;
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  f.at = t->block->launch->exec->services->allocate(t, ~0u, 24);
  STORE(store, f.at + 20, std::uint32_t, global_id(t));
  WARP(sync, WarpOp::barrier, ~0u);
  LOAD(load, f.at + 20, std::uint32_t, f.value);
  STORE(store, param<std::uint64_t>(t, 0) + 4 * global_id(t), std::uint32_t, f.value);
  t->block->launch->exec->services->release(t, ~0u, f.at);
  END
}

FakeSource make_source() {
  FakeSource s;
  using K = SiteKind;
  s.site(K::access, AccessKind::read, Ordering::weak, "ld");
  s.site(K::access, AccessKind::write, Ordering::weak, "st");
  s.site(K::barrier, AccessKind::read, Ordering::weak, "barrier.sync.aligned");
  s.site(K::access, AccessKind::read, Ordering::acquire, "ld.acquire");
  s.site(K::access, AccessKind::write, Ordering::release, "st.release");
  s.site(K::access, AccessKind::atomic, Ordering::relaxed, "atom.add");
  s.site(K::warp_value, AccessKind::read, Ordering::weak, "shfl");
  s.site(K::barrier, AccessKind::read, Ordering::weak, "barrier.red.popc.aligned.u32");
  s.site(K::warp_barrier, AccessKind::read, Ordering::weak, "bar.warp.sync");
  s.site(K::barrier, AccessKind::read, Ordering::weak, "barrier.sync");
  s.site(K::barrier, AccessKind::read, Ordering::weak, "barrier.arrive");
  s.sites.back().arrive_only = true;
  s.site(K::fence, AccessKind::read, Ordering::sc, "membar.gl");
  s.site(K::exit, AccessKind::read, Ordering::weak, "trap");
  s.site(K::warp_value, AccessKind::read, Ordering::weak, "vote");
  ADD_KERNEL(s, fill, 16, 0);
  ADD_KERNEL(s, reverse, 16, 4096);
  ADD_KERNEL(s, wait_for_last, 16, 0);
  ADD_KERNEL(s, wait_forever, 16, 0);
  ADD_KERNEL(s, wait_patiently, 16, 0);
  ADD_KERNEL(s, warp_sum, 16, 0);
  ADD_KERNEL(s, count_even, 16, 0);
  ADD_KERNEL(s, named_barriers, 16, 4096);
  ADD_KERNEL(s, leave_early, 16, 0);
  ADD_KERNEL(s, shuffle_behind, 16, 0);
  ADD_KERNEL(s, deadlock, 16, 0);
  ADD_KERNEL(s, out_of_bounds, 16, 0);
  ADD_KERNEL(s, count_up, 16, 0);
  ADD_KERNEL(s, say_hello, 48, 0);
  ADD_KERNEL(s, use_heap, 32, 0);
  return s;
}

} // namespace

// Every test runs its kernels plain, recorded, and under a random schedule: the results are the same.
class Machine : public ::testing::TestWithParam<int> {
 protected:
  Machine() : source(make_source()), rig(source, options()) { rig.load(); }
  static device::DeviceOptions options() {
    device::DeviceOptions o;
    o.record_accesses = GetParam() == 1 || GetParam() == 4;
    if (GetParam() >= 2) {
      o.schedule.kind = Schedule::Kind::random;
      o.schedule.seed = 3;
      o.schedule.quantum = GetParam() == 2 ? 0 : 20;
    }
    o.check = GetParam() != 3;
    return o;
  }
  FakeSource source;
  Rig rig;
};
INSTANTIATE_TEST_SUITE_P(Modes, Machine, ::testing::Values(0, 1, 2, 3, 4));

TEST_P(Machine, ManyBlocks) {
  const std::uint32_t blocks = 5000, threads = 96;
  const std::uint64_t a = rig.alloc(4 * blocks * threads);
  rig.launch("fill", blocks, threads, {a});
  ASSERT_EQ(rig.sync(), Progress::done);
  const auto out = rig.words(a, blocks * threads);
  for (std::uint32_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], 3 * i);
}

TEST_P(Machine, BarriersAndSharedMemory) {
  const std::uint32_t blocks = 7, threads = 1000;
  const std::uint64_t a = rig.alloc(4 * blocks * threads), b = rig.alloc(4 * blocks * threads);
  rig.launch("fill", blocks, threads, {a});
  rig.launch("reverse", blocks, threads, {a, b});
  ASSERT_EQ(rig.sync(), Progress::done);
  const auto out = rig.words(b, blocks * threads);
  for (std::uint32_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(out[i], 3 * (i / threads * threads + threads - 1 - i % threads));
}

TEST_P(Machine, SpinningAcrossBlocks) {
  const std::uint64_t a = rig.alloc(8);
  rig.set(a, 0, 8);
  rig.launch("wait_for_last", 300, 64, {a, a + 4});
  ASSERT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(rig.words(a, 2)[1], 77u);
}

TEST_P(Machine, SpinningAcrossStreams) {
  const std::uint64_t a = rig.alloc(8);
  rig.set(a, 0, 8);
  rig.sync();
  const std::uint32_t s = rig.device->create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  rig.launch("wait_forever", 1, 32, {a});
  rig.set(a, 1, 4, s);
  EXPECT_EQ(rig.sync(), Progress::done);
}

TEST_P(Machine, HangsAreFound) {
  rig.sink.ignore = true; // a million looks
  const std::uint64_t a = rig.alloc(8);
  rig.set(a, 0, 8);
  rig.launch("wait_forever", 2, 33, {a});
  EXPECT_EQ(rig.sync(), Progress::hang);
  EXPECT_NE(rig.device->stuck_description().find("66 threads waiting for a value"), std::string::npos)
      << rig.device->stuck_description();
}

TEST_P(Machine, Deadlock) {
  rig.launch("deadlock", 1, 64, {});
  EXPECT_EQ(rig.sync(), Progress::hang);
  EXPECT_NE(rig.device->stuck_description().find("64 threads at a barrier"), std::string::npos)
      << rig.device->stuck_description();
}

TEST_P(Machine, BoundedPollsAreNoHang) {
  const std::uint64_t a = rig.alloc(8);
  rig.set(a, 0, 8);
  rig.launch("wait_patiently", 1, 32, {a, a + 4});
  ASSERT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(rig.words(a, 2)[1], 1000u);
}

TEST_P(Machine, Shuffles) {
  const std::uint64_t a = rig.alloc(4 * 256);
  rig.launch("warp_sum", 2, 128, {a});
  ASSERT_EQ(rig.sync(), Progress::done);
  const auto out = rig.words(a, 256);
  for (std::uint32_t i = 0; i < 256; i += 32) EXPECT_EQ(out[i], 496u);
}

TEST_P(Machine, BarrierReductions) {
  const std::uint64_t a = rig.alloc(4 * 101);
  rig.launch("count_even", 1, 101, {a});
  ASSERT_EQ(rig.sync(), Progress::done);
  for (std::uint32_t v : rig.words(a, 101)) EXPECT_EQ(v, 51u);
}

TEST_P(Machine, NamedBarriers) {
  const std::uint64_t a = rig.alloc(256);
  rig.launch("named_barriers", 1, 128, {a});
  ASSERT_EQ(rig.sync(), Progress::done);
  const auto out = rig.words(a, 64);
  for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i < 32 ? i + 100 : i - 32 + 200);
}

TEST_P(Machine, ExitedThreadsDoNotHoldUpOthers) {
  const std::uint64_t a = rig.alloc(256);
  rig.launch("leave_early", 1, 64, {a});
  ASSERT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(rig.words(a, 3)[2], 1u);
  EXPECT_TRUE(rig.sink.all<trace::SyncError>().empty()) << "a mask may name lanes that have exited";
}

TEST_P(Machine, ShufflesReadNobodyWhoHasExited) {
  const std::uint64_t a = rig.alloc(256);
  rig.launch("shuffle_behind", 1, 64, {a, 2});
  ASSERT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(rig.words(a, 7)[4], 6u);
  EXPECT_TRUE(rig.sink.all<trace::SyncError>().empty());
  rig.launch("shuffle_behind", 1, 64, {a, 1});
  ASSERT_EQ(rig.sync(), Progress::done);
  const auto errors = rig.sink.all<trace::SyncError>();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].text.find("a shuffle reads a lane that has exited"), std::string::npos);
}

TEST_P(Machine, MemoryErrors) {
  if (GetParam() == 3) return; // addresses are not checked
  const std::uint64_t a = rig.alloc(256);
  rig.launch("out_of_bounds", 1, 128, {a});
  EXPECT_EQ(rig.sync(), Progress::fault);
  ASSERT_TRUE(rig.device->fault());
  const trace::MemoryError& e = *rig.device->fault();
  EXPECT_EQ(e.kind, trace::MemoryError::Kind::out_of_bounds);
  EXPECT_GE(e.thread, 64u);
  EXPECT_EQ(e.address, a + 4 * e.thread);
  EXPECT_EQ(e.nearest_allocation, 1u);
  EXPECT_EQ(e.access, AccessKind::write);
  EXPECT_EQ(rig.sync(), Progress::fault) << "sticky";
}

TEST_P(Machine, Atomics) {
  const std::uint64_t a = rig.alloc(4), b = rig.alloc(4 * 640);
  rig.set(a, 0, 4);
  rig.launch("count_up", 10, 64, {a, b});
  ASSERT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(rig.words(a, 1)[0], 640u);
  std::vector<bool> seen(640);
  for (std::uint32_t v : rig.words(b, 640)) seen.at(v) = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 640);
}

TEST_P(Machine, Printing) {
  const std::uint64_t a = rig.alloc(64);
  const std::string format = "%u: %5.2f <%s> %%\n";
  std::vector<char> text(64);
  std::memcpy(text.data(), format.c_str(), format.size() + 1);
  std::memcpy(text.data() + 32, "text", 5);
  rig.copy(trace::Copy::Direction::h2d, a, std::uint64_t(text.data()), 64);
  rig.launch("say_hello", 1, 32, {a, a + 32});
  ::testing::internal::CaptureStdout();
  ASSERT_EQ(rig.sync(), Progress::done);
  const std::string out = ::testing::internal::GetCapturedStdout();
  if (GetParam() < 2) {
    EXPECT_EQ(out, "0:  0.50 <text> %\n1:  0.50 <text> %\n");
  }
  EXPECT_EQ(out.size(), 36u);
  ASSERT_EQ(rig.sink.all<trace::HostRead>().size(), 1u);
}

TEST_P(Machine, DeviceHeap) {
  const std::uint64_t a = rig.alloc(4 * 256);
  rig.launch("use_heap", 4, 64, {a});
  ASSERT_EQ(rig.sync(), Progress::done);
  const auto out = rig.words(a, 256);
  for (std::uint32_t i = 0; i < 256; ++i) EXPECT_EQ(out[i], i);
}

} // namespace deadheat::device_test
