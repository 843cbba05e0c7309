#include "tracer/ptx/tensor_map.h"

#include <algorithm>
#include <utility>

namespace deadheat::ptx {

namespace {

struct TypeLine {
  std::string_view name;
  std::uint32_t bytes;
  bool is_float;
  std::uint64_t nan; // OOB-NaN, as an H100 has it
};
constexpr TypeLine types[tensor_types] = {{"u8", 1, false, 0},
                                          {"u16", 2, false, 0},
                                          {"u32", 4, false, 0},
                                          {"s32", 4, false, 0},
                                          {"u64", 8, false, 0},
                                          {"s64", 8, false, 0},
                                          {"f16", 2, true, 0x7ff7},
                                          {"f32", 4, true, 0x7ff7'7ff7},
                                          {"f64", 8, true, 0x7ff7'7ff7'7ff7'7ff7},
                                          {"bf16", 2, true, 0x7ff7},
                                          {"f32.ftz", 4, true, 0x7ff7'7ff7},
                                          {"tf32", 4, true, 0x7ff7'7ff7},
                                          {"tf32.ftz", 4, true, 0x7ff7'7ff7}};
const TypeLine& line(TensorType type) { return types[std::min<std::size_t>(std::size_t(type), tensor_types - 1)]; }

std::uint32_t taken(std::uint32_t box, std::uint32_t step) { return (box + step - 1) / std::max(step, 1u); }

std::uint32_t row_bytes(const TensorMap& map) { return (map.im2col ? map.channels : map.box[0]) * map.element_bytes(); }
// From one row of the box to the next: as an H100 has it.
std::uint32_t row_pitch(const TensorMap& map) {
  if (map.swizzle == Swizzle::none) return row_bytes(map);
  return std::max(row_bytes(map), swizzle_unit << unsigned(map.swizzle));
}

// Gathers stretches in the order of shared memory.
class Stretches {
 public:
  Stretches(const TensorMap& map, std::uint64_t shared, bool into_tensor) : map_(map), shared_(shared) {
    const std::uint32_t unit = into_tensor ? swizzle_unit / map.element_bytes() : 1;
    size_ = std::int64_t((map.size[0] + unit - 1) / unit * unit);
  }

  // Elements [from, to) of dimension 0 of a row that begins at `row`, of which those in [0, size) exist.
  void add_row(bool exists, std::int64_t row, std::int64_t from, std::int64_t to) {
    const std::int64_t size = exists ? size_ : 0;
    const std::uint32_t end = offset_ + row_pitch(map_);
    const std::int64_t inside = std::clamp<std::int64_t>(0, from, to), beyond = std::clamp(size, inside, to);
    if (beyond == inside) {
      add(0, to - from);
    } else {
      add(0, inside - from);
      add(std::uint64_t(row + inside * map_.element_bytes()), beyond - inside);
      add(0, to - beyond);
    }
    if (offset_ == end) return;
    flush();
    offset_ = end;
  }

  std::vector<TensorPiece> take() {
    flush();
    return std::move(pieces_);
  }

 private:
  void add(std::uint64_t address, std::int64_t elements) {
    const std::uint32_t bytes = std::uint32_t(elements) * map_.element_bytes();
    if (!bytes) return;
    const bool goes_on = open_.bytes && (open_.address ? open_.address + open_.bytes == address : !address);
    if (!goes_on) {
      flush();
      open_ = {address, offset_, 0};
    }
    open_.bytes += bytes;
    offset_ += bytes;
  }

  // What fills whole lines of the swizzle takes the same bytes as without it; of the rest each unit lies by itself.
  void flush() {
    const TensorPiece piece = std::exchange(open_, {});
    if (!piece.bytes) return;
    if (map_.swizzle == Swizzle::none) return pieces_.push_back(piece);
    const std::uint32_t span = swizzle_unit << unsigned(map_.swizzle), end = piece.offset + piece.bytes;
    const auto line = std::uint32_t(shared_ % span);
    const std::uint32_t first = std::min((piece.offset + line + span - 1) / span * span - line, end),
                        last = std::max((end + line) / span * span - line, first);
    units(piece, piece.offset, first);
    if (last > first) pieces_.push_back({from(piece, first), first, last - first, true});
    units(piece, last, end);
  }
  static std::uint64_t from(const TensorPiece& piece, std::uint32_t offset) {
    return piece.address ? piece.address + (offset - piece.offset) : 0;
  }
  void units(const TensorPiece& piece, std::uint32_t begin, std::uint32_t end) {
    while (begin < end) {
      const std::uint32_t unit = begin / swizzle_unit * swizzle_unit, to = std::min(unit + swizzle_unit, end);
      const std::uint32_t where = swizzled_offset(map_.swizzle, shared_, unit) + (begin - unit);
      pieces_.push_back({from(piece, begin), where, to - begin});
      begin = to;
    }
  }

  const TensorMap& map_;
  const std::uint64_t shared_;
  std::vector<TensorPiece> pieces_;
  TensorPiece open_;
  std::uint32_t offset_ = 0; // before swizzling
  std::int64_t size_ = 0;    // of dimension 0
};

// Row by row of the box: dimension 1 the fastest, from a corner that may lie outside (5.5.3).
void tile_rows(const TensorMap& map, const TensorPlace& place, Stretches& stretches) {
  std::array<std::uint32_t, most_dimensions> index{}; // of the row, in elements from the box's corner
  for (;;) {
    std::int64_t row = std::int64_t(map.address);
    bool exists = true;
    for (unsigned d = 1; d < map.rank; ++d) {
      const std::int64_t where = std::int64_t(place.at[d]) + index[d];
      exists &= where >= 0 && where < std::int64_t(map.size[d]);
      row += where * std::int64_t(map.stride[d]);
    }
    stretches.add_row(exists, row, place.at[0], std::int64_t(place.at[0]) + map.box[0]);
    unsigned d = 1;
    for (; d < map.rank; ++d) {
      index[d] += std::max(1u, map.step[d]);
      if (index[d] < map.box[d]) break;
      index[d] = 0;
    }
    if (d >= map.rank) return;
  }
}

// Pixel by pixel, each of some channels: from the filter's base on, W the fastest, to the upper corner of the pixels
// that the base runs over, then on from the lower one, and from image to image. The offsets are the place in the filter
// (5.5.4).
void pixels(const TensorMap& map, const TensorPlace& place, Stretches& stretches) {
  const unsigned last = map.rank - 1; // N
  std::array<std::int64_t, most_dimensions> base{};
  for (unsigned d = 1; d <= last; ++d) base[d] = place.at[d];
  for (std::uint32_t n = 0; n < map.pixels; ++n) {
    std::int64_t row = std::int64_t(map.address);
    bool exists = true;
    for (unsigned d = 1; d <= last; ++d) {
      const std::int64_t where = base[d] + (d < last ? place.offsets[d - 1] : 0);
      exists &= where >= 0 && where < std::int64_t(map.size[d]);
      row += where * std::int64_t(map.stride[d]);
    }
    stretches.add_row(exists, row, place.at[0], std::int64_t(place.at[0]) + map.channels);
    for (unsigned d = 1; d <= last; ++d) {
      base[d] += std::max(1u, map.step[d]);
      if (d == last || base[d] < std::int64_t(map.size[d]) + map.upper[d - 1]) break;
      base[d] = map.lower[d - 1];
    }
  }
}

} // namespace

std::uint32_t bytes_of(TensorType type) { return line(type).bytes; }
bool is_float(TensorType type) { return line(type).is_float; }
std::string_view name_of(TensorType type) { return line(type).name; }

std::uint64_t filler(const TensorMap& map) { return map.fills_nan ? line(map.type).nan : 0; }

std::uint32_t box_bytes(const TensorMap& map) {
  std::uint64_t bytes = map.element_bytes();
  if (map.im2col) {
    bytes *= std::uint64_t(map.channels) * map.pixels;
  } else {
    bytes *= map.box[0];
    for (unsigned d = 1; d < map.rank; ++d) bytes *= taken(map.box[d], map.step[d]);
  }
  return std::uint32_t(std::min<std::uint64_t>(bytes, 0xffff'ffff));
}

std::uint32_t box_extent(const TensorMap& map) {
  const std::uint32_t bytes = box_bytes(map), row = row_bytes(map), pitch = row_pitch(map);
  if (!bytes || pitch == row) return bytes;
  const std::uint64_t extent = std::uint64_t(bytes / row) * pitch;
  return std::uint32_t(std::min<std::uint64_t>(extent, 0xffff'ffff));
}

std::uint32_t swizzled_offset(Swizzle swizzle, std::uint64_t shared, std::uint32_t offset) {
  const std::uint64_t at = shared + offset, mask = (std::uint64_t(1) << unsigned(swizzle)) - 1;
  return std::uint32_t((at ^ (((at >> 7) & mask) << 4)) - shared);
}

bool laid_out(const TensorMap& map) { return map.interleave == Interleave::none; }

std::vector<TensorPiece> pieces_of(const TensorMap& map, const TensorPlace& place, std::uint64_t shared,
                                   bool into_tensor) {
  if (!laid_out(map)) return {{0, 0, box_bytes(map)}};
  Stretches stretches(map, shared, into_tensor);
  if (map.im2col)
    pixels(map, place, stretches);
  else
    tile_rows(map, place, stretches);
  return stretches.take();
}

std::uint64_t reach(const TensorMap& map) {
  std::uint64_t bytes = map.size[0] * map.element_bytes();
  for (unsigned d = 1; d < map.rank; ++d) bytes += (map.size[d] - 1) * map.stride[d];
  return bytes;
}

} // namespace deadheat::ptx
