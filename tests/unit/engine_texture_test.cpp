// What fetches compute, against a reference that follows the formulas of the CUDA C++ Programming Guide ("Texture
// Fetching") texel by texel: every geometry, addressing mode, filter and format.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "replay/engine/texture.h"

namespace deadheat::engine {
namespace {

float as_float(std::uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
std::uint32_t as_bits(float f) {
  std::uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

struct Texture {
  TextureDescriptor d;
  std::vector<std::uint8_t> memory;

  void fill(std::mt19937& random) {
    d.base = 0;
    memory.resize(array_bytes(d));
    for (auto& byte : memory) byte = std::uint8_t(random());
    if (d.format.kind == ChannelKind::float_) // no infinities, no NaN: every exponent loses its upper bit
      for (std::size_t n = d.format.bits / 8 - 1u; n < memory.size(); n += d.format.bits / 8) memory[n] &= 0xbf;
    d.base = reinterpret_cast<std::uint64_t>(memory.data());
  }

  TextureAccess fetch(TextureForm form, const float (&at)[3], std::uint32_t layer = 0, float level = 0) const {
    TextureAccess a;
    a.descriptor = d;
    a.given.form = form;
    a.given.layer = layer;
    a.given.level = as_bits(level);
    for (unsigned n = 0; n < 3; ++n)
      a.given.coordinate[n] = form.integer_coordinates ? std::uint32_t(std::int32_t(at[n])) : as_bits(at[n]);
    (form.op == TextureOp::gather ? plan_gather : plan_fetch)(a);
    for (unsigned n = 0; n < a.count; ++n) {
      if (!a.texels[n].address) continue;
      a.texels[n].written = 15;
      EXPECT_GE(a.texels[n].address, d.base);
      EXPECT_LE(a.texels[n].address + a.bytes, d.base + memory.size());
      std::memcpy(a.texels[n].bits, reinterpret_cast<const void*>(a.texels[n].address), a.bytes);
    }
    finish_fetch(a);
    return a;
  }
};

// ---- the reference

// Where a texel beyond the edges is found, by walking there: -1, nowhere.
int found(int i, int size, AddressMode mode) {
  switch (mode) {
    case AddressMode::clamp: return i < 0 ? 0 : i >= size ? size - 1 : i;
    case AddressMode::border: return i < 0 || i >= size ? -1 : i;
    case AddressMode::wrap:
      while (i < 0) i += size;
      while (i >= size) i -= size;
      return i;
    case AddressMode::mirror:
      while (i < 0 || i >= size) i = i < 0 ? -1 - i : 2 * size - 1 - i;
      return i;
  }
  return 0;
}

double channel_of(const Texture& t, int x, int y, int slice, unsigned level, unsigned c) {
  const TexelFormat& f = t.d.format;
  if (c >= f.channels) return 0;
  if (x < 0 || y < 0 || slice < 0) return t.d.border[c];
  const LevelLayout l = level_layout(t.d, level);
  const std::uint8_t* p = t.memory.data() + (l.address - t.d.base) + std::uint64_t(slice) * l.slice +
                          std::uint64_t(y) * l.pitch + std::uint64_t(x) * f.bytes() + c * f.bits / 8;
  std::int64_t value = 0;
  std::memcpy(&value, p, f.bits / 8);
  if (f.kind == ChannelKind::float_) {
    if (f.bits == 32) return as_float(std::uint32_t(value));
    const int exponent = int(value >> 10 & 31), fraction = int(value & 1023);
    const double size = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    return value & 0x8000 ? -size : size;
  }
  if (f.kind == ChannelKind::unsigned_) return double(float(double(value) / double((1ll << f.bits) - 1)));
  if (value >> (f.bits - 1)) value -= 1ll << f.bits;
  return double(float(std::max(double(value) / double((1ll << (f.bits - 1)) - 1), -1.0)));
}

// Each texel counts by how near it is, in steps of 1/256, in each dimension.
double reference(const Texture& t, const float (&at)[3], std::uint32_t layer, unsigned level, unsigned c) {
  const LevelLayout l = level_layout(t.d, level);
  const int size[3] = {int(l.width), int(l.height), int(l.depth)};
  const int dimensions = t.d.dimensions;
  double position[3] = {};
  int from[3] = {}, to[3] = {};
  for (int n = 0; n < dimensions; ++n) {
    position[n] = t.d.normalized_coordinates ? double(at[n]) * size[n] : at[n];
    if (t.d.linear) position[n] = std::floor((position[n] - 0.5) * 256 + 0.5) / 256;
    from[n] = int(std::floor(position[n]));
    to[n] = from[n] + (t.d.linear ? 1 : 0);
  }
  double sum = 0;
  for (int z = from[2]; z <= to[2]; ++z)
    for (int y = from[1]; y <= to[1]; ++y)
      for (int x = from[0]; x <= to[0]; ++x) {
        const int index[3] = {x, y, z};
        double weight = 1;
        int place[3] = {};
        for (int n = 0; n < dimensions; ++n) {
          if (t.d.linear) weight *= 1 - std::fabs(position[n] - index[n]);
          AddressMode mode = t.d.address[n];
          if (!t.d.normalized_coordinates && mode != AddressMode::border) mode = AddressMode::clamp;
          place[n] = found(index[n], size[n], mode);
        }
        if (weight == 0) continue;
        const int slices = std::min(int(layer), int(t.d.layers) - 1);
        const int slice = place[2] < 0 ? -1 : t.d.layered ? slices : place[2];
        sum += weight * channel_of(t, place[0], place[1], slice, level, c);
      }
  return sum;
}

// Sums of texels of both signs lose figures: as far as the largest of them.
void expect_fetch(const Texture& t, const float (&at)[3], std::uint32_t layer, unsigned level, const TextureAccess& a,
                  const std::string& what) {
  for (unsigned c = 0; c < 4; ++c) {
    const double expected = reference(t, at, layer, level, c), got = as_float(a.value[c]);
    double most = std::fabs(expected);
    for (unsigned n = 0; n < a.count; ++n)
      most = std::max(most, double(std::fabs(as_float(a.texels[n].address ? channel_value(t.d, a.texels[n].bits, c)
                                                                          : a.texels[n].bits[c]))));
    const bool half = t.d.format.kind == ChannelKind::float_ && t.d.format.bits == 16;
    EXPECT_LE(std::fabs(expected - got), (half ? 5e-4 * most + 6e-8 : 1e-6 * most))
        << what << " channel " << c << ": " << expected << " " << got;
  }
}

struct Kind {
  unsigned dimensions;
  bool layered;
};

constexpr TexelFormat formats[] = {{1, 8, ChannelKind::unsigned_},  {2, 8, ChannelKind::unsigned_},
                                   {4, 8, ChannelKind::signed_},    {1, 16, ChannelKind::signed_},
                                   {4, 16, ChannelKind::unsigned_}, {1, 16, ChannelKind::float_},
                                   {4, 16, ChannelKind::float_},    {1, 32, ChannelKind::float_},
                                   {2, 32, ChannelKind::float_},    {4, 32, ChannelKind::float_}};

TEST(Textures, FetchWhatTheReferenceFetches) {
  std::mt19937 random(1);
  const auto number = [&](float from, float to) { return std::uniform_real_distribution<float>(from, to)(random); };
  for (const Kind kind : {Kind{1, false}, Kind{2, false}, Kind{3, false}, Kind{1, true}, Kind{2, true}})
    for (const TexelFormat& format : formats)
      for (int mode = 0; mode < 4; ++mode)
        for (const bool linear : {false, true})
          for (const bool normalized : {false, true}) {
            Texture t;
            t.d.dimensions = std::uint8_t(kind.dimensions);
            t.d.layered = kind.layered;
            t.d.width = 5;
            t.d.height = kind.dimensions > 1 ? 4 : 1;
            t.d.depth = kind.dimensions > 2 ? 3 : 1;
            t.d.layers = t.d.shown_layers = kind.layered ? 3 : 1;
            t.d.format = format;
            t.d.normalized_values = format.kind != ChannelKind::float_;
            t.d.linear = linear;
            t.d.normalized_coordinates = normalized;
            for (auto& m : t.d.address) m = AddressMode(mode);
            for (unsigned c = 0; c < 4; ++c) t.d.border[c] = 0.25f * float(c + 1);
            t.fill(random);
            for (int n = 0; n < 40; ++n) {
              // Away from where rounding of positions and weights decides.
              const float steps = kind.dimensions == 1 ? 64 : kind.dimensions == 2 ? 16 : 4;
              float at[3];
              for (int k = 0; k < 3; ++k) {
                const std::uint32_t size[3] = {t.d.width, t.d.height, t.d.depth};
                at[k] = std::floor(number(-steps, steps * float(size[k] + 1))) / steps + 0.001f;
                if (normalized) at[k] /= float(size[k]);
              }
              const std::uint32_t layer = n % 5;
              TextureForm form;
              expect_fetch(t, at, layer, 0, t.fetch(form, at, layer),
                           std::to_string(kind.dimensions) + "d, mode " + std::to_string(mode) +
                               (linear ? ", linear" : "") + (normalized ? ", normalized" : ""));
              if (testing::Test::HasFailure()) return;
            }
          }
}

// 64 texels and the coordinates of fetches, out of one sequence of numbers; the answers are those of an H100.
TEST(Textures, BilinearFetchesAreThoseOfACard) {
  std::uint32_t seed = 1;
  const auto number = [&] {
    seed = seed * 1664525 + 1013904223;
    return float(seed >> 8) / 16777216.0f;
  };
  Texture t;
  std::mt19937 random(6);
  t.d.dimensions = 2;
  t.d.width = t.d.height = 8;
  t.d.format = {1, 32, ChannelKind::float_};
  t.d.linear = true;
  for (auto& m : t.d.address) m = AddressMode::clamp;
  t.fill(random);
  for (unsigned n = 0; n < 64; ++n) {
    const float value = number() * 3 - 1;
    std::memcpy(t.memory.data() + 4 * n, &value, 4);
  }
  constexpr std::uint32_t card[] = {0xbf2968c5, 0xbe94cdea, 0xbe6d9dcf, 0x3edacfe2, 0xbeff8dd4, 0x3e95f6a5,
                                    0x3e640d22, 0xbeaeba78, 0x3f3b5f40, 0xbdb5549b, 0xbe297d90, 0x3c9b865c};
  for (const std::uint32_t answer : card) {
    const float y = number() * 9 - 0.5f, x = number() * 9 - 0.5f;
    const float got = as_float(t.fetch({}, {x, y, 0}).value[0]);
    EXPECT_NEAR(got, as_float(answer), 1.2e-7f) << x << " " << y;
  }
}

TEST(Textures, GiveIntegersAsTheyLie) {
  std::mt19937 random(2);
  for (const ChannelKind kind : {ChannelKind::unsigned_, ChannelKind::signed_})
    for (const unsigned bits : {8u, 16u, 32u}) {
      Texture t;
      t.d.format = {2, std::uint8_t(bits), kind};
      t.d.width = 7;
      t.d.address[0] = AddressMode::clamp;
      t.fill(random);
      for (int x = 0; x < 7; ++x) {
        TextureForm form;
        form.integer_coordinates = true;
        const TextureAccess a = t.fetch(form, {float(x), 0, 0});
        for (unsigned c = 0; c < 2; ++c) {
          std::int64_t expected = 0;
          std::memcpy(&expected, t.memory.data() + (2u * unsigned(x) + c) * bits / 8, bits / 8);
          if (kind == ChannelKind::signed_ && expected >> (bits - 1)) expected -= 1ll << bits;
          EXPECT_EQ(a.value[c], std::uint32_t(expected));
        }
      }
    }
}

TEST(Textures, LevelsAreWeighed) {
  Texture t;
  std::mt19937 random(3);
  t.d.width = 8;
  t.d.levels = t.d.shown_levels = 4;
  t.d.mipmapped = t.d.normalized_coordinates = t.d.linear_levels = true;
  t.d.format = {1, 32, ChannelKind::float_};
  t.d.greatest_level = 100;
  t.fill(random);
  for (unsigned level = 0; level < 4; ++level) { // each level holds its square
    const LevelLayout l = level_layout(t.d, level);
    for (unsigned x = 0; x < l.width; ++x) {
      const float value = float(level * level);
      std::memcpy(reinterpret_cast<void*>(l.address + 4 * x), &value, 4);
    }
  }
  TextureForm form;
  form.level = LevelOperand::level;
  const auto at = [&](float lod) { return as_float(t.fetch(form, {0.5f, 0, 0}, 0, lod).value[0]); };
  EXPECT_EQ(at(-1), 0);
  EXPECT_EQ(at(1), 1);
  EXPECT_EQ(at(1.5f), 2.5f);
  EXPECT_EQ(at(9), 9);
  t.d.bias = 0.5f;
  EXPECT_EQ(at(1), 2.5f);
  t.d.greatest_level = 1;
  EXPECT_EQ(at(3), 1);
  t.d.linear_levels = false;
  t.d.greatest_level = 100;
  t.d.bias = 0;
  EXPECT_EQ(at(1.75f), 4);
}

TEST(Textures, FacesOfCubesAreThoseOfTheLargestAxis) {
  Texture t;
  std::mt19937 random(4);
  t.d.cubemap = t.d.normalized_coordinates = true;
  t.d.dimensions = 2;
  t.d.width = t.d.height = 2;
  t.d.layers = t.d.shown_layers = 6;
  t.d.format = {1, 32, ChannelKind::float_};
  for (auto& m : t.d.address) m = AddressMode::clamp;
  t.fill(random);
  for (unsigned face = 0; face < 6; ++face)
    for (unsigned n = 0; n < 4; ++n) {
      const LevelLayout l = level_layout(t.d, 0);
      const float value = float(10 * face + n);
      std::memcpy(reinterpret_cast<void*>(l.address + face * l.slice + n / 2 * l.pitch + n % 2 * 4), &value, 4);
    }
  TextureForm form;
  form.geometry = Geometry::cube;
  const auto at = [&](float x, float y, float z) { return as_float(t.fetch(form, {x, y, z}).value[0]); };
  // PTX ISA, tex: the table of faces with sc and tc.
  EXPECT_EQ(at(1, 0.5f, -0.5f), 1); // +x: sc = -z, tc = -y
  EXPECT_EQ(at(-1, 0.5f, -0.5f), 10); // -x: sc = z
  EXPECT_EQ(at(0.5f, 1, 0.5f), 23); // +y: sc = x, tc = z
  EXPECT_EQ(at(0.5f, -1, 0.5f), 31); // -y: tc = -z
  EXPECT_EQ(at(0.5f, -0.5f, 1), 43); // +z: sc = x, tc = -y
  EXPECT_EQ(at(0.5f, -0.5f, -1), 52); // -z: sc = -x
}

TEST(Textures, GatherGoesAroundFromTheLowerLeft) {
  Texture t;
  std::mt19937 random(5);
  t.d.dimensions = 2;
  t.d.width = t.d.height = 2;
  t.d.format = {1, 32, ChannelKind::unsigned_};
  for (auto& m : t.d.address) m = AddressMode::clamp;
  t.fill(random);
  const LevelLayout l = level_layout(t.d, 0);
  for (std::uint32_t n = 0; n < 4; ++n)
    std::memcpy(reinterpret_cast<void*>(l.address + n / 2 * l.pitch + n % 2 * 4), &n, 4);
  TextureForm form;
  form.op = TextureOp::gather;
  const TextureAccess a = t.fetch(form, {1, 1, 0});
  EXPECT_EQ(a.value[0], 2u);
  EXPECT_EQ(a.value[1], 3u);
  EXPECT_EQ(a.value[2], 1u);
  EXPECT_EQ(a.value[3], 0u);
}

// A filter at the middle of a texel, or of a line of them, takes no others.
TEST(Textures, WhatCountsForNothingIsNotRead) {
  Texture t;
  std::mt19937 random(7);
  t.d.dimensions = 2;
  t.d.width = t.d.height = 8;
  t.d.format = {1, 32, ChannelKind::float_};
  t.d.linear = true;
  for (auto& m : t.d.address) m = AddressMode::clamp;
  t.fill(random);
  const LevelLayout l = level_layout(t.d, 0);
  const TextureAccess middle = t.fetch({}, {2.5f, 1.5f, 0});
  ASSERT_EQ(middle.count, 1u);
  EXPECT_EQ(middle.texels[0].address, l.address + l.pitch + 2 * 4);
  EXPECT_EQ(t.fetch({}, {3, 1.5f, 0}).count, 2u);
  EXPECT_EQ(t.fetch({}, {2.5f, 2, 0}).count, 2u);
  EXPECT_EQ(t.fetch({}, {3, 2, 0}).count, 4u);
}

TEST(Textures, WhatNobodyWroteIsUndefinedWhereItCounts) {
  TextureAccess a;
  a.descriptor.format = {1, 32, ChannelKind::float_};
  a.filtered = 1;
  a.count = 2;
  a.texels[0] = {.address = 64, .weight = 1, .written = 15};
  a.texels[1] = {.address = 68, .weight = 0, .written = 0};
  finish_fetch(a);
  EXPECT_EQ(a.undefined[0], 0u);
  a.texels[0].weight = a.texels[1].weight = 0.5f;
  finish_fetch(a);
  EXPECT_EQ(a.undefined[0], ~0u);
}

} // namespace
} // namespace deadheat::engine
