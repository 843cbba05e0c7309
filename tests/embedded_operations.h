// What both stand-ins for libcuda.so.1 over the embedded device (tests/hardware, tests/tracer) make of driver calls.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "deadheat/trace.h"

namespace deadheat::test {

inline constexpr std::uint64_t special_streams = 16; // a CUstream is the device's number and this; smaller: CU_STREAM_*

struct EmbeddedKernel { // what a CUfunction points to
  std::uint32_t module = 0;
  std::string name;
};

inline std::uint32_t number(const void* handle) { return std::uint32_t(reinterpret_cast<std::uint64_t>(handle)); }

inline bool on_device(std::uint64_t at) { return at >> 47 & 1; }

inline trace::Copy copy_of(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  using Direction = trace::Copy::Direction;
  trace::Copy copy;
  copy.destination = {to, 0, bytes, 1, 1, 0};
  copy.source = {from, 0, bytes, 1, 1, 0};
  copy.direction = on_device(from) ? (on_device(to) ? Direction::d2d : Direction::d2h)
                                   : (on_device(to) ? Direction::h2d : Direction::h2h);
  return copy;
}

inline trace::Set set_of(std::uint64_t at, std::uint32_t value, std::size_t count, unsigned element) {
  trace::Set set;
  set.destination = {at, 0, count * element, 1, 1, 0};
  set.value = value;
  set.element_bytes = std::uint8_t(element);
  return set;
}

} // namespace deadheat::test
