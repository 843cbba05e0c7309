// The number by which a thread that spins knows again what it read (abi.h, spin_value): a value of up to eight bytes is
// that itself; of a wider one, and of a vector, the words are mixed, of at most eight bytes each. access.cpp makes the
// same of registers.
//
// Thread-safety: pure function.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace deadheat::engine {

inline constexpr std::uint64_t spin_multiplier = 0x9e3779b97f4a7c15;
inline constexpr std::uint32_t spin_word_bytes = 8;

inline std::uint64_t spin_value(const void* bytes, std::uint32_t count, std::uint32_t element_bytes) {
  const auto* p = static_cast<const unsigned char*>(bytes);
  const std::uint32_t step = std::min(element_bytes, spin_word_bytes);
  std::uint64_t mixed = 0;
  for (std::uint32_t at = 0; at < count; at += step) {
    std::uint64_t word = 0;
    std::memcpy(&word, p + at, step);
    mixed = at == 0 ? word : (mixed * spin_multiplier) ^ word;
  }
  return mixed;
}

} // namespace deadheat::engine
