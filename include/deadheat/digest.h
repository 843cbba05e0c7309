// The digest of the bytes that a write writes (trace::Access, and all that is like it): tells "wrote the same value"
// with 32 bits. Up to 4 bytes it is the value itself; longer writes are folded 32-bit word by word, little-endian.
//
// Thread-safety: pure function.
#pragma once

#include <cstdint>
#include <cstring>

namespace deadheat {

inline constexpr std::uint32_t digest_multiplier = 0x9e3779b1u;

inline std::uint32_t digest(const void* bytes, std::uint32_t count) {
  const auto* p = static_cast<const unsigned char*>(bytes);
  std::uint32_t h = 0;
  for (std::uint32_t at = 0; at < count; at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, p + at, count - at < 4 ? count - at : 4);
    h = at == 0 ? word : (h * digest_multiplier) ^ word;
  }
  return h;
}

}  // namespace deadheat
