// Bytes of memory as they were, compared with what is there later.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <vector>

#include "tracer/cupti/kept_bytes.h"

namespace deadheat::cupti {
namespace {

struct KeptBytesTest : testing::TestWithParam<bool> { // registered: read by another call
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(8 << 20, 1);
  KeptBytes kept;
  using Stretches = std::map<std::uint64_t, std::vector<std::uint8_t>>; // by offset

  trace::MemoryRange range(std::uint64_t offset, std::uint64_t width, std::uint64_t pitch = 0, std::uint64_t rows = 1) {
    return {reinterpret_cast<std::uint64_t>(memory.data()) + offset, pitch ? pitch : width, width, rows, 1, 0};
  }
  bool take(const trace::MemoryRange& of) { return kept.take(of, GetParam(), {}); }
  Stretches differ() {
    Stretches found;
    EXPECT_TRUE(kept.compare([&](std::uint64_t address, std::span<const std::uint8_t> now) {
      found[address - reinterpret_cast<std::uint64_t>(memory.data())] = {now.begin(), now.end()};
      return true;
    }));
    return found;
  }
};

TEST_P(KeptBytesTest, WhatDiffersIsToldAndNothingElse) {
  ASSERT_TRUE(take(range(100, 20'000)));
  EXPECT_TRUE(kept.whole());
  EXPECT_TRUE(differ().empty());
  memory[99] = memory[20'100] = 2; // beside it
  EXPECT_TRUE(differ().empty());
  memory[100] = memory[20'099] = 2;
  memory[5000] = 3;
  EXPECT_EQ(differ(), (Stretches{{100, {2}}, {5000, {3}}, {20'099, {2}}}));
}

TEST_P(KeptBytesTest, StretchesGoOnAcrossPiecesAndSmallGaps) {
  ASSERT_TRUE(take(range(0, 20'000)));
  const std::uint64_t edge = KeptBytes::piece_bytes;
  memory[edge - 3] = memory[edge + 3] = 2;
  EXPECT_EQ(differ(), (Stretches{{edge - 3, {2, 1, 1, 1, 1, 1, 2}}}));
  std::fill(memory.begin() + 4000, memory.begin() + 13'000, 9);
  EXPECT_EQ(differ(), (Stretches{{4000, std::vector<std::uint8_t>(9000, 9)}}));
  std::fill(memory.begin(), memory.begin() + 20'000, 1);
  memory[10] = memory[11 + KeptBytes::gap] = 2;
  EXPECT_EQ(differ().size(), 2u);
}

TEST_P(KeptBytesTest, GapsBetweenRowsAreNobodys) {
  ASSERT_TRUE(take(range(0, 100, 128, 3)));
  memory[100] = memory[127] = memory[2 * 128 + 100] = 2;
  EXPECT_TRUE(differ().empty());
  memory[99] = memory[128] = 2;
  EXPECT_EQ(differ(), (Stretches{{99, {2}}, {128, {2}}}));
}

TEST_P(KeptBytesTest, OfMuchAPartIsKept) {
  ASSERT_TRUE(take(range(0, memory.size())));
  EXPECT_FALSE(kept.whole());
  EXPECT_EQ(kept.bytes(), KeptBytes::most_bytes);
  memory.front() = memory.back() = 2;
  EXPECT_EQ(differ(), (Stretches{{0, {2}}, {memory.size() - 1, {2}}}));
  std::fill(memory.begin(), memory.end(), 3);
  EXPECT_EQ(differ().size(), KeptBytes::most_bytes / KeptBytes::piece_bytes);
  ASSERT_TRUE(take(range(0, 1, 2, 1 << 20))); // of many rows, too
  EXPECT_EQ(kept.bytes(), KeptBytes::most_pieces);
}

TEST_P(KeptBytesTest, TheSearchEndsWhenItIsTold) {
  ASSERT_TRUE(take(range(0, 20'000)));
  memory[0] = memory[1000] = memory[2000] = 2;
  int told = 0;
  EXPECT_TRUE(kept.compare([&](std::uint64_t, std::span<const std::uint8_t>) { return ++told < 2; }));
  EXPECT_EQ(told, 2);
}

TEST_P(KeptBytesTest, MemoryThatIsGoneIsNotRead) {
  void* const at = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const trace::MemoryRange gone{reinterpret_cast<std::uint64_t>(at), 8192, 8192, 1, 1, 0};
  ASSERT_TRUE(take(gone));
  munmap(at, 8192);
  EXPECT_FALSE(kept.compare([](std::uint64_t, std::span<const std::uint8_t>) { return true; }));
  EXPECT_TRUE(!GetParam() || !take(gone));
  EXPECT_FALSE(take(range(0, 0)));
}

INSTANTIATE_TEST_SUITE_P(Memory, KeptBytesTest, testing::Bool());

} // namespace
} // namespace deadheat::cupti
