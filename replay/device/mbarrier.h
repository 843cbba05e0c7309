// What the 64 bits of an mbarrier object hold (PTX ISA 9.7.13.15.1: opaque; this is the embedded device's layout).
//
//   bits  0 … 19   arrivals that each phase expects
//   bits 20 … 39   arrivals that the current phase still waits for
//   bits 40 … 60   bytes that it still waits for, two's complement
//   bits 61 … 63   its number, modulo 8
//
// Invariant: a phase with neither arrivals nor bytes to wait for is complete, and the object is in the next one.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>

namespace deadheat::device {

struct MbarrierBits {
  std::uint32_t expected = 0, pending = 0;
  std::int64_t bytes = 0;
  std::uint32_t phase = 0; // modulo 8

  static constexpr std::uint32_t most_arrivals = (1u << 20) - 1;
  static constexpr std::int64_t most_bytes = (1 << 20) - 1;
  static constexpr std::uint64_t phase_mask = std::uint64_t(7) << 61;

  static MbarrierBits unpack(std::uint64_t bits) {
    MbarrierBits b;
    b.expected = std::uint32_t(bits & most_arrivals);
    b.pending = std::uint32_t(bits >> 20 & most_arrivals);
    b.bytes = std::int64_t(bits << 3) >> 43;
    b.phase = std::uint32_t(bits >> 61);
    return b;
  }
  std::uint64_t pack() const {
    return std::uint64_t(expected) | std::uint64_t(pending) << 20 | (std::uint64_t(bytes) & 0x1fffff) << 40 |
           std::uint64_t(phase & 7) << 61;
  }
  // Ends the phase when nothing is missing.
  bool advance() {
    if (pending || bytes) return false;
    pending = expected;
    ++phase;
    return true;
  }
};

} // namespace deadheat::device
