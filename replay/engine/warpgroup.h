// wgmma.mma_async: what one is, what of it a warp does, and where its operands lie (PTX ISA 9.7.15.5, 9.7.15.6).
//
// A warpgroup's product has 64 rows, 16 of each warp: so each warp computes its own. Its fragments are those of mma
// with 16 rows: of a, where it is in registers, of the same k; of d, of 8 columns after 8 (figures 146 to 155). What is
// read of shared memory is in two steps, so that it can be read at another time than it is asked for: first all units
// of 16 bytes that the descriptors name (tracer/ptx/matrix_descriptor.h), then the product.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "deadheat/ptx.h"
#include "replay/engine/tensor.h"

namespace deadheat::engine {

struct WarpgroupOp {
  std::uint16_t n = 8, k = 16; // m is 64
  TensorType a = TensorType::f16, b = TensorType::f16, d = TensorType::f32;
  bool a_registers = false, sparse = false;
  std::uint8_t selector = 0; // of sparse products: which lanes give metadata
  bool a_transposed = false, b_transposed = false; // M-major, N-major
  bool a_negated = false, b_negated = false;
  bool satfinite = false;

  std::uint64_t code() const;
  static WarpgroupOp from(std::uint64_t code);

  unsigned stored() const { return sparse ? k / 2u : k; } // elements of a row of a
  unsigned a_row_bytes() const { return stored() * tensor_bits(a) / 8; }
  unsigned b_row_bytes() const { return k * tensor_bits(b) / 8; }
  unsigned sum_words() const { return d == TensorType::f16 ? n / 4u : n / 2u; } // of a lane
};

// Fills in `op`; why it cannot run otherwise.
std::string describe_warpgroup(const ptx::Instruction& instruction, WarpgroupOp& op);

inline constexpr unsigned warp_rows = 16, max_sum_words = 128, max_row_units = 4;

// What a lane gives and gets, in its frame; with the undefined bits of both (undefined.h), which are zeros elsewhere.
struct WarpgroupLane {
  std::array<std::uint32_t, max_sum_words> sums{};
  std::array<std::uint32_t, 4> a{};
  std::array<std::uint32_t, max_sum_words> open_sums{};
  std::array<std::uint32_t, 4> open_a{};
};
// ThreadContext::arg at WarpOp::warpgroup, behind the member mask.
enum WarpgroupArgument : unsigned {
  warpgroup_code = 2,
  warpgroup_lane = 3, // host address of the WarpgroupLane
  warpgroup_a = 4, // descriptors
  warpgroup_b = 5,
  warpgroup_metadata = 6,
  warpgroup_adds = 7 // scale-d: 0 ignores the sums that were there
};

// Rows of a and columns of b, one behind the other, and which hold undefined bits; of those in memory where the first
// lie, as generic addresses: 0: nowhere.
struct WarpgroupOperands {
  std::vector<std::uint8_t> a, b;
  std::array<bool, warp_rows> a_open{};
  std::vector<bool> b_open;
  std::uint64_t open = 0;
};
// Where the operand's units are in shared memory, as offsets: those of 16 rows of a (from `16 * warp` on), or all of b.
std::vector<std::uint32_t> units_of(const WarpgroupOp& op, char matrix, std::uint64_t descriptor, unsigned warp);
// Puts the unit of that number, 16 bytes, into its place; `open`: an undefined bit is in each of these bytes.
void place_unit(const WarpgroupOp& op, char matrix, std::size_t unit, const std::uint8_t* bytes, std::uint16_t open,
                WarpgroupOperands& to);
// Sizes of a and b, zeroed.
void clear_operands(const WarpgroupOp& op, WarpgroupOperands& operands);

// The warp's part: of each lane what WarpgroupLane has.
struct WarpgroupPart {
  std::array<WarpgroupLane*, tensor_lanes> lanes{};
  std::array<std::uint32_t, tensor_lanes> metadata{};
  bool adds = true;
};
// Rows of a from registers, where they are there.
void gather_rows(const WarpgroupOp& op, const WarpgroupPart& part, WarpgroupOperands& operands);
void run_warpgroup(const WarpgroupOp& op, const WarpgroupOperands& operands, const WarpgroupPart& part);
void run_warpgroup_undefined(const WarpgroupOp& op, const WarpgroupOperands& operands, const WarpgroupPart& part);

} // namespace deadheat::engine
