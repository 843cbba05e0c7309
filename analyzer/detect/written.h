// What two writes of the same bytes wrote: the same, or not.
//
// Thread-safety: none is needed.
#pragma once

#include <optional>

#include "analyzer/detect/shadow.h"
#include "analyzer/detect/sides.h"
#include "deadheat/trace.h"

namespace deadheat::detect {

// The 4 bytes that a set writes over and over, as they lie at addresses that are multiples of 4. Nothing: its elements
// do not lie at multiples of their size, as a right program's do (CUDA driver API, cuMemsetD32 and the like).
std::optional<std::uint32_t> word_of(const trace::Set& set);

// Two writes that overlap in these bytes. Nothing: the trace does not tell.
std::optional<bool> wrote_the_same(const MemoryAccess& a, const Place& place_a, const MemoryAccess& b,
                                   const Place& place_b, std::uint64_t address, std::uint64_t bytes);

} // namespace deadheat::detect
