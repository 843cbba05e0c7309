#include "tracer/device_log/tensor_map.h"

#include <algorithm>

namespace deadheat::device_log {

namespace {

void add(std::vector<TensorPiece>& pieces, TensorPiece piece) {
  if (!piece.bytes) return;
  if (!pieces.empty()) {
    TensorPiece& last = pieces.back();
    const bool outside = !last.address && !piece.address;
    if (outside || (last.address && last.address + last.bytes == piece.address)) {
      last.bytes += piece.bytes;
      return;
    }
  }
  pieces.push_back(piece);
}

} // namespace

std::vector<TensorPiece> pieces_of(const TensorMap& map, const std::array<std::int32_t, most_dimensions>& at) {
  std::vector<TensorPiece> pieces;
  if (!map.laid_out || !map.rank) {
    add(pieces, {0, 0, map.box_bytes});
    return pieces;
  }
  // The innermost dimension has no steps ("TMA doesn't support the stride for dimension zero").
  const std::int64_t begin = at[0], end = begin + map.box[0], size = std::int64_t(map.size[0]);
  const std::int64_t inside = std::clamp<std::int64_t>(0, begin, end),
                     beyond = std::clamp<std::int64_t>(size, inside, end);
  std::array<std::uint32_t, most_dimensions> index{}; // of the row, in elements from the box's corner
  std::uint32_t offset = 0;
  for (;;) {
    std::int64_t row = std::int64_t(map.address);
    bool exists = beyond > inside;
    for (unsigned d = 1; d < map.rank; ++d) {
      const std::int64_t where = std::int64_t(at[d]) + index[d];
      exists &= where >= 0 && where < std::int64_t(map.size[d]);
      row += where * std::int64_t(map.stride[d]);
    }
    auto part = [&](std::int64_t from, std::int64_t to, bool is_inside) {
      const std::uint32_t bytes = std::uint32_t(to - from) * map.element_bytes;
      add(pieces, {is_inside ? std::uint64_t(row + from * map.element_bytes) : 0, offset, bytes});
      offset += bytes;
    };
    if (exists) {
      part(begin, inside, false);
      part(inside, beyond, true);
      part(beyond, end, false);
    } else {
      part(begin, end, false);
    }
    unsigned d = 1;
    for (; d < map.rank; ++d) {
      index[d] += std::max(1u, map.step[d]);
      if (index[d] < map.box[d]) break;
      index[d] = 0;
    }
    if (d >= map.rank) return pieces;
  }
}

void TensorMaps::made(const void* encoded, const TensorMap& map) {
  std::lock_guard hold(lock_);
  if (maps_.size() < most_maps) maps_.insert_or_assign(tensor_digest(encoded), map);
}

std::optional<TensorMap> TensorMaps::find(std::uint64_t digest) const {
  std::lock_guard hold(lock_);
  const auto found = maps_.find(digest);
  if (found == maps_.end()) return std::nullopt;
  return found->second;
}

} // namespace deadheat::device_log
