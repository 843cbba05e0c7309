// Which texels a fetch reads, with which weights, and what it makes of them (CUDA C++ Programming Guide, "Texture
// Fetching"; PTX ISA, tex and tld4).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "replay/engine/texture.h"

namespace deadheat::engine {

LevelLayout level_layout(const TextureDescriptor& d, unsigned level) {
  constexpr std::uint64_t row_alignment = 16, level_alignment = 512;
  const auto align = [](std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; };
  LevelLayout l;
  std::uint64_t offset = 0;
  for (unsigned n = 0;; ++n) {
    l.width = std::max(1u, d.width >> n);
    l.height = std::max(1u, d.height >> n);
    l.depth = std::max(1u, d.depth >> n);
    l.slices = std::uint64_t(l.depth) * d.layers;
    l.pitch = d.pitch ? d.pitch : align(std::uint64_t(l.width) * d.format.bytes(), row_alignment);
    l.slice = l.pitch * l.height;
    l.address = d.base + offset;
    if (n == level) return l;
    offset = align(offset + l.slice * l.slices, level_alignment);
  }
}

LevelLayout shown_level(const TextureDescriptor& d, unsigned level) {
  LevelLayout l = level_layout(d, d.first_level + level);
  l.address += d.first_layer * l.slice;
  return l;
}

std::uint64_t array_bytes(const TextureDescriptor& d) {
  const LevelLayout last = level_layout(d, d.levels - 1);
  return last.address - d.base + last.slice * last.slices;
}

namespace {

constexpr int filter_steps = 256; // weights have 8 bits of fraction

float as_float(std::uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
std::uint32_t as_bits(float f) {
  std::uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}

// ---- one axis

struct Taps {
  int count = 1;
  std::int64_t index[2] = {}; // -1: the border's colour
  float weight[2] = {1, 0};
};

std::int64_t modulo(std::int64_t i, std::int64_t n) { return (i % n + n) % n; }

std::int64_t addressed(std::int64_t i, std::int64_t size, AddressMode mode) {
  if (size == 0) return -1; // linear memory may be empty
  switch (mode) {
    case AddressMode::wrap: return modulo(i, size);
    case AddressMode::mirror: {
      const std::int64_t in_two = modulo(i, 2 * size);
      return in_two < size ? in_two : 2 * size - 1 - in_two;
    }
    case AddressMode::border: return i < 0 || i >= size ? -1 : i;
    case AddressMode::clamp: break;
  }
  return std::clamp<std::int64_t>(i, 0, size - 1);
}

// Wrapping and mirroring are for normalized coordinates; others are clamped (cudaTextureDesc::addressMode).
AddressMode mode_of(const TextureDescriptor& d, unsigned axis) {
  const AddressMode mode = d.address[axis];
  const bool repeats = mode == AddressMode::wrap || mode == AddressMode::mirror;
  return repeats && !d.normalized_coordinates ? AddressMode::clamp : mode;
}

// `at`: in texels, from the edge of the first.
Taps taps_at(double at, std::int64_t size, AddressMode mode, bool linear, std::int32_t offset) {
  constexpr double far = 1e9; // where no texel is, in every mode
  if (std::isnan(at)) at = 0;
  at = std::clamp(at, -far, far);
  Taps taps;
  if (!linear) {
    taps.index[0] = addressed(std::int64_t(std::floor(at)) + offset, size, mode);
    return taps;
  }
  const double steps = std::floor((at - 0.5) * filter_steps + 0.5);
  const auto first = std::int64_t(std::floor(steps / filter_steps));
  const double fraction = steps - double(first) * filter_steps;
  taps.count = 2;
  for (int n = 0; n < 2; ++n) taps.index[n] = addressed(first + n + offset, size, mode);
  taps.weight[1] = float(fraction / filter_steps);
  taps.weight[0] = 1 - taps.weight[1];
  return taps;
}

// Repeated coordinates are brought into range first, so that large ones lose nothing more.
double in_texels(const TextureDescriptor& d, float coordinate, std::int64_t size, AddressMode mode) {
  if (!d.normalized_coordinates) return coordinate;
  double c = coordinate;
  if (std::isfinite(c) && mode == AddressMode::wrap) c -= std::floor(c);
  if (std::isfinite(c) && mode == AddressMode::mirror) c -= 2 * std::floor(c / 2);
  return c * double(size);
}

// ---- levels

struct Levels {
  unsigned count = 1, level[2] = {};
  float weight[2] = {1, 0};
};

Levels levels_at(const TextureDescriptor& d, float lod) {
  Levels result;
  if (!d.mipmapped) return result;
  if (std::isnan(lod)) lod = 0;
  lod = std::clamp(lod + d.bias, d.least_level, std::max(d.least_level, d.greatest_level));
  lod = std::clamp(lod, 0.0f, float(d.shown_levels - 1));
  if (!d.linear_levels) {
    result.level[0] = std::min(d.shown_levels - 1, unsigned(std::floor(lod + 0.5f)));
    return result;
  }
  const int steps = int(std::floor(lod * filter_steps));
  result.level[0] = unsigned(steps / filter_steps);
  if (steps % filter_steps == 0) return result;
  result.count = 2;
  result.level[1] = result.level[0] + 1;
  result.weight[1] = float(steps % filter_steps) / filter_steps;
  result.weight[0] = 1 - result.weight[1];
  return result;
}

float length_of(const TextureDescriptor& d, const std::uint32_t (&gradient)[3]) {
  const std::uint32_t size[3] = {d.width, d.height, d.depth};
  float sum = 0;
  for (unsigned n = 0; n < d.dimensions; ++n) {
    const float x = as_float(gradient[n]) * (d.normalized_coordinates ? float(size[n]) : 1.0f);
    sum += x * x;
  }
  return std::sqrt(sum);
}

float lod_of(const TextureAccess& a) {
  if (a.form.level == LevelOperand::level) return as_float(a.level);
  if (a.form.level == LevelOperand::none) return 0;
  const float longest = std::max(length_of(a.descriptor, a.gradient[0]), length_of(a.descriptor, a.gradient[1]));
  return longest > 0 ? std::log2(longest) : 0;
}

// ---- texels

std::uint32_t border_bits(const TextureDescriptor& d, unsigned channel) { return as_bits(d.border[channel]); }

void add_texel(TextureAccess& a, const LevelLayout& l, std::int64_t x, std::int64_t y, std::int64_t slice,
               float weight) {
  if (a.count == most_texels) return;
  TextureAccess::Texel& t = a.texels[a.count++];
  t = {};
  t.weight = weight;
  if (x < 0 || y < 0 || slice < 0) {
    t.written = 15;
    if (!a.form.integer_coordinates) // else zeros, whatever the mode: so does an H100
      for (unsigned c = 0; c < 4; ++c) t.bits[c] = border_bits(a.descriptor, c);
    return;
  }
  t.address = l.address + std::uint64_t(slice) * l.slice + std::uint64_t(y) * l.pitch +
              std::uint64_t(x) * a.descriptor.format.bytes();
}

// Of a texel between others: weights are whole steps, too, and those of a line or a square sum up to what is shared
// out. Of two dimensions this is what an H100 does, to the bit (tests/unit/engine_texture_test.cpp).
float weight_of(const Taps (&taps)[3], int x, int y, int z) {
  const auto steps = [&](int n) { return int(taps[n].weight[1] * filter_steps); };
  const auto part = [](int whole, int share) { return (whole * share + filter_steps / 2) / filter_steps; };
  const auto choose = [](int whole, int second, int n) { return n ? second : whole - second; };
  const int corner = part(steps(0), steps(1));
  const int upper = choose(filter_steps - steps(1), steps(0) - corner, x), lower = choose(steps(1), corner, x);
  const int square = y ? lower : upper;
  return float(choose(square, part(square, steps(2)), z)) / filter_steps;
}

std::int64_t layer_of(const TextureAccess& a, std::uint32_t divisor = 1) {
  return std::min<std::int64_t>(a.layer, std::max<std::int64_t>(a.descriptor.shown_layers / divisor, 1) - 1);
}

void add_level(TextureAccess& a, unsigned level, float weight) {
  const TextureDescriptor& d = a.descriptor;
  const LevelLayout l = shown_level(d, level);
  const std::uint32_t size[3] = {l.width, l.height, l.depth};
  Taps taps[3];
  for (unsigned n = 0; n < d.dimensions; ++n) {
    const AddressMode mode = mode_of(d, n);
    if (a.form.integer_coordinates) {
      const auto at = std::int64_t(std::int32_t(a.coordinate[n])) + a.offset[n];
      const bool outside = at < 0 || at >= std::int64_t(size[n]);
      // Beyond linear memory zeros are read (Programming Guide, tex1Dfetch).
      const bool nothing = outside && d.resource == TextureDescriptor::Resource::linear;
      taps[n].index[0] = nothing ? -1 : addressed(at, size[n], mode);
    } else {
      taps[n] = taps_at(in_texels(d, as_float(a.coordinate[n]), size[n], mode), size[n], mode, a.filtered, a.offset[n]);
    }
  }
  const std::int64_t layer = d.layered ? layer_of(a) : 0;
  for (int z = 0; z < taps[2].count; ++z)
    for (int y = 0; y < taps[1].count; ++y)
      for (int x = 0; x < taps[0].count; ++x) {
        const std::int64_t deep = taps[2].index[z];
        add_texel(a, l, taps[0].index[x], taps[1].index[y], deep < 0 ? deep : layer * l.depth + deep,
                  weight * weight_of(taps, x, y, z));
      }
}

// ---- cube maps: which axis is the largest chooses the face; the other two, over it, are its coordinates.

struct OnFace {
  unsigned face = 0;
  double s = 0, t = 0; // from -1 to 1
};

OnFace face_of(double x, double y, double z) {
  const double ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  OnFace f;
  double s = 0, t = 0, m = 0;
  if (az >= ax && az >= ay) {
    f.face = z < 0 ? 5 : 4;
    s = z < 0 ? -x : x;
    t = -y;
    m = az;
  } else if (ay >= ax) {
    f.face = y < 0 ? 3 : 2;
    s = x;
    t = y < 0 ? -z : z;
    m = ay;
  } else {
    f.face = x < 0 ? 1 : 0;
    s = x < 0 ? z : -z;
    t = -y;
    m = ax;
  }
  if (m == 0 || std::isnan(m)) return f;
  f.s = s / m;
  f.t = t / m;
  return f;
}

// The direction of a point in a face's plane, which may lie beside the face.
void direction_of(unsigned face, double s, double t, double (&v)[3]) {
  const double sign = face % 2 ? -1 : 1;
  switch (face / 2) {
    case 0: v[0] = sign, v[1] = -t, v[2] = -sign * s; break;
    case 1: v[0] = s, v[1] = sign, v[2] = sign * t; break;
    default: v[0] = sign * s, v[1] = -t, v[2] = sign; break;
  }
}

// A texel beside a face lies on the neighbour's; at a corner there is none, and the three around it count alike.
void add_cube_texel(TextureAccess& a, const LevelLayout& l, unsigned face, std::int64_t x, std::int64_t y,
                    std::int64_t cube, float weight) {
  const std::int64_t size = l.width;
  const bool beside_x = x < 0 || x >= size, beside_y = y < 0 || y >= size;
  if (beside_x && beside_y) {
    const std::int64_t in_x = std::clamp<std::int64_t>(x, 0, size - 1), in_y = std::clamp<std::int64_t>(y, 0, size - 1);
    add_cube_texel(a, l, face, in_x, in_y, cube, weight / 3);
    add_cube_texel(a, l, face, x, in_y, cube, weight / 3);
    add_cube_texel(a, l, face, in_x, y, cube, weight / 3);
    return;
  }
  if (beside_x || beside_y) {
    double v[3];
    direction_of(face, (2 * double(x) + 1) / double(size) - 1, (2 * double(y) + 1) / double(size) - 1, v);
    const OnFace other = face_of(v[0], v[1], v[2]);
    const auto texel = [&](double c) {
      return std::clamp<std::int64_t>(std::int64_t(std::floor((c + 1) / 2 * double(size))), 0, size - 1);
    };
    face = other.face;
    x = texel(other.s);
    y = texel(other.t);
  }
  add_texel(a, l, x, y, cube * 6 + face, weight);
}

void add_cube_level(TextureAccess& a, unsigned level, float weight) {
  const TextureDescriptor& d = a.descriptor;
  const LevelLayout l = shown_level(d, level);
  const OnFace on = face_of(as_float(a.coordinate[0]), as_float(a.coordinate[1]), as_float(a.coordinate[2]));
  const double size = l.width;
  const bool across = d.seamless && a.filtered;
  const auto taps = [&](double c, unsigned axis) {
    const double at = (c + 1) / 2 * size;
    const AddressMode mode = d.seamless ? AddressMode::clamp : mode_of(d, axis);
    if (!across) return taps_at(at, l.width, mode, a.filtered, 0);
    Taps free = taps_at(at + 1, l.width + 2, AddressMode::clamp, true, 0);
    for (std::int64_t& i : free.index) i -= 1;
    return free;
  };
  const Taps both[3] = {taps(on.s, 0), taps(on.t, 1), {}};
  const auto& [s, t, none] = both;
  const std::int64_t cube = d.layered ? layer_of(a, 6) : 0;
  for (int y = 0; y < t.count; ++y)
    for (int x = 0; x < s.count; ++x)
      add_cube_texel(a, l, on.face, s.index[x], t.index[y], cube, weight * weight_of(both, x, y, 0));
}

// ---- values

float srgb_to_linear(float c) { return c <= 0.04045f ? c / 12.92f : std::pow((c + 0.055f) / 1.055f, 2.4f); }

std::uint32_t channel_bits(const TextureDescriptor& d, const std::uint32_t (&texel)[4], unsigned channel) {
  const unsigned at = channel * d.format.bits;
  const std::uint32_t word = texel[at / 32] >> at % 32;
  return d.format.bits == 32 ? word : word & ((1u << d.format.bits) - 1);
}

} // namespace

std::uint32_t channel_value(const TextureDescriptor& d, const std::uint32_t (&texel)[4], unsigned channel) {
  const bool integers = d.format.kind != ChannelKind::float_ && !d.normalized_values;
  if (channel >= d.format.channels) return 0; // as an H100 gives them, the fourth too
  const std::uint32_t bits = channel_bits(d, texel, channel);
  const unsigned width = d.format.bits;
  if (d.format.kind == ChannelKind::float_) {
    if (width == 32) return bits;
    const auto half = std::uint16_t(bits);
    _Float16 value;
    std::memcpy(&value, &half, sizeof value);
    return as_bits(float(value));
  }
  const std::int32_t extended = std::int32_t(bits << (32 - width)) >> (32 - width);
  if (integers) return d.format.kind == ChannelKind::signed_ ? std::uint32_t(extended) : bits;
  if (d.format.kind == ChannelKind::signed_)
    return as_bits(std::max(float(extended) / float((1 << (width - 1)) - 1), -1.0f));
  const float value = float(bits) / float((1u << width) - 1);
  return as_bits(d.srgb && channel < 3 && width == 8 ? srgb_to_linear(value) : value);
}

void plan_fetch(TextureAccess& a) {
  const TextureDescriptor& d = a.descriptor;
  a.count = a.next = 0;
  a.bytes = d.format.bytes();
  a.filtered = d.linear && !a.form.integer_coordinates;
  const Levels levels =
      a.form.integer_coordinates && a.form.level == LevelOperand::level
          ? Levels{.level = {std::min(std::uint32_t(std::max(std::int32_t(a.level), 0)), d.shown_levels - 1), 0}}
          : levels_at(d, lod_of(a));
  for (unsigned n = 0; n < levels.count; ++n)
    (d.cubemap ? add_cube_level : add_level)(a, levels.level[n], levels.weight[n]);
  a.filtered |= levels.count > 1;
}

// The four texels that a bilinear fetch would weigh: lower left, lower right, upper right, upper left.
void plan_gather(TextureAccess& a) {
  const TextureDescriptor& d = a.descriptor;
  a.count = a.next = 0;
  a.bytes = d.format.bytes();
  a.filtered = 0;
  const LevelLayout l = shown_level(d, levels_at(d, 0).level[0]);
  Taps taps[2];
  const std::uint32_t size[2] = {l.width, l.height};
  for (unsigned n = 0; n < 2; ++n) {
    const AddressMode mode = mode_of(d, n);
    taps[n] = taps_at(in_texels(d, as_float(a.coordinate[n]), size[n], mode), size[n], mode, true, a.offset[n]);
  }
  const std::int64_t slice = d.layered ? layer_of(a) : 0;
  constexpr int order[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
  for (const auto& [x, y] : order) add_texel(a, l, taps[0].index[x], taps[1].index[y], slice, 1);
}

namespace {

std::uint32_t value_of(const TextureAccess& a, const TextureAccess::Texel& texel, unsigned channel) {
  if (texel.address) return channel_value(a.descriptor, texel.bits, channel);
  constexpr std::uint32_t nothing[4] = {};
  return channel < a.descriptor.format.channels ? texel.bits[channel] : channel_value(a.descriptor, nothing, channel);
}

void take_channel(TextureAccess& a, unsigned channel) {
  if (!a.filtered) {
    a.value[channel] = value_of(a, a.texels[0], channel);
    a.undefined[channel] = a.texels[0].written >> channel & 1 ? 0 : ~0u;
    return;
  }
  double sum = 0;
  bool written = true;
  for (unsigned n = 0; n < a.count; ++n) {
    const TextureAccess::Texel& t = a.texels[n];
    if (t.weight == 0) continue;
    sum += double(t.weight) * as_float(value_of(a, t, channel));
    written &= t.written >> channel & 1;
  }
  const TexelFormat& f = a.descriptor.format;
  const bool half = f.kind == ChannelKind::float_ && f.bits == 16; // what is made of halves is one
  a.value[channel] = as_bits(half ? float(_Float16(float(sum))) : float(sum));
  a.undefined[channel] = written ? 0 : ~0u;
}

} // namespace

void finish_fetch(TextureAccess& a) {
  for (unsigned c = 0; c < 4; ++c) {
    if (a.form.op == TextureOp::gather) {
      a.value[c] = value_of(a, a.texels[c], a.form.component);
      a.undefined[c] = a.texels[c].written >> a.form.component & 1 ? 0 : ~0u;
    } else {
      take_channel(a, c);
    }
    if (!a.form.half_results) continue;
    const auto half = _Float16(as_float(a.value[c]));
    std::uint16_t bits;
    std::memcpy(&bits, &half, sizeof bits);
    a.value[c] = bits;
  }
}

} // namespace deadheat::engine
