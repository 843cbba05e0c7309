// Which bytes boxes of tensors take, against loops over elements that say no more than the manual does (PTX ISA 5.5);
// the embedded device's bytes of a map.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tracer/ptx/tensor_map.h"

namespace deadheat::ptx {
namespace {

constexpr std::uint64_t tensor = 0x7000'0000'0000, outside = ~std::uint64_t(0);
using Bytes = std::map<std::uint32_t, std::uint64_t>; // offset in shared memory → address, or `outside`

TensorMap rows(std::uint64_t columns, std::uint64_t rows, std::uint32_t box_columns, std::uint32_t box_rows) {
  TensorMap map;
  map.address = tensor;
  map.rank = 2;
  map.type = TensorType::u32;
  map.size = {columns, rows};
  map.stride = {4, columns * 4};
  map.box = {box_columns, box_rows};
  map.step = {1, 1, 1, 1, 1};
  return map;
}
std::string text_of(const std::vector<TensorPiece>& pieces) {
  std::string text;
  for (const TensorPiece& p : pieces) {
    text += std::to_string(p.offset) + "+" + std::to_string(p.bytes) + (p.swizzled ? "~" : "") +
            (p.address ? "@" + std::to_string(p.address - tensor) : "") + " ";
  }
  return text;
}

TEST(TensorPieces, RowsOfABox) {
  EXPECT_EQ(text_of(pieces_of(rows(100, 50, 8, 3), {{16, 2}, {}}, 0)), "0+32@864 32+32@1264 64+32@1664 ");
}
TEST(TensorPieces, RowsThatTouchAreOneStretch) {
  EXPECT_EQ(text_of(pieces_of(rows(8, 50, 8, 3), {{0, 2}, {}}, 0)), "0+96@64 ");
}
TEST(TensorPieces, WhatLiesOutside) {
  const TensorMap map = rows(100, 50, 8, 3);
  EXPECT_EQ(text_of(pieces_of(map, {{96, 48}, {}}, 0)), "0+16@19584 16+16 32+16@19984 48+48 ");
  EXPECT_EQ(text_of(pieces_of(map, {{-4, -1}, {}}, 0)), "0+48 48+16@0 64+16 80+16@400 ");
  EXPECT_EQ(text_of(pieces_of(map, {{200, 0}, {}}, 0)), "0+96 ");
  EXPECT_EQ(text_of(pieces_of(map, {{0, -10}, {}}, 0)), "0+96 ");
  EXPECT_EQ(text_of(pieces_of(map, {{2147483647, -2147483647}, {}}, 0)), "0+96 ");
}
TEST(TensorPieces, EverySecondRow) {
  TensorMap map = rows(100, 50, 8, 4);
  map.step[1] = 2;
  EXPECT_EQ(text_of(pieces_of(map, {}, 0)), "0+32@0 32+32@800 ");
}
// Of rows that are shorter than the swizzle's span each begins at a multiple of it.
TEST(TensorPieces, SwizzledShortRows) {
  TensorMap map = rows(100, 50, 8, 3);
  map.swizzle = Swizzle::bytes64;
  EXPECT_EQ(box_bytes(map), 96u);
  EXPECT_EQ(box_extent(map), 192u);
  EXPECT_EQ(text_of(pieces_of(map, {}, 256)), "32+16@0 48+16@16 96+16@400 112+16@416 176+16@800 160+16@816 ");
}
// Whole units of 16 bytes are written.
TEST(TensorPieces, WhatIsWrittenOutside) {
  const TensorMap map = rows(49, 3, 8, 1);
  EXPECT_EQ(text_of(pieces_of(map, {{44, 1}, {}}, 0)), "0+20@372 20+12 ");
  EXPECT_EQ(text_of(pieces_of(map, {{44, 1}, {}}, 0, true)), "0+32@372 ");
  EXPECT_EQ(text_of(pieces_of(map, {{52, 1}, {}}, 0, true)), "0+32 ");
}
// Rows of 128 bytes keep their place as a whole; of a part of one each unit has a place of its own.
TEST(TensorPieces, SwizzledRows) {
  TensorMap map = rows(100, 50, 32, 2);
  map.swizzle = Swizzle::bytes128;
  EXPECT_EQ(text_of(pieces_of(map, {}, 1024)), "0+128~@0 128+128~@400 ");
  EXPECT_EQ(text_of(pieces_of(map, {{92, 0}, {}}, 1024)),
            "0+16@368 16+16@384 32+16 48+16 64+16 80+16 96+16 112+16 144+16@768 128+16@784 176+16 160+16 208+16 192+16 "
            "240+16 224+16 ");
}

TEST(TensorPieces, InterleavedLayoutsHaveSharedMemorysSide) {
  TensorMap map = rows(100, 50, 8, 3);
  map.rank = 3;
  map.box[2] = 1;
  map.interleave = Interleave::bytes16;
  EXPECT_FALSE(laid_out(map));
  EXPECT_EQ(text_of(pieces_of(map, {}, 0)), "0+96 ");
}

// ---- against naive loops

// Bits 4 to 6 of the address in shared memory are XORed with bits 7 to 9, as far as the swizzle reaches (5.5.7).
std::uint32_t place(const TensorMap& map, std::uint64_t shared, std::uint32_t offset) {
  std::uint64_t at = shared + offset;
  for (unsigned bit = 0; bit < unsigned(map.swizzle); ++bit) at ^= (at >> (7 + bit) & 1) << (4 + bit);
  return std::uint32_t(at - shared);
}

class Naive {
 public:
  Naive(const TensorMap& map, std::uint64_t shared) : map_(map), shared_(shared) {}
  // Rows lie as far apart as the swizzle's span, at least (seen on an H100).
  void end_row() {
    const std::uint32_t span = map_.swizzle == Swizzle::none ? 1 : 16u << unsigned(map_.swizzle);
    while (offset_ % span) ++offset_;
  }
  void element(const std::array<std::int64_t, most_dimensions>& at) {
    bool inside = true;
    std::uint64_t address = map_.address;
    for (unsigned d = 0; d < map_.rank; ++d) {
      inside &= at[d] >= 0 && at[d] < std::int64_t(map_.size[d]);
      address += std::uint64_t(at[d]) * map_.stride[d];
    }
    for (std::uint32_t byte = 0; byte < map_.element_bytes(); ++byte, ++offset_)
      bytes[place(map_, shared_, offset_)] = inside ? address + byte : outside;
  }
  Bytes bytes;

 private:
  const TensorMap& map_;
  std::uint64_t shared_;
  std::uint32_t offset_ = 0;
};

Bytes naive_tile(const TensorMap& map, const TensorPlace& where, std::uint64_t shared) {
  Naive naive(map, shared);
  std::array<std::int64_t, most_dimensions> box{1, 1, 1, 1, 1}, step{1, 1, 1, 1, 1}, i{};
  for (unsigned d = 0; d < map.rank; ++d) box[d] = map.box[d], step[d] = d ? map.step[d] : 1;
  for (i[4] = 0; i[4] < box[4]; i[4] += step[4])
    for (i[3] = 0; i[3] < box[3]; i[3] += step[3])
      for (i[2] = 0; i[2] < box[2]; i[2] += step[2])
        for (i[1] = 0; i[1] < box[1]; i[1] += step[1], naive.end_row())
          for (i[0] = 0; i[0] < box[0]; ++i[0]) {
            std::array<std::int64_t, most_dimensions> at = i;
            for (unsigned d = 0; d < map.rank; ++d) at[d] += where.at[d];
            naive.element(at);
          }
  return naive.bytes;
}

// As an H100 does it.
Bytes naive_pixels(const TensorMap& map, const TensorPlace& where, std::uint64_t shared) {
  Naive naive(map, shared);
  const unsigned n = map.rank - 1;
  std::array<std::int64_t, most_dimensions> base{};
  for (unsigned d = 1; d <= n; ++d) base[d] = where.at[d];
  for (std::uint32_t pixel = 0; pixel < map.pixels; ++pixel) {
    for (std::uint32_t c = 0; c < map.channels; ++c) {
      std::array<std::int64_t, most_dimensions> at = base;
      for (unsigned d = 1; d < n; ++d) at[d] += where.offsets[d - 1];
      at[0] = std::int64_t(where.at[0]) + c;
      naive.element(at);
    }
    naive.end_row();
    bool carry = true;
    for (unsigned d = 1; d < n && carry; ++d) {
      base[d] += map.step[d];
      carry = base[d] >= std::int64_t(map.size[d]) + map.upper[d - 1];
      if (carry) base[d] = map.lower[d - 1];
    }
    if (carry) base[n] += map.step[n];
  }
  return naive.bytes;
}

Bytes bytes_of(const TensorMap& map, const std::vector<TensorPiece>& pieces, std::uint64_t shared) {
  Bytes bytes;
  for (const TensorPiece& piece : pieces) {
    for (std::uint32_t n = 0; n < piece.bytes; ++n) {
      const std::uint32_t in_unit = n % swizzle_unit, offset = piece.offset + n;
      const std::uint32_t at =
          piece.swizzled ? swizzled_offset(map.swizzle, shared, offset - in_unit) + in_unit : offset;
      EXPECT_TRUE(bytes.emplace(at, piece.address ? piece.address + n : outside).second) << "twice: " << at;
    }
  }
  return bytes;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t from_to(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(engine_);
  }
  TensorMap map(unsigned rank) {
    TensorMap map;
    map.address = tensor + 16 * std::uint64_t(from_to(0, 100));
    map.rank = std::uint8_t(rank);
    map.type = TensorType(from_to(0, tensor_types - 1));
    map.swizzle = Swizzle(from_to(0, 3));
    const std::uint32_t unit = 16 / map.element_bytes();
    const std::int64_t most = map.swizzle == Swizzle::none ? 6 : 1 << unsigned(map.swizzle);
    std::uint64_t stride = map.element_bytes();
    for (unsigned d = 0; d < rank; ++d) {
      map.size[d] = std::uint64_t(from_to(1, 12));
      map.stride[d] = stride;
      stride = (stride * map.size[d] + 15) / 16 * 16 + 16 * std::uint64_t(from_to(0, 2));
      map.box[d] = d ? std::uint32_t(from_to(1, 5)) : unit * std::uint32_t(from_to(1, most));
      map.step[d] = std::uint32_t(from_to(1, 3));
    }
    return map;
  }

 private:
  std::mt19937 engine_;
};

TEST(TensorPieces, TilesAreWhatLoopsOverElementsSay) {
  Random random(1);
  for (int n = 0; n < 4000; ++n) {
    const TensorMap map = random.map(unsigned(1 + n % 5));
    ASSERT_FALSE(objection_to(map)) << *objection_to(map);
    TensorPlace where;
    for (unsigned d = 0; d < map.rank; ++d)
      where.at[d] = std::int32_t(random.from_to(-std::int64_t(map.box[d]) - 1, std::int64_t(map.size[d]) + 1));
    const std::uint64_t shared = 128 * std::uint64_t(random.from_to(0, 20));
    const auto pieces = pieces_of(map, where, shared);
    const Bytes bytes = bytes_of(map, pieces, shared);
    ASSERT_EQ(bytes, naive_tile(map, where, shared)) << "map " << n;
    ASSERT_EQ(bytes.size(), box_bytes(map));
    // What a piece takes as a whole is what its units take.
    for (const TensorPiece& piece : pieces) {
      if (!piece.swizzled) continue;
      for (std::uint32_t at = piece.offset; at < piece.offset + piece.bytes; at += swizzle_unit) {
        const std::uint32_t moved = swizzled_offset(map.swizzle, shared, at);
        ASSERT_TRUE(moved >= piece.offset && moved < piece.offset + piece.bytes);
      }
    }
  }
}

TEST(TensorPieces, PixelsAreWhatLoopsOverElementsSay) {
  Random random(2);
  for (int n = 0; n < 4000; ++n) {
    TensorMap map = random.map(unsigned(3 + n % 3));
    map.im2col = true;
    map.channels = map.box[0];
    map.pixels = std::uint32_t(random.from_to(1, 40));
    TensorPlace where;
    where.at[0] = std::int32_t(random.from_to(-2, 12));
    where.at[map.rank - 1u] = std::int32_t(random.from_to(-1, 12));
    for (unsigned d = 1; d + 1u < map.rank; ++d) {
      map.lower[d - 1] = std::int32_t(random.from_to(-3, 1));
      map.upper[d - 1] = std::int32_t(random.from_to(map.lower[d - 1] + 1 - std::int64_t(map.size[d]), 3));
      where.at[d] = std::int32_t(random.from_to(map.lower[d - 1], std::int64_t(map.size[d]) + map.upper[d - 1] - 1));
      where.offsets[d - 1] = std::uint16_t(random.from_to(0, 3));
    }
    ASSERT_FALSE(objection_to(map)) << *objection_to(map);
    const std::uint64_t shared = 128 * std::uint64_t(random.from_to(0, 20));
    const Bytes bytes = bytes_of(map, pieces_of(map, where, shared), shared);
    ASSERT_EQ(bytes, naive_pixels(map, where, shared)) << "map " << n;
    ASSERT_EQ(bytes.size(), box_bytes(map));
  }
}

// ---- the embedded device's bytes

TEST(TensorMapBytes, SayWhatWasSaid) {
  Random random(3);
  for (int n = 0; n < 1000; ++n) {
    TensorMap map = random.map(unsigned(1 + n % 5));
    map.fills_nan = n % 2 && is_float(map.type);
    if (map.rank >= 3 && n % 3 == 0) {
      map.im2col = true;
      map.channels = 256, map.pixels = 1024;
      map.lower = {-16, 15, -1}, map.upper = {15, -16, 2};
      map.box = {};
    }
    map.size[0] = std::uint64_t(1) << 32;
    map.stride[map.rank - 1u] = map.rank > 1 ? (std::uint64_t(1) << 40) - 16 : map.element_bytes();
    const auto back = decoded(encoded(map).data());
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, map);
  }
}
TEST(TensorMapBytes, OthersAreNone) {
  ptx::TensorMapBytes bytes{};
  EXPECT_FALSE(decoded(bytes.data()));
  bytes = encoded(rows(100, 50, 8, 3));
  EXPECT_TRUE(decoded(bytes.data()));
  bytes[0] ^= 1; // the magic
  EXPECT_FALSE(decoded(bytes.data()));
  bytes = encoded(rows(100, 50, 8, 3));
  bytes[99] = 6; // dimensions
  EXPECT_FALSE(decoded(bytes.data()));
  bytes = encoded(rows(100, 50, 8, 3));
  bytes[100] = 13; // a packed type
  EXPECT_FALSE(decoded(bytes.data()));
}

} // namespace
} // namespace deadheat::ptx
