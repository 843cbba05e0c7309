// The values of a vector's elements as the one number that a trace has for a strong access (trace.h, Access).
//
// Vectors of up to 8 bytes are packed, the first element lowest, so that each element's value is known; longer ones are
// folded, so that only vectors of one form can be compared, and as wholes.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

namespace deadheat {

inline constexpr std::uint64_t vector_multiplier = 0x9e3779b97f4a7c15u;

inline constexpr bool packed(std::uint32_t element_bytes, std::uint32_t elements) {
  return element_bytes * elements <= 8;
}

// `so_far` of the elements before `element`, the one with that index (not 0), added; elements are zero-extended.
inline constexpr std::uint64_t with_element(std::uint64_t so_far, std::uint64_t element, std::uint32_t index,
                                            std::uint32_t element_bytes, std::uint32_t elements) {
  return packed(element_bytes, elements) ? so_far | element << 8 * element_bytes * index
                                         : so_far * vector_multiplier ^ element;
}

// Of a packed vector.
inline constexpr std::uint64_t element_of(std::uint64_t values, std::uint32_t index, std::uint32_t element_bytes) {
  const std::uint32_t bits = 8 * element_bytes;
  return bits >= 64 ? values : values >> bits * index & ((std::uint64_t(1) << bits) - 1);
}

} // namespace deadheat
