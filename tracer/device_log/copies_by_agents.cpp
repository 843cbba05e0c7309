// What agents beside the threads copy or read: bulk copies, boxes of tensors, the matrices of wgmma.
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "deadheat/address.h"
#include "tracer/device_log/launch_log.h"
#include "tracer/device_log/slots.h"
#include "tracer/device_log/tensor_map.h"
#include "tracer/ptx/matrix_descriptor.h"

namespace deadheat::device_log {

constexpr std::uint32_t most_box_bytes = 1 << 20; // more than shared memory has

// What the lane's copy is as a whole; of a tensor without its other side. False: there is none.
bool LaunchLog::copy_of(const Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes, unsigned lane,
                        trace::BulkCopy& copy) {
  auto generic = [&](std::uint64_t at) {
    return at & shared_mark ? shared_window + (at & (slot.ranked ? window_bytes - 1 : cluster_offset_mask)) : at;
  };
  const std::uint64_t to = u64_at(bytes, slot.address, lane);
  if (slot.guarded && to == ~std::uint64_t(0)) return false;
  copy.warp = {shape_.launch, warp.block, warp.number};
  copy.module = shape_.module;
  copy.site = slot.site;
  copy.mask = 1u << lane;
  copy.destination[lane] = generic(to);
  if (slot.source) copy.source[lane] = generic(u64_at(bytes, slot.source, lane));
  if (slot.object) copy.mbarrier[lane] = generic(u64_at(bytes, slot.object, lane));
  copy.bytes[lane] = slot.operand_known ? std::uint32_t(slot.number) : slot.size ? u32_at(bytes, slot.size, lane) : 0;
  copy.digest[lane] = unknown_digest();
  return slot.map || copy.bytes[lane];
}

// A copy for each stretch of the box. What lies outside of the tensor is filled in shared memory, and nothing is
// written of it to the tensor.
void LaunchLog::tensor_pieces(const ptx::Slot& slot, const std::uint8_t* bytes, trace::BulkCopy copy,
                              std::vector<trace::BulkCopy>& pieces) {
  const unsigned lane = unsigned(__builtin_ctz(copy.mask));
  std::optional<ptx::TensorMap> map;
  if (shape_.tensor_maps) map = shape_.tensor_maps->find(u64_at(bytes, slot.map, lane));
  if (!map || map->rank != slot.dimensions || ptx::box_bytes(*map) > most_box_bytes) {
    ++unknown_maps_;
    return;
  }
  unplaced_ += !laid_out(*map);
  auto word = [&](unsigned n) { return u32_at(bytes, slot.coordinates + 128 * n, lane); };
  ptx::TensorPlace place;
  for (unsigned d = 0; d < slot.dimensions; ++d) place.at[d] = std::int32_t(word(d));
  for (unsigned n = 0; n < slot.offsets; ++n) place.offsets[n] = std::uint16_t(word(slot.dimensions + n));
  const std::uint64_t shared = copy.destination[lane];
  for (const ptx::TensorPiece& piece : pieces_of(*map, place, shared & cluster_offset_mask, !slot.from_tensor)) {
    if (!slot.from_tensor && !piece.address && laid_out(*map)) continue;
    copy.destination[lane] = slot.from_tensor ? shared + piece.offset : piece.address;
    copy.source[lane] = slot.from_tensor ? piece.address : shared + piece.offset;
    copy.bytes[lane] = piece.bytes;
    pieces.push_back(copy);
    copy.further = true;
  }
}

// One a lane and stretch; of copies to several blocks one a block, in order of their ranks (trace.h). Lanes that copy
// the same from one place to one place, in one instruction, write one value.
std::vector<trace::BulkCopy> LaunchLog::bulk_copies(const Warp& warp, const ptx::Slot& slot,
                                                    const std::uint8_t* bytes) {
  std::vector<trace::BulkCopy> copies;
  std::map<std::vector<std::uint64_t>, std::uint32_t> digests;
  each_lane(header_of(bytes).mask, [&](unsigned lane) {
    trace::BulkCopy whole;
    if (!copy_of(warp, slot, bytes, lane, whole)) return;
    if (slot.source || slot.map) {
      std::vector<std::uint64_t> what{whole.destination[lane], whole.source[lane], whole.bytes[lane],
                                      slot.map ? u64_at(bytes, slot.map, lane) : 0};
      for (unsigned n = 0; n < slot.dimensions + slot.offsets; ++n)
        what.push_back(u32_at(bytes, slot.coordinates + 128 * n, lane));
      whole.digest[lane] = digests.try_emplace(std::move(what), whole.digest[lane]).first->second;
    }
    std::vector<trace::BulkCopy> pieces;
    if (slot.map)
      tensor_pieces(slot, bytes, whole, pieces);
    else
      pieces.push_back(whole);
    if (!slot.blocks) {
      copies.insert(copies.end(), pieces.begin(), pieces.end());
      return;
    }
    bool further = false;
    each_lane(u32_at(bytes, slot.blocks, lane), [&](unsigned rank) {
      auto in_block = [&](std::uint64_t address) {
        return shared_window + (std::uint64_t(rank + 1) << cluster_shift) + (address & cluster_offset_mask);
      };
      for (trace::BulkCopy piece : pieces) {
        piece.destination[lane] = in_block(piece.destination[lane]);
        piece.mbarrier[lane] = in_block(piece.mbarrier[lane]);
        piece.further = std::exchange(further, true);
        copies.push_back(piece);
      }
    });
  });
  return copies;
}

// A warp's part of what its warpgroup multiplies: a quarter of a's rows; all of b is read once, for the first warp. It
// stands at the warp's first lane.
std::vector<trace::BulkCopy> LaunchLog::matrix_reads(const Warp& warp, const ptx::Slot& slot,
                                                     const std::uint8_t* bytes) {
  std::vector<trace::BulkCopy> reads;
  const std::uint32_t lanes = executing(slot, bytes);
  if (!lanes) return reads;
  const unsigned lane = unsigned(__builtin_ctz(lanes)), quarter = warp.number % 4;
  const ptx::MatrixShape shape = ptx::matrix_shape((*shape_.sites)[slot.site].opcode);
  trace::BulkCopy read;
  read.warp = {shape_.launch, warp.block, warp.number};
  read.module = shape_.module;
  read.site = slot.site;
  read.mask = 1u << lane;
  const std::uint64_t a = slot.first ? u64_at(bytes, slot.first, 0) : 0, b = u64_at(bytes, slot.second, 0);
  for (const ptx::MatrixStretch& s :
       ptx::warp_reads(shape, slot.first ? &a : nullptr, slot.transposed[0], b, slot.transposed[1], quarter)) {
    read.source[lane] = shared_window + s.address;
    read.bytes[lane] = s.bytes;
    reads.push_back(read);
    read.further = true;
  }
  return reads;
}

} // namespace deadheat::device_log
