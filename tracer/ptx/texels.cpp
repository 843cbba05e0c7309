// Which texels an instruction touches, with which weights.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "tracer/ptx/texture.h"

namespace deadheat::ptx {

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

// cudaMalloc3DArray's page has the rules.
void set_extent(TextureDescriptor& d, std::uint64_t width, std::uint64_t height, std::uint64_t depth) {
  const bool slices_are_layers = d.layered || d.cubemap;
  const auto slices = std::uint32_t(std::max<std::uint64_t>(depth, 1));
  d.dimensions = std::uint8_t(!slices_are_layers && depth ? 3 : height ? 2 : 1);
  d.width = std::uint32_t(width);
  d.height = std::uint32_t(std::max<std::uint64_t>(height, 1));
  d.depth = slices_are_layers ? 1 : slices;
  d.layers = d.shown_layers = slices_are_layers ? slices : 1;
}

TextureDescriptor array_of_level(const TextureDescriptor& mipmapped, unsigned level) {
  const LevelLayout at = level_layout(mipmapped, level);
  TextureDescriptor d = mipmapped;
  d.base = at.address;
  d.width = at.width;
  d.height = at.height;
  d.depth = at.depth;
  d.levels = d.shown_levels = 1;
  d.mipmapped = false;
  return d;
}

// They come in threes of 1, 2 and 4 channels.
std::optional<TexelFormat> view_format(unsigned number) {
  using Kind = ChannelKind;
  constexpr TexelFormat formats[] = {{1, 8, Kind::unsigned_}, {1, 8, Kind::signed_},    {1, 16, Kind::unsigned_},
                                     {1, 16, Kind::signed_},  {1, 32, Kind::unsigned_}, {1, 32, Kind::signed_},
                                     {1, 16, Kind::float_},   {1, 32, Kind::float_}};
  const unsigned n = number - 1;
  if (n / 3 >= std::size(formats)) return std::nullopt;
  TexelFormat format = formats[n / 3];
  format.channels = std::uint8_t(1u << n % 3);
  return format;
}

namespace {

constexpr int filter_steps = 256; // weights have 8 bits of fraction

float as_float(std::uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
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
  if (std::isnan(lod)) lod = 0; // an object may have been given such numbers, too
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

float lod_of(const TextureDescriptor& d, const TextureOperands& given) {
  if (given.form.level == LevelOperand::level) return as_float(given.level);
  if (given.form.level == LevelOperand::none) return 0;
  const float longest = std::max(length_of(d, given.gradient[0]), length_of(d, given.gradient[1]));
  return longest > 0 ? std::log2(longest) : 0;
}

// ---- texels

// One instruction's work.
struct Plan {
  const TextureDescriptor& d;
  const TextureOperands& given;
  Texels texels;
};

// What counts for nothing is not read: nobody can tell.
void add_texel(Plan& p, const LevelLayout& l, std::int64_t x, std::int64_t y, std::int64_t slice, float weight) {
  if (weight == 0 || p.texels.count == most_texels) return;
  Texel& t = p.texels.at[p.texels.count++];
  t.weight = weight;
  if (x < 0 || y < 0 || slice < 0) return;
  t.address =
      l.address + std::uint64_t(slice) * l.slice + std::uint64_t(y) * l.pitch + std::uint64_t(x) * p.texels.bytes;
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

std::int64_t layer_of(const Plan& p, std::uint32_t divisor = 1) {
  return std::min<std::int64_t>(p.given.layer, std::max<std::int64_t>(p.d.shown_layers / divisor, 1) - 1);
}

void add_level(Plan& p, unsigned level, float weight) {
  const TextureDescriptor& d = p.d;
  const LevelLayout l = shown_level(d, level);
  const std::uint32_t size[3] = {l.width, l.height, l.depth};
  Taps taps[3];
  for (unsigned n = 0; n < d.dimensions; ++n) {
    const AddressMode mode = mode_of(d, n);
    if (p.given.form.integer_coordinates) {
      const auto at = std::int64_t(std::int32_t(p.given.coordinate[n])) + p.given.offset[n];
      const bool outside = at < 0 || at >= std::int64_t(size[n]);
      // Beyond linear memory zeros are read (Programming Guide, tex1Dfetch).
      const bool nothing = outside && d.resource == TextureDescriptor::Resource::linear;
      taps[n].index[0] = nothing ? -1 : addressed(at, size[n], mode);
    } else {
      taps[n] = taps_at(in_texels(d, as_float(p.given.coordinate[n]), size[n], mode), size[n], mode, p.texels.filtered,
                        p.given.offset[n]);
    }
  }
  const std::int64_t layer = d.layered ? layer_of(p) : 0;
  for (int z = 0; z < taps[2].count; ++z)
    for (int y = 0; y < taps[1].count; ++y)
      for (int x = 0; x < taps[0].count; ++x) {
        const std::int64_t deep = taps[2].index[z];
        add_texel(p, l, taps[0].index[x], taps[1].index[y], deep < 0 ? deep : layer * l.depth + deep,
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
void add_cube_texel(Plan& p, const LevelLayout& l, unsigned face, std::int64_t x, std::int64_t y, std::int64_t cube,
                    float weight) {
  const std::int64_t size = l.width;
  const bool beside_x = x < 0 || x >= size, beside_y = y < 0 || y >= size;
  if (beside_x && beside_y) {
    const std::int64_t in_x = std::clamp<std::int64_t>(x, 0, size - 1), in_y = std::clamp<std::int64_t>(y, 0, size - 1);
    add_cube_texel(p, l, face, in_x, in_y, cube, weight / 3);
    add_cube_texel(p, l, face, x, in_y, cube, weight / 3);
    add_cube_texel(p, l, face, in_x, y, cube, weight / 3);
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
  add_texel(p, l, x, y, cube * 6 + face, weight);
}

void add_cube_level(Plan& p, unsigned level, float weight) {
  const TextureDescriptor& d = p.d;
  const LevelLayout l = shown_level(d, level);
  const OnFace on =
      face_of(as_float(p.given.coordinate[0]), as_float(p.given.coordinate[1]), as_float(p.given.coordinate[2]));
  const double size = l.width;
  const bool across = d.seamless && p.texels.filtered;
  const auto taps = [&](double c, unsigned axis) {
    const double at = (c + 1) / 2 * size;
    const AddressMode mode = d.seamless ? AddressMode::clamp : mode_of(d, axis);
    if (!across) return taps_at(at, l.width, mode, p.texels.filtered, 0);
    Taps free = taps_at(at + 1, l.width + 2, AddressMode::clamp, true, 0);
    for (std::int64_t& i : free.index) i -= 1;
    return free;
  };
  const Taps both[3] = {taps(on.s, 0), taps(on.t, 1), {}};
  const auto& [s, t, none] = both;
  const std::int64_t cube = d.layered ? layer_of(p, 6) : 0;
  for (int y = 0; y < t.count; ++y)
    for (int x = 0; x < s.count; ++x)
      add_cube_texel(p, l, on.face, s.index[x], t.index[y], cube, weight * weight_of(both, x, y, 0));
}

} // namespace

Texels fetched_texels(const TextureDescriptor& d, const TextureOperands& given) {
  Plan p{d, given, {}};
  p.texels.bytes = d.format.bytes();
  p.texels.filtered = d.linear && !given.form.integer_coordinates;
  const auto whole = [&] {
    return std::min(std::uint32_t(std::max(std::int32_t(given.level), 0)), d.shown_levels - 1);
  };
  const Levels levels = given.form.integer_coordinates && given.form.level == LevelOperand::level
                            ? Levels{.level = {whole(), 0}}
                            : levels_at(d, lod_of(d, given));
  for (unsigned n = 0; n < levels.count; ++n)
    (d.cubemap ? add_cube_level : add_level)(p, levels.level[n], levels.weight[n]);
  p.texels.filtered |= levels.count > 1;
  return p.texels;
}

Texels gathered_texels(const TextureDescriptor& d, const TextureOperands& given) {
  Plan p{d, given, {}};
  p.texels.bytes = d.format.bytes();
  const LevelLayout l = shown_level(d, levels_at(d, 0).level[0]);
  Taps taps[2];
  const std::uint32_t size[2] = {l.width, l.height};
  for (unsigned n = 0; n < 2; ++n) {
    const AddressMode mode = mode_of(d, n);
    taps[n] = taps_at(in_texels(d, as_float(given.coordinate[n]), size[n], mode), size[n], mode, true, given.offset[n]);
  }
  const std::int64_t slice = d.layered ? layer_of(p) : 0;
  constexpr int order[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
  for (const auto& [x, y] : order) add_texel(p, l, taps[0].index[x], taps[1].index[y], slice, 1);
  return p.texels;
}

// ---- surfaces

SurfaceTexel surface_texel(const TextureDescriptor& d, const TextureOperands& given) {
  using What = SurfaceTexel::What;
  const LevelLayout l = shown_level(d, 0);
  const bool whole = given.form.op == TextureOp::store_formatted;
  const std::int64_t texel = d.format.bytes();
  SurfaceTexel found;
  found.bytes = whole ? std::uint32_t(texel) : given.form.access_bytes;
  const auto as = [&](What what) {
    found.what = what;
    return found;
  };
  std::int64_t at[4] = {}; // x in bytes, y, z, layer
  const std::int64_t most[4] = {std::int64_t(l.width) * texel - found.bytes, std::int64_t(l.height) - 1,
                                std::int64_t(l.depth) - 1, std::int64_t(d.shown_layers) - 1};
  for (unsigned n = 0; n < d.dimensions && n < 3; ++n) at[n] = std::int32_t(given.coordinate[n]);
  if (whole) at[0] *= texel;
  if (d.layered || d.cubemap) at[3] = std::int64_t(given.layer);
  bool outside = false;
  for (unsigned n = 0; n < 4; ++n) outside |= at[n] < 0 || at[n] > most[n];
  if (outside && given.form.out_of_range == OutOfRange::trap) return as(What::outside);
  if (outside && given.form.out_of_range == OutOfRange::zero) return as(What::nothing);
  for (unsigned n = 0; n < 4; ++n) at[n] = std::clamp<std::int64_t>(at[n], 0, std::max<std::int64_t>(most[n], 0));
  if (most[0] < 0) return as(What::too_wide);
  if (at[0] % found.bytes) return as(What::misaligned);
  found.address = l.address + std::uint64_t(at[3] * l.depth + at[2]) * l.slice + std::uint64_t(at[1]) * l.pitch +
                  std::uint64_t(at[0]);
  return found;
}

namespace {

std::uint32_t formatted(const TexelFormat& f, std::uint32_t value) {
  if (f.kind == ChannelKind::float_) {
    if (f.bits == 32) return value;
    const auto half = _Float16(as_float(value));
    std::uint16_t bits;
    std::memcpy(&bits, &half, sizeof bits);
    return bits;
  }
  if (f.bits == 32) return value;
  const std::uint32_t most = (1u << f.bits) - 1;
  if (f.kind == ChannelKind::unsigned_) return std::min(value, most);
  const std::int32_t top = std::int32_t(most / 2);
  return std::uint32_t(std::clamp(std::int32_t(value), -top - 1, top)) & most;
}

} // namespace

void format_texel(const TexelFormat& f, const std::uint32_t (&value)[4], std::uint32_t (&bits)[4]) {
  std::fill(std::begin(bits), std::end(bits), 0);
  for (unsigned c = 0; c < f.channels; ++c) bits[c * f.bits / 32] |= formatted(f, value[c]) << c * f.bits % 32;
}

} // namespace deadheat::ptx
