// The embedded device's own bytes of a tensor map, and what a map must be like: by the driver API's page of
// cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, and where a driver (CUDA 13.0, 580) does otherwise, as that does.
// It looks at elementStrides[0] in any case, wants rows of whole 16 bytes of interleaved layouts, too, takes any
// swizzle with them, and no box of more than 228 KiB.
#include <algorithm>
#include <cstring>

#include "tracer/ptx/tensor_map.h"

namespace deadheat::ptx {

namespace {

constexpr std::uint64_t magic = 0x70616d'7461656864ull; // "dheatmap" but for a letter: no driver's first word
constexpr std::uint8_t flag_nan = 1, flag_im2col = 2;

struct Encoded {
  std::uint64_t magic, address, stride[4];
  std::uint32_t size[5]; // less one: 2^32 is allowed
  std::uint16_t box[5];
  std::int16_t lower[3], upper[3];
  std::uint16_t channels, pixels;
  std::uint8_t step[5], rank, type, interleave, swizzle, flags;
  std::uint8_t zero[24];
};
static_assert(sizeof(Encoded) == tensor_map_bytes);

constexpr std::uint64_t most_size = std::uint64_t(1) << 32, most_stride = std::uint64_t(1) << 40;
constexpr std::uint64_t most_address = (std::uint64_t(1) << 57) - 1;
constexpr std::uint32_t most_box_bytes = 228 * 1024; // what shared memory of a multiprocessor has
constexpr std::uint32_t most_box = 256, most_step = 8, most_channels = 256, most_pixels = 1024;

// Of the corners: 16 bits signed in all, shared out among the dimensions.
std::int32_t most_corner(unsigned rank) { return rank == 3 ? 32767 : rank == 4 ? 127 : 15; }

std::optional<std::string_view> objection_to_box(const TensorMap& map) {
  for (unsigned d = 0; d < map.rank; ++d) {
    if (map.im2col) break;
    if (map.box[d] == 0 || map.box[d] > most_box) return "boxDim";
  }
  const std::uint64_t inner = std::uint64_t(map.im2col ? map.channels : map.box[0]) * map.element_bytes();
  if (inner % 16) return map.im2col ? "channelsPerPixel" : "boxDim[0]";
  if (!map.im2col && box_bytes(map) > most_box_bytes) return "boxDim";
  if (map.interleave == Interleave::none && map.swizzle != Swizzle::none &&
      inner > swizzle_unit << unsigned(map.swizzle))
    return "swizzle";
  return std::nullopt;
}

std::optional<std::string_view> objection_to_pixels(const TensorMap& map) {
  if (map.rank < 3) return "tensorRank";
  const std::int32_t most = most_corner(map.rank);
  for (unsigned n = 0; n < map.rank - 2u; ++n) {
    if (map.lower[n] < -most - 1 || map.lower[n] > most) return "pixelBoxLowerCorner";
    if (map.upper[n] < -most - 1 || map.upper[n] > most) return "pixelBoxUpperCorner";
    if (std::int64_t(map.size[n + 1]) + map.upper[n] - map.lower[n] <= 0) return "pixelBoxUpperCorner";
  }
  if (map.channels == 0 || map.channels > most_channels) return "channelsPerPixel";
  if (map.pixels == 0 || map.pixels > most_pixels) return "pixelsPerColumn";
  return std::nullopt;
}

} // namespace

std::optional<std::string_view> objection_to(const TensorMap& map) {
  const bool interleaved = map.interleave != Interleave::none;
  const std::uint64_t granule = map.interleave == Interleave::bytes32 ? 32 : 16;
  if (std::size_t(map.type) >= tensor_types) return "tensorDataType";
  if (map.rank == 0 || map.rank > most_dimensions || (interleaved && map.rank < 3)) return "tensorRank";
  if (std::size_t(map.interleave) > 2) return "interleave";
  if (std::size_t(map.swizzle) > 3) return "swizzle";
  if (map.address % granule || map.address > most_address) return "globalAddress";
  for (unsigned d = 0; d < map.rank; ++d) {
    if (map.size[d] == 0 || map.size[d] > most_size) return "globalDim";
    if (d && (map.stride[d] % granule || map.stride[d] >= most_stride)) return "globalStrides";
    if (map.step[d] == 0 || map.step[d] > most_step) return "elementStrides";
  }
  if (map.fills_nan && !is_float(map.type)) return "oobFill";
  if (map.im2col) {
    if (const auto objection = objection_to_pixels(map)) return objection;
  }
  return objection_to_box(map);
}

TensorMapBytes encoded(const TensorMap& map) {
  Encoded e{};
  e.magic = magic;
  e.address = map.address;
  for (unsigned d = 0; d < most_dimensions; ++d) {
    e.size[d] = std::uint32_t(map.size[d] - 1);
    if (d) e.stride[d - 1] = map.stride[d];
    e.box[d] = std::uint16_t(map.box[d]);
    e.step[d] = std::uint8_t(map.step[d]);
  }
  for (unsigned n = 0; n < 3; ++n) {
    e.lower[n] = std::int16_t(map.lower[n]);
    e.upper[n] = std::int16_t(map.upper[n]);
  }
  e.channels = std::uint16_t(map.channels);
  e.pixels = std::uint16_t(map.pixels);
  e.rank = map.rank;
  e.type = std::uint8_t(map.type);
  e.interleave = std::uint8_t(map.interleave);
  e.swizzle = std::uint8_t(map.swizzle);
  e.flags = std::uint8_t((map.fills_nan ? flag_nan : 0) | (map.im2col ? flag_im2col : 0));
  TensorMapBytes bytes;
  std::memcpy(bytes.data(), &e, sizeof e);
  return bytes;
}

std::optional<TensorMap> decoded(const std::uint8_t* bytes) {
  Encoded e;
  std::memcpy(&e, bytes, sizeof e);
  const bool known = e.magic == magic && e.rank >= 1 && e.rank <= most_dimensions && e.type < tensor_types &&
                     e.interleave <= 2 && e.swizzle <= 3 && (e.flags & ~(flag_nan | flag_im2col)) == 0 &&
                     (!(e.flags & flag_im2col) || e.rank >= 3) && e.channels <= most_channels &&
                     e.pixels <= most_pixels;
  if (!known || std::any_of(e.box, e.box + e.rank, [](std::uint16_t b) { return b > most_box; })) return std::nullopt;
  TensorMap map;
  map.address = e.address;
  map.rank = e.rank;
  map.type = TensorType(e.type);
  map.interleave = Interleave(e.interleave);
  map.swizzle = Swizzle(e.swizzle);
  map.fills_nan = e.flags & flag_nan;
  map.im2col = e.flags & flag_im2col;
  for (unsigned d = 0; d < map.rank; ++d) {
    map.size[d] = std::uint64_t(e.size[d]) + 1;
    map.stride[d] = d ? e.stride[d - 1] : map.element_bytes();
    map.box[d] = e.box[d];
    map.step[d] = std::max<std::uint8_t>(e.step[d], 1);
  }
  for (unsigned n = 0; n < 3; ++n) {
    map.lower[n] = e.lower[n];
    map.upper[n] = e.upper[n];
  }
  map.channels = e.channels;
  map.pixels = e.pixels;
  return map;
}

} // namespace deadheat::ptx
