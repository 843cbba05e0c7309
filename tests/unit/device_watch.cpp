// Watched runs: old values under store histories, the list of what was performed, uniform walks and orders of blocks.
#include <algorithm>
#include <array>

#include "device_support.h"

namespace deadheat::device_test {

using device::Performed;
using device::Progress;

namespace {

enum : std::uint32_t { write_x, read_x, write_out, flag_store, flag_load, fences, add, narrow_add, write_line };

// Block 0 writes x and then the flag; block 1 waits for the flag and reads x.
template <Mode M, bool First, bool Second> std::int32_t message(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  if (t->block->linear == 0) {
    STORE(write_x, param<std::uint64_t>(t, 8), std::uint32_t, 9);
    if (First) {
      FENCE(fences);
    }
    STRONG_STORE(flag_store, param<std::uint64_t>(t, 0), 1);
  } else {
    do {
      STRONG_LOAD(flag_load, param<std::uint64_t>(t, 0), f.value);
    } while (!f.value);
    if (Second) {
      FENCE(fences);
    }
    LOAD(read_x, param<std::uint64_t>(t, 8), std::uint32_t, f.value);
    STORE(write_out, param<std::uint64_t>(t, 16), std::uint32_t, f.value);
  }
  END
}
template <Mode M> std::int32_t no_fences(ThreadContext* t, std::uint8_t* b) { return message<M, false, false>(t, b); }
template <Mode M> std::int32_t one_fence(ThreadContext* t, std::uint8_t* b) { return message<M, false, true>(t, b); }
template <Mode M> std::int32_t two_fences(ThreadContext* t, std::uint8_t* b) { return message<M, true, true>(t, b); }

// The same without fences, of a whole line, of which the last word is read.
struct Line {
  explicit Line(std::uint32_t word) { std::fill(std::begin(words), std::end(words), word); }
  std::uint32_t words[32];
};
template <Mode M> std::int32_t line(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  if (t->block->linear == 0) {
    STORE(write_line, param<std::uint64_t>(t, 8), Line, 9);
    STRONG_STORE(flag_store, param<std::uint64_t>(t, 0), 1);
  } else {
    do {
      STRONG_LOAD(flag_load, param<std::uint64_t>(t, 0), f.value);
    } while (!f.value);
    LOAD(read_x, param<std::uint64_t>(t, 8) + 124, std::uint32_t, f.value);
    STORE(write_out, param<std::uint64_t>(t, 16), std::uint32_t, f.value);
  }
  END
}

// Block 0 sets the flag; block 1 looks at other memory, too, while it waits for it.
template <Mode M> std::int32_t looks_about(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  if (t->block->linear == 0) {
    STRONG_STORE(flag_store, param<std::uint64_t>(t, 0), 1);
  } else {
    do {
      LOAD(read_x, param<std::uint64_t>(t, 8), std::uint32_t, f.value);
      STRONG_LOAD(flag_load, param<std::uint64_t>(t, 0), f.value);
    } while (!f.value);
    STORE(write_out, param<std::uint64_t>(t, 16), std::uint32_t, f.value);
  }
  END
}

// Each thread adds to a counter as often as its block's number says, and once more.
template <Mode M, std::uint32_t Site> std::int32_t count(ThreadContext* t, std::uint8_t* bytes) {
  struct Mine : Frame {
    std::uint32_t value, times;
  };
  auto& f = frame<Mine>(bytes);
  BEGIN
  for (f.times = 0; f.times < 1 + t->block->linear * param<std::uint64_t>(t, 16); ++f.times) {
    ATOMIC_ADD(Site, param<std::uint64_t>(t, 0), 1, f.value);
    STORE(write_out, param<std::uint64_t>(t, 8) + 4 * t->block->linear, std::uint32_t, f.value);
  }
  END
}
template <Mode M> std::int32_t wide_count(ThreadContext* t, std::uint8_t* b) { return count<M, add>(t, b); }
template <Mode M> std::int32_t narrow_count(ThreadContext* t, std::uint8_t* b) { return count<M, narrow_add>(t, b); }

// Every block leaves its number: the last one stays.
template <Mode M> std::int32_t last(ThreadContext* t, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  STORE(write_x, param<std::uint64_t>(t, 0), std::uint32_t, t->block->linear);
  END
}

FakeSource make_source() {
  FakeSource s;
  using K = SiteKind;
  s.site(K::access, AccessKind::write);
  s.site(K::access, AccessKind::read);
  s.site(K::access, AccessKind::write);
  s.site(K::access, AccessKind::write, Ordering::relaxed);
  s.site(K::access, AccessKind::read, Ordering::relaxed);
  s.site(K::fence, AccessKind::read, Ordering::acq_rel);
  s.site(K::access, AccessKind::atomic, Ordering::relaxed, "atom.add.u32");
  s.site(K::access, AccessKind::atomic, Ordering::relaxed, "atom.cta.add.u32");
  s.sites[narrow_add].scope = Scope::cta;
  s.site(K::access, AccessKind::write, Ordering::weak, "discard.global.L2", 16);
  s.sites[write_line].elements = 8;
  ADD_KERNEL(s, no_fences, 16, 0);
  ADD_KERNEL(s, one_fence, 16, 0);
  ADD_KERNEL(s, two_fences, 16, 0);
  ADD_KERNEL(s, line, 16, 0);
  ADD_KERNEL(s, looks_about, 16, 0);
  ADD_KERNEL(s, wide_count, 16, 0);
  ADD_KERNEL(s, narrow_count, 16, 0);
  ADD_KERNEL(s, last, 16, 0);
  return s;
}

Schedule weak(std::uint64_t seed) {
  Schedule s;
  s.kind = Schedule::Kind::random;
  s.seed = seed;
  s.weak = true;
  s.old_rate = 128;
  return s;
}

class Watched : public ::testing::Test {
 protected:
  Watched() : source(make_source()), rig(std::make_unique<Rig>(source)) { rig->load(); }
  void record(const std::string& kernel, std::uint32_t blocks, std::uint64_t more = 0) {
    const std::uint64_t a = rig->alloc(4), b = rig->alloc(128), out = rig->alloc(64);
    rig->set(a, 0, 4);
    rig->set(b, 0, 128);
    rig->set(out, 0, 64);
    const bool counts = kernel.find("count") != std::string::npos;
    rig->launch(kernel, blocks, 1, counts ? std::vector<std::uint64_t>{a, b, more} : std::vector{a, b, out});
    operation = 4;
    natural = rig->read(counts || kernel == "last" ? a : out, 1)[0];
    if (counts) rig->read(b, blocks);
  }
  Replayed run(const Schedule& schedule, std::vector<Performed>* performed = nullptr) {
    return replay(source, *rig, schedule, 0, 100000, performed);
  }
  static std::uint32_t word(const Replayed& run, std::size_t n = 0) {
    std::uint32_t value = ~0u;
    if (run.host_reads.size() >= 4 * n + 4) std::memcpy(&value, run.host_reads.data() + 4 * n, 4);
    return value;
  }
  FakeSource source;
  std::unique_ptr<Rig> rig;
  std::uint32_t natural = 0, operation = 0;
};

} // namespace

TEST_F(Watched, WithoutAFenceTheOldDataIsSeen) {
  for (const char* kernel : {"no_fences", "one_fence", "line"}) {
    rig = nullptr;
    rig = std::make_unique<Rig>(source);
    rig->load();
    record(kernel, 2);
    EXPECT_EQ(natural, 9u);
    unsigned old = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const Replayed r = run(weak(seed));
      ASSERT_EQ(r.progress, Progress::done);
      old += word(r) == 0;
      Schedule strict = weak(seed);
      strict.weak = false;
      EXPECT_EQ(word(run(strict)), 9u);
    }
    EXPECT_GE(old, 5u) << kernel;
  }
}

TEST_F(Watched, WithFencesItIsNot) {
  record("two_fences", 2);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Replayed r = run(weak(seed));
    ASSERT_EQ(r.progress, Progress::done) << "stores become visible eventually";
    ASSERT_EQ(word(r), 9u) << seed;
  }
}

TEST_F(Watched, ALoopSeesTheNewValueWhateverElseItReads) {
  record("looks_about", 2);
  std::size_t old = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Schedule always_old = weak(seed);
    always_old.old_rate = 256;
    const Replayed r = run(always_old);
    ASSERT_EQ(r.progress, Progress::done) << seed;
    old += r.old_reads.size();
  }
  EXPECT_GE(old, 20u);
}

TEST_F(Watched, AtomicsOfABlockLoseUpdatesOfOthers) {
  record("narrow_count", 4);
  unsigned lost = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) lost += word(run(weak(seed))) != 4;
  EXPECT_GE(lost, 5u);
}

TEST_F(Watched, AtomicsOfTheDeviceLoseNone) {
  record("wide_count", 4, 2);
  EXPECT_EQ(natural, 1 + 3 + 5 + 7u);
  for (std::uint64_t seed = 0; seed < 100; ++seed) ASSERT_EQ(word(run(weak(seed))), natural);
}

// Reads return old data in the natural order, too, and a list of these repeats it.
TEST_F(Watched, InTheNaturalOrderOldDataIsSeenAsWell) {
  for (const char* kernel : {"no_fences", "two_fences"}) {
    rig = nullptr;
    rig = std::make_unique<Rig>(source);
    rig->load();
    record(kernel, 2);
    Schedule schedule;
    schedule.weak = true;
    EXPECT_EQ(word(run(schedule)), 9u);
    schedule.old_rate = 256;
    const Replayed old = run(schedule);
    ASSERT_EQ(old.progress, Progress::done) << kernel;
    EXPECT_EQ(word(old), kernel == std::string("no_fences") ? 0u : 9u);
    Schedule listed;
    listed.weak = true;
    listed.old_reads = old.old_reads;
    EXPECT_EQ(run(listed).host_reads, old.host_reads);
  }
}

TEST_F(Watched, OldReadsAreRepeatedFromAList) {
  record("no_fences", 2);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Replayed r = run(weak(seed));
    if (word(r) != 0) continue;
    ASSERT_FALSE(r.old_reads.empty());
    Schedule listed;
    listed.kind = Schedule::Kind::switches;
    listed.switches = r.switches;
    listed.weak = true;
    listed.old_reads = r.old_reads;
    std::vector<Performed> performed;
    const Replayed again = run(listed, &performed);
    EXPECT_EQ(again.host_reads, r.host_reads);
    EXPECT_EQ(again.old_reads, r.old_reads);
    EXPECT_TRUE(std::any_of(performed.begin(), performed.end(), [](const Performed& p) {
      return p.site == read_x && p.age == 1 && p.read == 0 && p.block == 1;
    }));
    listed.old_reads.clear();
    EXPECT_EQ(word(run(listed)), 9u);
    return;
  }
  FAIL() << "nobody read old data";
}

TEST_F(Watched, WhatIsPerformedIsWrittenDown) {
  record("two_fences", 2);
  for (const Schedule::Kind kind : {Schedule::Kind::natural, Schedule::Kind::switches}) {
    Schedule schedule;
    schedule.kind = kind;
    std::vector<Performed> performed;
    EXPECT_EQ(word(run(schedule, &performed)), 9u);
    std::vector<std::uint32_t> sites;
    for (std::size_t n = 0; n < performed.size(); ++n) {
      const Performed& p = performed[n];
      sites.push_back(p.site);
      EXPECT_EQ(p.operation, operation);
      EXPECT_EQ(p.age, 0u);
      if (n) {
        EXPECT_GT(p.step, performed[n - 1].step);
      }
      if (p.site == write_x || p.site == write_out) {
        EXPECT_EQ(p.written, 9u);
        EXPECT_TRUE(p.wrote);
      }
      if (p.site == read_x) {
        EXPECT_EQ(p.read, 9u);
        EXPECT_FALSE(p.wrote);
        EXPECT_EQ(p.nth, 2u);
      }
    }
    EXPECT_EQ(sites, (std::vector<std::uint32_t>{write_x, fences, flag_store, flag_load, fences, read_x, write_out}));
  }
}

// Block 0 adds once, block 1 three times: each of the four places is as likely as any other.
TEST_F(Watched, WalksAreUniform) {
  record("wide_count", 2, 2);
  std::array<unsigned, 4> places{};
  constexpr unsigned runs = 400;
  for (std::uint64_t seed = 0; seed < runs; ++seed) {
    Schedule s;
    s.kind = Schedule::Kind::uniform;
    s.seed = seed;
    s.sites = {{1, add}};
    s.counts = {{operation, 0, 0, 1}, {operation, 1, 0, 3}};
    const Replayed r = run(s);
    ASSERT_EQ(word(r), 4u);
    ASSERT_LT(word(r, 1), 4u);
    ++places[word(r, 1)];
    if (seed % 50 == 0) { // the list of its switches repeats it
      Schedule listed;
      listed.kind = Schedule::Kind::switches;
      listed.switches = r.switches;
      EXPECT_EQ(run(listed).host_reads, r.host_reads);
    }
  }
  for (unsigned n : places) { // 100 expected, standard deviation 8.7
    EXPECT_GT(n, 60u);
    EXPECT_LT(n, 140u);
  }
}

TEST_F(Watched, BlocksInOtherOrders) {
  record("last", 9000); // more than are resident at a time
  EXPECT_EQ(natural, 8999u);
  Schedule s;
  s.kind = Schedule::Kind::priorities;
  s.order = Schedule::Order::reversed;
  EXPECT_EQ(word(run(s)), 0u);
  s.order = Schedule::Order::permuted;
  std::vector<std::uint32_t> lasts;
  for (s.seed = 1; s.seed < 6; ++s.seed) lasts.push_back(word(run(s)));
  std::sort(lasts.begin(), lasts.end());
  EXPECT_GT(std::unique(lasts.begin(), lasts.end()) - lasts.begin(), 2);
  s.order = Schedule::Order::stalled_warps;
  EXPECT_EQ(run(s).progress, Progress::done);
}

} // namespace deadheat::device_test
