// Copies by tensor maps: bulk copies of boxes, which lie in stretches in global memory (PTX ISA 9.7.9.27). Which
// stretches tells ptx/tensor_map.h; each is read and written as a bulk copy of its own, one behind the other.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "deadheat/address.h"
#include "deadheat/digest.h"
#include "replay/device/holds.h"
#include "replay/device/machine.h"
#include "replay/device/record.h"
#include "replay/device/watch.h"

namespace deadheat::device {

using engine::BulkReduction;
using engine::ThreadContext;
using ptx::TensorMap;
using ptx::TensorPiece;
using ptx::TensorType;
using trace::MemoryError;

namespace {

// Of a box in shared memory (9.7.9.27.1). An H100 ends a launch that misses it with a misaligned address, one whose map
// does not fit the instruction with an illegal instruction.
constexpr std::uint64_t box_alignment = 128;

ptx::Type reduced_type(TensorType type) {
  switch (type) {
    case TensorType::u8: return ptx::Type::u8;
    case TensorType::u16: return ptx::Type::u16;
    case TensorType::u32: return ptx::Type::u32;
    case TensorType::s32: return ptx::Type::s32;
    case TensorType::u64: return ptx::Type::u64;
    case TensorType::s64: return ptx::Type::s64;
    case TensorType::f16: return ptx::Type::f16;
    case TensorType::bf16: return ptx::Type::bf16;
    case TensorType::f64: return ptx::Type::f64;
    default: return ptx::Type::f32;
  }
}

// To the nearest value of 10 bits, of ties to the even one; what loads of TFLOAT32 do on an H100, whose denormals are
// no zeros even with .ftz. NaNs are canonical.
std::uint32_t tf32_of(std::uint32_t bits) {
  constexpr std::uint32_t dropped = 0x1fff;
  if ((bits & 0x7fff'ffff) > 0x7f80'0000) return 0x7fff'ffff & ~dropped;
  return (bits + dropped / 2 + (bits >> 13 & 1)) & ~dropped;
}

// Which reductions there are (9.7.9.27.2): those of red, by the type of the map. An H100 calls the others illegal
// instructions.
bool reduces(BulkReduction op, TensorType type) {
  const std::uint32_t bytes = bytes_of(type);
  const bool integer = !is_float(type) && bytes >= 4;
  switch (op) {
    case BulkReduction::add: return (integer && type != TensorType::s64) || is_float(type);
    case BulkReduction::min:
    case BulkReduction::max: return integer || (is_float(type) && bytes == 2);
    case BulkReduction::inc:
    case BulkReduction::dec: return type == TensorType::u32;
    default: return integer && type != TensorType::s64;
  }
}

// tensormap.replace's numbers of element types (9.7.9.28), which are not the driver's.
std::optional<TensorType> replaced_type(std::uint64_t number) {
  static constexpr TensorType all[] = {TensorType::u8,      TensorType::u16, TensorType::u32,  TensorType::s32,
                                       TensorType::u64,     TensorType::s64, TensorType::f16,  TensorType::f32,
                                       TensorType::f32_ftz, TensorType::f64, TensorType::bf16, TensorType::tf32,
                                       TensorType::tf32_ftz};
  if (number >= std::size(all)) return std::nullopt;
  return all[number];
}

// The elements of a stretch that lies outside of the tensor.
void fill(std::vector<std::uint8_t>& bytes, const Box& box, std::uint32_t count) {
  bytes.resize(count);
  for (std::uint32_t at = 0; at < count; ++at) bytes[at] = std::uint8_t(box.filler >> 8 * (at % box.element_bytes));
}

// The filter's base is one of the pixels that the map says (5.5.4.1).
bool base_is_inside(const TensorMap& map, const ptx::TensorPlace& place) {
  for (unsigned d = 1; d + 1u < map.rank; ++d) {
    const std::int64_t base = place.at[d];
    if (base < map.lower[d - 1] || base >= std::int64_t(map.size[d]) + map.upper[d - 1]) return false;
  }
  return true;
}

// Why no box may begin there; empty: one may. An H100 calls all of these illegal instructions.
std::string misplaced(const TensorMap& map, const ptx::TensorPlace& place, bool loads) {
  if (std::int64_t(place.at[0]) * map.element_bytes() % ptx::swizzle_unit)
    return "the box begins at " + std::to_string(place.at[0]) + " along dimension 0, which is no multiple of 16 bytes";
  for (unsigned d = 0; !loads && d < map.rank; ++d)
    if (place.at[d] < 0)
      return "a copy into a tensor begins before it, at " + std::to_string(place.at[d]) + " along dimension " +
             std::to_string(d);
  if (map.im2col && !base_is_inside(map, place))
    return "the base of the filter lies outside of the map's pixelBoxLowerCorner and pixelBoxUpperCorner";
  return {};
}

// Which of the map's fields makes the tensor reach beyond what it begins in; empty: none.
std::string beyond(Environment& memory, const TensorMap& map) {
  if (!memory.legal(map.address, map.element_bytes())) return "globalAddress is no memory of the device";
  TensorMap part = map;
  for (part.rank = 1; part.rank <= map.rank; ++part.rank) {
    const unsigned d = part.rank - 1u;
    if (memory.legal(map.address, reach(part))) continue;
    std::string text = "by globalDim[" + std::to_string(d) + "], " + std::to_string(map.size[d]);
    if (d) text += ", and globalStrides[" + std::to_string(d - 1) + "], " + std::to_string(map.stride[d]) + ",";
    return text + " the tensor reaches beyond its allocation";
  }
  return {};
}

} // namespace

// Calls body(part) for each stretch that lies together on both sides, body_end(piece) behind each piece: parts are
// copies of their own, the pieces what is recorded.
template <typename Part, typename End>
void Machine::each_part(const AsyncCopy& copy, const Part& body, const End& piece_ends) const {
  const Box& box = *copy.box;
  std::uint32_t number = copy.number;
  bool goes_on = false;
  for (const TensorPiece& piece : box.pieces) {
    if (!box.loads && !piece.address) continue;
    const std::uint32_t unit = piece.swizzled ? ptx::swizzle_unit : piece.bytes;
    for (std::uint32_t at = 0; at < piece.bytes; at += unit) {
      const std::uint32_t offset =
          piece.swizzled ? ptx::swizzled_offset(box.swizzle, box.shared, piece.offset + at) : piece.offset;
      AsyncCopy part;
      part.kind = AsyncCopy::Kind::bulk;
      part.site = copy.site;
      part.bytes = part.source_bytes = unit;
      part.mbarrier = copy.mbarrier;
      part.reduction = copy.reduction;
      part.number = number++;
      part.instruction = copy.instruction;
      part.history_read = copy.history_read;
      part.history_write = copy.history_write;
      part.goes_on = std::exchange(goes_on, true);
      const std::uint64_t global = piece.address ? piece.address + at : 0;
      part.destination = box.loads ? copy.destination + offset : global;
      part.source = box.loads ? global : copy.source + offset;
      if (!box.loads && !copy.data.empty())
        part.data.assign(copy.data.begin() + offset, copy.data.begin() + offset + unit);
      if (box.loads && !global) fill(part.data, box, unit);
      body(part);
    }
    piece_ends(piece);
    goes_on = copy.mbarrier == 0;
  }
}

// What a load of TFLOAT32 brings is a value from here on.
void Machine::read_rounded(Block& block, AsyncCopy& part) const {
  const std::uint8_t* from = bulk_bytes_at(block, part.source, part.bytes);
  if (!from) return;
  part.data.assign(from, from + part.bytes);
  for (std::uint32_t at = 0; at + 4 <= part.bytes; at += 4) {
    std::uint32_t bits;
    std::memcpy(&bits, part.data.data() + at, 4);
    bits = tf32_of(bits);
    std::memcpy(part.data.data() + at, &bits, 4);
  }
}

void Machine::perform_box(Block& block, std::uint32_t thread, const AsyncCopy& copy) {
  each_part(
      copy,
      [&](AsyncCopy& part) {
        if (copy.box->rounds && part.data.empty()) read_rounded(block, part);
        move_bytes(block, thread, part);
      },
      [&](const TensorPiece& piece) { complete_bytes(block, thread, copy, piece.bytes); });
}

// The bytes in the order of global memory; empty where a part is not legal any more.
std::vector<std::uint8_t> Machine::piece_bytes(Block& block, const AsyncCopy& copy, const TensorPiece& piece) const {
  AsyncCopy one = copy;
  Box box = *copy.box;
  box.pieces = {piece};
  one.box = std::make_shared<const Box>(std::move(box));
  std::vector<std::uint8_t> bytes;
  each_part(
      one,
      [&](const AsyncCopy& part) {
        const std::uint8_t* from = part.data.empty() ? bulk_bytes_at(block, part.source, part.bytes) : part.data.data();
        if (from) bytes.insert(bytes.end(), from, from + part.bytes);
      },
      [](const TensorPiece&) {});
  return bytes;
}

void Machine::record_box(Block& block, const ThreadContext& thread, const AsyncCopy& copy, bool further) {
  trace::BulkCopy record;
  record.warp = {block.launch->request.launch, block.index, thread.warp};
  record.module = block.launch->request.module;
  record.site = copy.site;
  record.mask = 1u << thread.lane;
  record.further = further;
  record.mbarrier[thread.lane] = copy.mbarrier;
  for (const TensorPiece& piece : copy.box->pieces) {
    if (!copy.box->loads && !piece.address) continue;
    record.destination[thread.lane] = copy.box->loads ? copy.destination + piece.offset : piece.address;
    record.source[thread.lane] = copy.box->loads ? piece.address : copy.source + piece.offset;
    record.bytes[thread.lane] = piece.bytes;
    const std::vector<std::uint8_t> bytes = piece_bytes(block, copy, piece);
    record.digest[thread.lane] = deadheat::digest(bytes.data(), std::uint32_t(bytes.size()));
    say_effect(record);
    record.further = true;
  }
}

void Machine::box_fault(ThreadContext& thread, std::uint32_t site, MemoryError::Kind kind, std::uint64_t address,
                        std::uint32_t bytes, AccessKind access, std::string text) {
  if (box_text_.empty()) box_text_ = std::move(text); // of the first fault: it ends the run
  fault(thread, site, kind, address, bytes, access, box_text_.c_str());
}

const std::uint8_t* Machine::tensor_map_at(Block& block, std::uint64_t address) const {
  if (address % ptx::tensor_map_alignment) return nullptr;
  const std::vector<std::uint8_t>& params = block.launch->request.params;
  const std::uint64_t offset = address - param_window;
  if (offset < params.size()) return params.size() - offset >= ptx::tensor_map_bytes ? params.data() + offset : nullptr;
  if (address & window_bit || !options_.environment->legal(address, ptx::tensor_map_bytes)) return nullptr;
  return reinterpret_cast<const std::uint8_t*>(to_host(address));
}

// The map that the instruction is given, where it fits the instruction.
std::optional<TensorMap> Machine::tensor_map_of(Block& block, ThreadContext& thread, std::uint32_t site) {
  const std::uint64_t address = thread.arg[engine::box_map], form = thread.arg[engine::box_form];
  auto refuse = [&](MemoryError::Kind kind, std::string text) {
    box_fault(thread, site, kind, address, ptx::tensor_map_bytes, AccessKind::read, std::move(text));
    return std::nullopt;
  };
  if (address % ptx::tensor_map_alignment)
    return refuse(MemoryError::Kind::misaligned, "a tensor map lies at multiples of 64");
  const std::uint8_t* bytes = tensor_map_at(block, address);
  if (!bytes) {
    const bool window = address & window_bit;
    return refuse(window ? MemoryError::Kind::wrong_space : MemoryError::Kind::out_of_bounds,
                  "a tensor map lies in global or constant memory, or among a kernel's parameters");
  }
  const std::optional<TensorMap> map = ptx::decoded(bytes);
  if (!map) return refuse(MemoryError::Kind::trap, "no tensor map that cuTensorMapEncode… made lies there");
  const unsigned dimensions = form & 0xff;
  if (map->rank != dimensions)
    return refuse(MemoryError::Kind::trap, "the tensor map is of " + std::to_string(map->rank) +
                                               " dimensions, the copy of " + std::to_string(dimensions));
  if (map->im2col != bool(form & engine::box_im2col))
    return refuse(MemoryError::Kind::trap, map->im2col ? "the tensor map is one of im2col, the copy one of a tile"
                                                       : "the tensor map is one of tiles, the copy one of im2col");
  return map;
}

// Both sides may be touched; else a fault is set.
bool Machine::box_legal(Block& block, ThreadContext& thread, std::uint32_t site, const AsyncCopy& copy,
                        const TensorMap& map) {
  const Box& box = *copy.box;
  const std::uint64_t shared = box.loads ? copy.destination : copy.source;
  const AccessKind here = box.loads ? AccessKind::write : AccessKind::read, there = box.loads ? AccessKind::read
                                                                                    : copy.reduction
                                                                                        ? AccessKind::atomic
                                                                                        : AccessKind::write;
  if (shared % box_alignment) {
    box_fault(thread, site, MemoryError::Kind::misaligned, shared, copy.bytes, here,
              "a box lies at multiples of 128 in shared memory");
    return false;
  }
  if (!shared_place(block, shared, copy.bytes).block) {
    box_fault(thread, site, MemoryError::Kind::out_of_bounds, shared, copy.bytes, here,
              "the box of the tensor map takes " + std::to_string(copy.bytes) + " bytes of shared memory");
    return false;
  }
  for (const TensorPiece& piece : box.pieces) {
    if (!piece.address || bulk_bytes_at(block, piece.address, piece.bytes)) continue;
    bool freed = false;
    if (!(piece.address & window_bit)) options_.environment->nearest_allocation(piece.address, &freed);
    box_fault(thread, site, freed ? MemoryError::Kind::use_after_free : MemoryError::Kind::out_of_bounds, piece.address,
              piece.bytes, there, beyond(*options_.environment, map));
    return false;
  }
  return true;
}

void Machine::box_copy(ThreadContext& thread, std::uint32_t site) {
  Block& block = *static_cast<Block*>(thread.block->block);
  thread.pending_site = site;
  AsyncQueue& queue = async_queue(thread);
  const std::optional<TensorMap> map = tensor_map_of(block, thread, site);
  if (!map) return;
  AsyncCopy copy;
  copy.kind = AsyncCopy::Kind::bulk;
  copy.site = site;
  copy.bytes = copy.source_bytes = ptx::box_extent(*map);
  copy.mbarrier = thread.arg[engine::box_mbarrier];
  if (const std::uint64_t operation = thread.arg[engine::box_reduction]) {
    copy.reduction = std::uint32_t(operation) | std::uint32_t(reduced_type(map->type)) << 8;
    if (map->type == TensorType::f32_ftz || map->type == TensorType::tf32_ftz) copy.reduction |= reduction_flushes;
    if (!reduces(BulkReduction(operation - 1), map->type))
      return box_fault(thread, site, MemoryError::Kind::trap, map->address, map->element_bytes(), AccessKind::atomic,
                       "there is no such reduction of elements of type " + std::string(name_of(map->type)));
  }
  if (!laid_out(*map))
    return box_fault(thread, site, MemoryError::Kind::trap, map->address, map->element_bytes(), AccessKind::read,
                     "tensors of interleaved layouts are not supported by the embedded device");
  copy.instruction = queue.instructions++;
  const std::uint64_t shared = thread.arg[engine::box_shared];
  const bool loads = copy.mbarrier != 0;
  (loads ? copy.destination : copy.source) = shared;
  // More than shared memory holds is no box to walk over.
  if (copy.bytes > block.launch->request.total_shared)
    return box_fault(thread, site, MemoryError::Kind::out_of_bounds, shared, copy.bytes,
                     loads ? AccessKind::write : AccessKind::read,
                     "the box of the tensor map takes more than the block's shared memory");
  Box box;
  box.loads = loads;
  box.swizzle = map->swizzle;
  box.shared = shared & cluster_offset_mask;
  box.filler = filler(*map);
  box.element_bytes = map->element_bytes();
  box.rounds = loads && (map->type == TensorType::tf32 || map->type == TensorType::tf32_ftz);
  ptx::TensorPlace place;
  for (unsigned d = 0; d < ptx::most_dimensions; ++d)
    place.at[d] = std::int32_t(thread.arg[engine::box_coordinates + d]);
  for (unsigned n = 0; n < 3; ++n) place.offsets[n] = std::uint16_t(thread.arg[engine::box_offsets + n]);
  if (std::string why = misplaced(*map, place, loads); !why.empty())
    return box_fault(thread, site, MemoryError::Kind::trap, map->address, map->element_bytes(),
                     loads ? AccessKind::read : AccessKind::write, std::move(why));
  box.pieces = pieces_of(*map, place, box.shared, !loads);
  for (const TensorPiece& piece : box.pieces) box.parts += piece.swizzled ? piece.bytes / ptx::swizzle_unit : 1;
  copy.box = std::make_shared<const Box>(std::move(box));
  copy.bulk_group = queue.bulk_groups;
  if (block.named) holds_->copy_issued(block, thread, copy);
  issue_everywhere(block, thread, copy, std::uint32_t(thread.arg[engine::box_targets]),
                   [&](const AsyncCopy& one) { return box_legal(block, thread, site, one, *map); });
}

// ---- maps that kernels make

void Machine::tensor_replace(ThreadContext& thread, std::uint32_t site, std::uint64_t address, std::uint32_t field,
                             std::uint32_t ordinal, std::uint64_t value) {
  using Field = engine::TensorField;
  Block& block = *static_cast<Block*>(thread.block->block);
  thread.pending_site = site;
  const bool shared = address - shared_window < window_bytes;
  std::uint8_t* bytes =
      address % ptx::tensor_map_alignment ? nullptr : bulk_bytes_at(block, address, ptx::tensor_map_bytes);
  std::optional<TensorMap> map = bytes ? ptx::decoded(bytes) : std::nullopt;
  if (!map) {
    const auto kind = bytes                                 ? MemoryError::Kind::trap
                      : address % ptx::tensor_map_alignment ? MemoryError::Kind::misaligned
                                                            : MemoryError::Kind::out_of_bounds;
    return box_fault(thread, site, kind, address, ptx::tensor_map_bytes, AccessKind::write,
                     bytes ? "no tensor map that cuTensorMapEncode… made lies there" : "");
  }
  const unsigned d = std::min(ordinal, ptx::most_dimensions - 1);
  switch (Field(field)) {
    case Field::global_address: map->address = value; break;
    case Field::rank: map->rank = std::uint8_t(std::min<std::uint64_t>(value, 255) + 1); break; // rank - 1 is given
    case Field::box_dim: map->box[d] = std::uint32_t(value); break;
    case Field::global_dim: map->size[d] = std::uint32_t(value); break;
    case Field::global_stride: map->stride[std::min(d + 1, ptx::most_dimensions - 1)] = value; break;
    case Field::element_stride: map->step[d] = std::uint32_t(value); break;
    case Field::elemtype: map->type = replaced_type(value).value_or(TensorType(0xff)); break;
    case Field::interleave_layout: map->interleave = ptx::Interleave(value); break;
    case Field::swizzle_mode: map->swizzle = ptx::Swizzle(value); break;
    case Field::fill_mode: map->fills_nan = value & 1; break;
  }
  const ptx::TensorMapBytes changed = ptx::encoded(*map);
  std::memcpy(bytes, changed.data(), changed.size());
  if (shared) {
    const SharedPlace at = shared_place(block, address, changed.size());
    shared_written(*at.block, at.offset, changed.size());
  }
}

void Machine::tensor_map_copy(ThreadContext& thread, std::uint32_t site, std::uint64_t destination,
                              std::uint64_t source) {
  Block& block = *static_cast<Block*>(thread.block->block);
  thread.pending_site = site;
  if (!bulk_legal(block, thread, site, source, ptx::tensor_map_bytes, false, ptx::tensor_map_bytes) ||
      !bulk_legal(block, thread, site, destination, ptx::tensor_map_bytes, true, ptx::tensor_map_bytes))
    return;
  AsyncCopy copy;
  copy.destination = destination;
  copy.source = source;
  copy.bytes = copy.source_bytes = ptx::tensor_map_bytes;
  std::memmove(bulk_bytes_at(block, destination, copy.bytes), bulk_bytes_at(block, source, copy.bytes), copy.bytes);
  bulk_written(block, copy);
}

} // namespace deadheat::device
