// Tensor maps: what cuTensorMapEncodeTiled and its like are given (CUDA driver API, Tensor Map Object Management),
// which bytes of memory a copy by one takes (PTX ISA 5.5 "Tensors"), and the 128 bytes of the embedded device's own
// maps.
//
// The one place that knows boxes: the embedded device copies by it, and the tracer on GPUs writes its records by it.
// Dimension 0 is the innermost one, of elements (or channels) that lie side by side.
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace deadheat::ptx {

inline constexpr unsigned most_dimensions = 5;
inline constexpr unsigned tensor_map_bytes = 128;
inline constexpr unsigned tensor_map_alignment = 64; // of the object in memory

// CUtensorMapDataType, by number; packed types, which come after these, are not known here.
enum class TensorType : std::uint8_t { u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, f32_ftz, tf32, tf32_ftz };
inline constexpr unsigned tensor_types = 13;
std::uint32_t bytes_of(TensorType type);
bool is_float(TensorType type);
std::string_view name_of(TensorType type);

// CUtensorMapInterleave and CUtensorMapSwizzle, by number.
enum class Interleave : std::uint8_t { none, bytes16, bytes32 };
enum class Swizzle : std::uint8_t { none, bytes32, bytes64, bytes128 };

struct TensorMap {
  std::uint64_t address = 0;
  std::uint8_t rank = 0;
  TensorType type = TensorType::u8;
  Interleave interleave = Interleave::none;
  Swizzle swizzle = Swizzle::none;
  bool fills_nan = false; // what lies outside of the tensor; else zeros
  bool im2col = false;
  std::array<std::uint64_t, most_dimensions> size{}, stride{}; // elements; bytes (of dimension 0: an element's)
  std::array<std::uint32_t, most_dimensions> box{}, step{};    // elements that a box spans; every how many are taken
  // Of im2col, in the order of the dimensions from 1 on (W, H, D): how far the corners of the pixels that a filter's
  // base runs over lie from the image's.
  std::array<std::int32_t, 3> lower{}, upper{};
  std::uint32_t channels = 0, pixels = 0; // of im2col: what one copy takes

  std::uint32_t element_bytes() const { return bytes_of(type); }
  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

// What a box takes of shared memory, and what its copy counts at an mbarrier: outside of the tensor, too. At most
// 2^32 - 1 (of maps that nobody could use).
std::uint32_t box_bytes(const TensorMap& map);
// From its first byte in shared memory to its last: rows that are shorter than the swizzle's span lie that far apart.
std::uint32_t box_extent(const TensorMap& map);

struct TensorPlace { // of an instruction: coordinates, and offsets of im2col (W, H, D)
  std::array<std::int32_t, most_dimensions> at{};
  std::array<std::uint16_t, 3> offsets{};
};

// A stretch of a box: `bytes` of it from `offset` on, in shared memory, lie at `address`. Where it is swizzled, its
// 16-byte units are permuted within the stretch (swizzled_offset), as a whole it takes the same bytes.
struct TensorPiece {
  std::uint64_t address = 0; // 0: outside of the tensor
  std::uint32_t offset = 0, bytes = 0;
  bool swizzled = false;
};
// False: which bytes of global memory a box takes is not known (of interleaved layouts the manual does not say where a
// slice lies); its copy is one piece, as if all of it lay outside.
bool laid_out(const TensorMap& map);
// In the order of shared memory, but for what swizzling moves. `shared`: where the box begins there, of which a
// swizzle looks at the bits up to 9. `into_tensor`: an H100 writes whole units of 16 bytes, which along dimension 0 may
// reach beyond the last element.
std::vector<TensorPiece> pieces_of(const TensorMap& map, const TensorPlace& place, std::uint64_t shared,
                                   bool into_tensor = false);

inline constexpr std::uint32_t swizzle_unit = 16;
// Where the unit at `offset` of the box lies.
std::uint32_t swizzled_offset(Swizzle swizzle, std::uint64_t shared, std::uint32_t offset);

// The element with which what lies outside of the tensor is filled, as its bits.
std::uint64_t filler(const TensorMap& map);

// The bytes of memory from map.address on that the tensor reaches to, where it is known.
std::uint64_t reach(const TensorMap& map);

// ---- the embedded device's own encoding

using TensorMapBytes = std::array<std::uint8_t, tensor_map_bytes>;
TensorMapBytes encoded(const TensorMap& map);
// Nothing where the bytes are no map of that encoding, or a map that makes no sense.
std::optional<TensorMap> decoded(const std::uint8_t* bytes);

// Why the map cannot be; nothing where it can (the requirements that the driver API's page lists).
std::optional<std::string_view> objection_to(const TensorMap& map);

} // namespace deadheat::ptx
