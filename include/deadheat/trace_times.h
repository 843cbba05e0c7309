// When operations ran on a device, as it measured: a chunk of a log (deadheat/trace_format.h) with one entry an
// operation, in any order. Nothing but reports reads them.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>

#include "deadheat/trace_format.h"

namespace deadheat::trace {

inline constexpr ChunkKind times_chunk{7};

struct OperationTime {
  std::uint32_t operation = 0, reserved = 0;
  std::uint64_t begin = 0, end = 0;  // nanoseconds of one clock for the whole log
};
static_assert(sizeof(OperationTime) == 24);

}  // namespace deadheat::trace
