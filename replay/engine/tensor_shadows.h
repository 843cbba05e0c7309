// Shadows (shadow.h) of matrix instructions, whose registers are spread over a warp (tensor.h).
//
// Every lane has a table in its frame that says which of its words carry shadows; the machine computes those of the
// results when the lanes have met and the results are there. A result's shadow is the sum of products in double; one
// rounding counts for all of an instruction's additions, since the hardware adds a block of products exactly but for
// what it cuts off (tensor_sums.h): of float results a cut. Of integers, of 4- and 8-bit floats and of mma.m8n8k4 with
// f16, results start from their values.
//
// Thread-safety: as Shadows.
#pragma once

#include <array>
#include <cstdint>

#include "replay/engine/abi.h"
#include "replay/engine/shadow.h"
#include "replay/engine/tensor.h"

namespace deadheat::engine {

inline constexpr unsigned most_piece_words = 8; // that a lane loads or stores

// RegisterShadows by address, or 0. Of registers of 64 bits the first of their two words has it.
struct TensorShadowTable {
  std::uint64_t where = 0; // function and statement
  std::uint64_t in[max_tensor_words] = {};
  std::uint64_t out[max_tensor_results] = {};
  RegisterShadow piece[most_piece_words]; // of what a lane loads from memory, or is to store
};
inline constexpr unsigned tensor_table_argument = 19; // of ThreadContext::arg: the table's address

// Of lanes that take part; `results` as run_tensor left them.
void run_tensor_shadows(std::uint64_t code, const std::array<ThreadContext*, tensor_lanes>& lanes);

} // namespace deadheat::engine
