// Which tensor maps a program made, by the 128 bytes that came of it.
//
// What those bytes mean nobody says. Kernels report a digest of the map that an instruction is given; a map whose
// making was not seen (made on the device, or changed there) stays unknown, and so does what is copied by it; so do
// maps of packed elements. Which bytes a copy takes tells ptx/tensor_map.h.
//
// Thread-safety: TensorMaps locks for itself.
#pragma once

#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "tracer/ptx/tensor_map.h"

namespace deadheat::device_log {

inline constexpr unsigned tensor_map_words = ptx::tensor_map_bytes / 8;
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

class TensorMaps {
 public:
  bool made(const void* encoded, const ptx::TensorMap& map); // false: it was known, or there are too many
  std::optional<ptx::TensorMap> find(std::uint64_t digest) const;

 private:
  static constexpr std::size_t most_maps = 100'000;
  mutable std::mutex lock_;
  std::unordered_map<std::uint64_t, ptx::TensorMap> maps_; // by digest
};

} // namespace deadheat::device_log
