// What the first pass costs where memory is touched far apart: rows, columns and words, each in a page of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "analyzer/detect/filter.h"

namespace {

using namespace deadheat::detect;

// A first pass that looks at a launch of several blocks.
class Looked {
 public:
  Looked() : causality_(operations_), filter_(causality_, suspects_, all()) { launch(); }
  void launch(std::uint32_t stream = 2) { // after the one before of the stream
    deadheat::trace::Operation operation;
    operation.id = ++launches_;
    operation.stream = stream;
    operation.what = deadheat::trace::Launch();
    operation_ = operations_.submitted(operation);
    causality_.launch_begin(operation_, {4, 1, 1}, {256, 1, 1}, {1, 1, 1});
    filter_.ask_again();
  }
  void row(std::uint32_t block, std::uint64_t address, std::uint32_t bytes, bool write) {
    weak(block, bytes / 32, write, true, [&](unsigned lane) { return address + bytes / 32 * lane; });
  }
  template <typename Address>
  void weak(std::uint32_t block, std::uint32_t bytes, bool write, bool affine, Address&& address,
            std::uint32_t mask = ~0u, unsigned warp = 0, std::int64_t stride = 0) {
    std::array<std::uint64_t, 32> addresses;
    for (unsigned lane = 0; lane < 32; ++lane) addresses[lane] = address(lane);
    Filter::Warp access;
    access.lane0 = deadheat::order::ThreadKey(operation_, block, warp * 32);
    access.mask = mask;
    access.bytes = bytes;
    access.address = addresses.data();
    access.affine = affine;
    access.stride = stride ? stride : affine ? bytes : 0;
    access.write = write;
    access.now = stamp_ += 32;
    filter_.weak(access);
  }
  void add(std::uint32_t block, unsigned lane, std::uint64_t address) {
    filter_.strong({0, deadheat::order::ThreadKey(operation_, block, lane), address, 4, true, true, false, ++stamp_});
  }
  std::uint64_t bytes() const { return filter_.bytes(); }
  bool suspect(std::uint64_t address) const { return suspects_.touches(0, address, 4); }

 private:
  static const Share& all() {
    static const Share share{Partitions().set(), {}};
    return share;
  }
  deadheat::order::OperationClocks operations_;
  deadheat::order::Causality causality_;
  Suspects suspects_;
  Filter filter_;
  deadheat::order::OperationIndex operation_ = 0;
  std::uint32_t launches_ = 0;
  deadheat::order::Stamp stamp_ = 0;
};

constexpr std::uint64_t apart = 8192, far_base = 0xA00000000000;

TEST(FarApart, RowsCostThreeBytesAByte) {
  for (const std::uint32_t bytes : {128u, 256u, 512u}) {
    Looked looked;
    for (std::uint64_t i = 1; i <= 20000; ++i) {
      looked.row(0, far_base + i * apart, bytes, true);
      if (i % 1000) continue;
      ASSERT_LE(looked.bytes(), 3 * bytes * i + 65536) << i << " rows of " << bytes;
    }
    // What is known of a row is what was: the same warp may go on, another block's may not.
    looked.row(0, far_base + apart, bytes, false);
    looked.row(0, far_base + 2 * apart + bytes, bytes, true);
    EXPECT_FALSE(looked.suspect(far_base + apart) || looked.suspect(far_base + 2 * apart));
    looked.row(1, far_base + apart, 128, false);
    EXPECT_TRUE(looked.suspect(far_base + apart) && looked.suspect(far_base + apart + 124));
    // A third place of a page, and smaller units, come to the same words.
    looked.row(0, far_base + 3 * apart + 2048, 128, true);
    looked.row(0, far_base + 3 * apart + 3072, 32, true);
    looked.weak(1, 1, false, false, [&](unsigned) { return far_base + 3 * apart + bytes - 1; });
    EXPECT_TRUE(looked.suspect(far_base + 3 * apart + bytes - 4));
    EXPECT_FALSE(looked.suspect(far_base + 3 * apart));
  }
}

TEST(FarApart, ShortRowsCostThreeBytesAByte) {
  for (const unsigned lanes : {3u, 8u, 16u, 24u, 31u}) {
    Looked looked;
    const std::uint32_t mask = (1u << lanes) - 1;
    auto row = [&](std::uint32_t block, std::uint64_t at, bool write) {
      looked.weak(block, 4, write, true, [&](unsigned lane) { return at + 4 * lane; }, mask);
    };
    for (std::uint64_t i = 1; i <= 20000; ++i) {
      row(0, far_base + i * apart, true);
      if (i % 1000 == 0) {
        ASSERT_LE(looked.bytes(), 12 * lanes * i + 65536) << i << " rows of " << lanes;
      }
    }
    row(0, far_base + apart, false);
    EXPECT_FALSE(looked.suspect(far_base + apart));
    row(1, far_base + apart, false);
    EXPECT_TRUE(looked.suspect(far_base + apart) && looked.suspect(far_base + apart + 4 * lanes - 4));
    EXPECT_FALSE(looked.suspect(far_base + apart + 4 * lanes));
    // Other rows of a page, until it is one of groups, and what comes to it then.
    for (std::uint64_t at = 256; at < 4096; at += 128) row(0, far_base + 2 * apart + at, true);
    looked.row(1, far_base + 2 * apart, 128, true);
    EXPECT_TRUE(looked.suspect(far_base + 2 * apart) && looked.suspect(far_base + 2 * apart + 4 * lanes - 4));
    EXPECT_FALSE(looked.suspect(far_base + 2 * apart + 4 * lanes));
    looked.row(1, far_base + 2 * apart + 1024, 128, false);
    EXPECT_TRUE(looked.suspect(far_base + 2 * apart + 1024));
    EXPECT_FALSE(looked.suspect(far_base + 2 * apart + 1024 + 4 * lanes));
  }
}

TEST(FarApart, ColumnsCostThreeBytesAByte) {
  for (const std::uint64_t stride : {std::uint64_t(8), std::uint64_t(256), apart}) {
    Looked looked;
    constexpr std::uint64_t words = 1 << 15;
    for (std::uint64_t i = 0; i < words; i += 32) {
      looked.weak(
          0, 4, true, true, [&](unsigned lane) { return far_base + (i + lane) * stride; }, ~0u, 0,
          std::int64_t(stride));
    }
    EXPECT_LE(looked.bytes(), 12 * words + 65536) << stride;
    looked.weak(1, 4, false, false, [&](unsigned lane) { return far_base + 5 * lane * stride; });
    for (unsigned lane = 0; lane < 32; ++lane) EXPECT_TRUE(looked.suspect(far_base + 5 * lane * stride));
    EXPECT_FALSE(looked.suspect(far_base + stride));
  }
}

// Words that are written, and in the next launch read: each warp's by one warp, or in any order, so that the writes'
// epochs are widened.
TEST(FarApart, WordsWrittenThenReadCostThreeBytesAByte) {
  for (const std::uint64_t between : {apart, std::uint64_t(8), std::uint64_t(12)}) {
    for (const bool any : {false, true}) {
      SCOPED_TRACE(testing::Message() << between << " apart" << (any ? ", in any order" : ""));
      Looked looked;
      constexpr std::uint64_t words = 1 << 17;
      auto word = [&](std::uint64_t i) { return far_base + i * 0x9e3779b1u % words * between; };
      std::vector<std::uint64_t> order(words);
      for (std::uint64_t i = 0; i < words; ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), std::mt19937(1));
      auto read = [&](std::uint64_t i) { return word(any ? order[i] : i + 32); };
      auto each_warp = [&](bool write) {
        for (std::uint64_t i = 0; i < words; i += 32) {
          looked.weak(
              std::uint32_t(i / 32 % 4), 4, write, false,
              [&](unsigned lane) { return write ? word(i + lane) : read(i + lane); }, ~0u, unsigned(i / 128 % 8));
          if (i % 4096 == 0) {
            const std::uint64_t touched = write ? i + 32 : words;
            ASSERT_LE(looked.bytes(), 12 * touched + 131072) << touched;
          }
        }
      };
      each_warp(true);
      looked.launch();
      each_warp(false);
      for (std::uint64_t i = 0; i < words; ++i) ASSERT_FALSE(looked.suspect(word(i)));
      auto suspects = [&](std::uint64_t from) {
        unsigned count = 0;
        for (unsigned lane = 0; lane < 32; ++lane) count += looked.suspect(word(from + lane));
        return count;
      };
      // Who writes in the same launch comes after the writes, not after what others read.
      looked.weak(3, 4, true, false, [&](unsigned lane) { return word(lane + 64); }, ~0u, 5);
      EXPECT_GT(suspects(64), 28u);
      // In the next one all that is over.
      looked.launch();
      looked.weak(0, 4, true, false, [&](unsigned lane) { return word(lane); });
      EXPECT_EQ(suspects(0), 0u);
      looked.weak(1, 4, false, false, [&](unsigned lane) { return word(lane); });
      EXPECT_EQ(suspects(0), 32u);
    }
  }
}

// Words that one launch writes and the next one adds to, or the other way round: one entry a word tells of both.
TEST(FarApart, WordsWrittenAndCountedCostThreeBytesAByte) {
  constexpr std::uint64_t words = 1 << 16;
  auto word = [&](std::uint64_t i) { return far_base + i * 0x9e3779b1u % words * apart; };
  for (const bool adds_first : {false, true}) {
    SCOPED_TRACE(adds_first);
    Looked looked;
    auto little = [&](std::uint64_t i) { // now and then, and half-way above all
      if (i % 4096) return;
      EXPECT_LE(looked.bytes(), 12 * words + 65536) << i;
    };
    auto weakly = [&](bool write) {
      for (std::uint64_t i = 0; i < words; i += 32) {
        looked.weak(
            std::uint32_t(i / 32 % 4), 4, write, false, [&](unsigned lane) { return word(i + lane); }, ~0u,
            unsigned(i / 128 % 8));
        little(i);
      }
    };
    auto add = [&](std::uint32_t block) {
      for (std::uint64_t i = 0; i < words; ++i) {
        looked.add((block + i) % 4, i % 32, word(i));
        little(i);
      }
    };
    for (unsigned round = 0; round < 3; ++round) {
      if (adds_first || round) add(0);
      EXPECT_LE(looked.bytes(), 12 * words + 131072) << round;
      looked.launch();
      weakly(!adds_first);
      EXPECT_LE(looked.bytes(), 12 * words + 131072) << round;
      looked.launch();
    }
    add(0);
    add(1); // of other blocks: atomics all the same
    EXPECT_LE(looked.bytes(), 12 * words + 131072);
    for (std::uint64_t i = 0; i < words; ++i) ASSERT_FALSE(looked.suspect(word(i)));
    looked.weak(3, 4, adds_first, false, [&](unsigned lane) { return word(lane); }, ~0u, 5);
    for (unsigned lane = 0; lane < 32; ++lane) EXPECT_TRUE(looked.suspect(word(lane)));
    looked.launch(3); // nothing orders it with those of the other stream, weak ones among them
    looked.add(0, 1, word(64));
    EXPECT_TRUE(looked.suspect(word(64)));
  }
}

TEST(FarApart, WordsOfAtomicsThatAreReadCostNoPage) {
  Looked looked;
  constexpr std::uint64_t words = 32 * 1000;
  auto word = [&](std::uint64_t i) { return far_base + i * 17 % words * apart; };
  for (std::uint64_t i = 0; i < words; ++i) looked.add(0, i % 32, word(i));
  for (std::uint64_t i = 0; i < words; i += 32)
    looked.weak(0, 4, false, false, [&](unsigned lane) { return word(i + lane); });
  EXPECT_LE(looked.bytes(), 12 * words + 16384);
  for (std::uint64_t i = 0; i < words; ++i) ASSERT_FALSE(looked.suspect(word(i)));
  // The same lane's atomics and reads go on.
  looked.add(0, 5, word(5));
  looked.weak(0, 4, false, false, [&](unsigned lane) { return word(lane); });
  EXPECT_FALSE(looked.suspect(word(5)));
  // Another block's atomic comes to them, or another's write, or its read, or bytes of them, or another lane's atomic.
  looked.add(1, 0, word(5));
  EXPECT_TRUE(looked.suspect(word(5)));
  looked.weak(1, 4, true, false, [&](unsigned lane) { return word(lane + 64); });
  EXPECT_TRUE(looked.suspect(word(64)));
  looked.weak(1, 4, false, false, [&](unsigned lane) { return word(lane + 96); });
  EXPECT_TRUE(looked.suspect(word(96)));
  looked.weak(1, 1, true, false, [&](unsigned lane) { return word(lane + 160) + 1; });
  EXPECT_TRUE(looked.suspect(word(160)));
  looked.row(1, word(192), 128, true);
  EXPECT_TRUE(looked.suspect(word(192)));
  looked.add(0, 2, word(225));
  EXPECT_TRUE(looked.suspect(word(225)));
  // A write of the same lane: the atomics before it are over.
  looked.weak(0, 4, true, false, [&](unsigned lane) { return word(lane + 128); });
  EXPECT_FALSE(looked.suspect(word(128)));
  looked.add(1, 0, word(128));
  EXPECT_TRUE(looked.suspect(word(128)));
  // One that adds only, after another block's weak read.
  looked.weak(2, 4, false, false, [&](unsigned lane) { return far_base + (words + lane) * apart; });
  looked.add(3, 0, far_base + words * apart);
  EXPECT_TRUE(looked.suspect(far_base + words * apart));
  looked.weak(3, 4, false, false, [&](unsigned lane) { return far_base + (words + lane) * apart; });
}

} // namespace
