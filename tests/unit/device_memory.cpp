#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "device_support.h"
#include "replay/device/memory.h"

namespace deadheat::device_test {

using device::FreeRanges;
using device::Memory;

std::unique_ptr<Memory> memory(std::uint64_t seed = 1, std::uint64_t capacity = std::uint64_t(1) << 30) {
  auto made = Memory::create(seed, capacity);
  EXPECT_TRUE(made);
  return made ? std::move(*made) : nullptr;
}

TEST(FreeRanges, CoalescesAndCarves) {
  FreeRanges free;
  free.insert(100, 200);
  free.insert(300, 400);
  free.insert(200, 300);
  EXPECT_EQ(free.best_fit(300), 100u);
  EXPECT_EQ(free.carve(150, 250), 100u);
  EXPECT_EQ(free.best_fit(151), 0u);
  EXPECT_EQ(free.best_fit(60), 250u);
  EXPECT_EQ(free.best_fit(50), 100u); // the tightest
  EXPECT_EQ(free.carve(0, 1000), 200u);
  EXPECT_EQ(free.best_fit(1), 0u);
}

TEST(FreeRanges, FitsAligned) {
  FreeRanges free;
  free.insert(100, 160); // has no 50 bytes from a multiple of 64 on
  free.insert(250, 310); // has them, from 256 on
  free.insert(400, 900);
  EXPECT_EQ(free.best_fit(50, 64), 256u);
  EXPECT_EQ(free.best_fit(55, 64), 448u);
  EXPECT_EQ(free.best_fit(60), 100u);
  EXPECT_EQ(free.best_fit(450, 64), 448u);
  EXPECT_EQ(free.best_fit(453, 64), 0u);
}

TEST(Memory, OneAtATime) {
  auto first = memory();
  EXPECT_FALSE(Memory::create(1, 1 << 20));
}

// The pattern is copied where no file of it can be had to be mapped.
TEST(Memory, FilesMayBeLimited) {
  const auto run = [] {
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    constexpr std::uint64_t bytes = 5 * Memory::segment_bytes, seed = 91;
    const auto m = memory(seed);
    const std::uint64_t place = *m->place(false, bytes);
    m->fill(place, bytes);
    std::vector<std::uint8_t> pattern(Memory::segment_bytes);
    Memory::make_pattern(seed, pattern.data());
    bool same = true;
    for (std::uint64_t at = 0; at < bytes; at += Memory::segment_bytes)
      same = same && !std::memcmp(reinterpret_cast<const void*>(place + at), pattern.data(), pattern.size());
    std::_Exit(same ? 0 : 1);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

TEST(Memory, PlacesApartAndReusesAtOnce) {
  auto m = memory();
  const std::uint64_t a = *m->place(false, 512), b = *m->place(false, 512);
  EXPECT_GE(b - a, 512u + 256u);
  EXPECT_EQ(a % 256, 0u);
  m->release(a, 512);
  EXPECT_EQ(*m->place(false, 500), a);
}

TEST(Memory, PlacesLargeOnesAtWholePages) {
  auto m = memory();
  const std::uint64_t small = *m->place(false, 1 << 20), a = *m->place(false, 3 << 20),
                      b = *m->place(false, 1100 << 10);
  for (const std::uint64_t large : {a, b}) EXPECT_EQ(large % Memory::segment_bytes, 0u);
  EXPECT_GE(b, a + (3 << 20) + 256);
  EXPECT_EQ(*m->place(false, 512), Memory::reserved(1 << 20) + small); // what lies between is not lost
  m->release(a, 3 << 20);
  EXPECT_EQ(*m->place(false, 3 << 20), a);
  m->release(a, 3 << 20);
  EXPECT_EQ(*m->place(false, 1300 << 10), a); // the tightest range that has it from a whole page on
}

TEST(Memory, SamePatternWhicheverWayItIsFilled) {
  auto m = memory(7);
  const std::uint64_t bytes = 16 * Memory::segment_bytes;
  const std::uint64_t large = *m->place(false, bytes);
  m->fill(large, bytes);
  m->validate(large, bytes);
  const auto* at = reinterpret_cast<const std::uint8_t*>(large);
  std::vector<std::uint8_t> first(at, at + 4 * Memory::segment_bytes);
  std::uint32_t zeros = 0;
  for (std::uint8_t byte : first) zeros += byte == 0;
  EXPECT_LT(zeros, first.size() / 128);
  EXPECT_TRUE(m->valid(large, bytes));
  reinterpret_cast<std::uint8_t*>(large)[3 * Memory::segment_bytes] ^= 1;
  m->release(large, bytes);
  EXPECT_FALSE(m->valid(large, 1));
  const std::uint64_t again = *m->place(false, 3 * Memory::segment_bytes, large);
  m->fill(again, 3 * Memory::segment_bytes); // by copying
  EXPECT_EQ(0, std::memcmp(first.data(), reinterpret_cast<const void*>(again), 3 * Memory::segment_bytes));
  m.reset();
  auto other = memory(8);
  const std::uint64_t c = *other->place(false, 64, large);
  other->fill(c, 64);
  EXPECT_NE(0, std::memcmp(first.data(), reinterpret_cast<const void*>(c), 64));
}

TEST(Memory, ShadowKnowsTheLastBytes) {
  auto m = memory();
  const std::uint64_t a = *m->place(false, 100);
  m->validate(a, 100);
  EXPECT_TRUE(m->valid(a, 100));
  EXPECT_TRUE(m->valid(a + 96, 4));
  EXPECT_FALSE(m->valid(a + 97, 4));
  EXPECT_FALSE(m->valid(a, 101));
  EXPECT_FALSE(m->valid(a - 1, 1));
  m->invalidate(a, 100);
  EXPECT_FALSE(m->valid(a, 1));
}

TEST(Memory, StreamOrderedReuse) {
  auto m = memory();
  const std::uint64_t a = *m->place(false, 4096);
  m->release_later(a, 4096, 5, 17);
  auto same_stream = [](std::uint32_t stream, std::uint32_t) { return stream == 5; };
  auto other_stream = [](std::uint32_t stream, std::uint32_t) { return stream == 6; };
  EXPECT_NE(*m->place(false, 4096, 0, other_stream), a);
  EXPECT_EQ(*m->place(false, 4096, 0, same_stream), a);
  reinterpret_cast<std::uint8_t*>(a)[0] = 1; // its pages stay, whoever is done first
  m->complete_release(17);
  reinterpret_cast<std::uint8_t*>(a)[0] = 2;
  m->release(a, 4096);
  EXPECT_EQ(*m->place(false, 4096), a);
}

TEST(Memory, RefusesMoreThanItHas) {
  auto m = memory(1, 1 << 20);
  EXPECT_FALSE(m->place(false, 2 << 20));
  EXPECT_TRUE(m->place(false, 1 << 19));
  EXPECT_FALSE(m->place(false, 1 << 19));
}

} // namespace deadheat::device_test
