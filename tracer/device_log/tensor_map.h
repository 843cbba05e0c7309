// Tensor maps: what the program gave cuTensorMapEncodeTiled, by the 128 bytes that came of it, and which bytes of
// memory a copy of a box takes (PTX ISA 5.5; CUDA driver API, Tensor Map Object Management).
//
// What those bytes mean nobody says. Kernels report a digest of the map that an instruction is given; a map whose
// making was not seen (made on the device, or changed there) stays unknown, and so does what is copied by it; so do
// maps of packed elements.
//
// Thread-safety: TensorMaps locks for itself; the rest are plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace deadheat::device_log {

inline constexpr unsigned most_dimensions = 5;
inline constexpr unsigned tensor_map_words = 16; // of 64 bits
// Instrumented code computes the same (ptx/instrument_async.cpp).
inline constexpr std::uint64_t tensor_digest_factor = 0x9e37'79b9'7f4a'7c15;
inline std::uint64_t tensor_digest(const void* map) {
  std::uint64_t words[tensor_map_words], digest = 0;
  std::memcpy(words, map, sizeof words);
  for (std::uint64_t word : words) {
    digest = (digest ^ word) * tensor_digest_factor;
    digest ^= digest >> 32;
  }
  return digest;
}

// Dimension 0 is the innermost one.
struct TensorMap {
  std::uint64_t address = 0;
  unsigned rank = 0;
  std::uint32_t element_bytes = 0;
  std::array<std::uint64_t, most_dimensions> size{}, stride{}; // elements; bytes (of dimension 0: an element's)
  std::array<std::uint32_t, most_dimensions> box{}, step{};    // elements that a box spans; every how many are taken
  // False: only how large a box is in shared memory is known (interleaved layouts, im2col).
  bool laid_out = true;
  std::uint32_t box_bytes = 0;
};

// A stretch of a box: `bytes` of it from `offset` on lie at `address`. Swizzling permutes a box within itself.
struct TensorPiece {
  std::uint64_t address = 0; // 0: outside of the tensor (or not known)
  std::uint32_t offset = 0, bytes = 0;
};
std::vector<TensorPiece> pieces_of(const TensorMap& map, const std::array<std::int32_t, most_dimensions>& at);

class TensorMaps {
 public:
  void made(const void* encoded, const TensorMap& map);
  std::optional<TensorMap> find(std::uint64_t digest) const;

 private:
  static constexpr std::size_t most_maps = 100'000;
  mutable std::mutex lock_;
  std::unordered_map<std::uint64_t, TensorMap> maps_;
};

} // namespace deadheat::device_log
