// The fuzz targets of tracer/ptx as functions, for libFuzzer and for the unit tests that run them over deterministic
// mutations. Each takes any bytes, returns 0, and aborts when an invariant breaks.
//
// Thread-safety: each may run on any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deadheat {

int fuzz_ptx(const std::uint8_t* data, std::size_t size);
int fuzz_fatbin(const std::uint8_t* data, std::size_t size);

}  // namespace deadheat
