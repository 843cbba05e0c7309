// Undefined bits in matrix instructions: what the machine does with those of a warp's lanes when all have met.
//
// Thread-safety: none; the launch's.
#pragma once

#include <array>
#include <cstdint>

#include "replay/engine/abi.h"
#include "replay/engine/tensor.h"

namespace deadheat::engine {

// A lane's table, in its frame: the undefined bits of the words that tensor.h calls in and out.
struct TensorUndefined {
  std::uint32_t in[max_tensor_words] = {}, out[max_tensor_results] = {};
};
inline constexpr unsigned tensor_undefined_argument = 20; // of ThreadContext::arg: the table's address

// Fills in the tables' `out` and, of lanes that get undefined bits and have none, the load that they come from. Lanes
// that take no part are null.
void run_tensor_undefined(std::uint64_t code, const std::array<ThreadContext*, tensor_lanes>& lanes);

} // namespace deadheat::engine
