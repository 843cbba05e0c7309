// Matrix instructions: what one is, where its elements lie in the registers of a warp, and what it computes. The code
// generator makes the descriptions (lower_tensor.cpp), the machine runs them when all lanes have met.
//
// Fragments (PTX ISA 9.7.14.5). A fragment is a lane's share of a matrix: an array of elements, packed into 32-bit
// words without gaps. It consists of atoms of 8 rows by 4 * per_lane columns; in an atom, lane l holds per_lane
// neighbouring elements of row l / 4, beginning at column l % 4 * per_lane. Rows and columns are those of a, of the
// transposed b, and of c and d; atoms are ordered as `Fragment` says. The manual leaves the fragments of wmma open:
// these are an H200's, where they are the fragments of the mma instructions that it runs in their place.
//
// Thread-safety: pure functions. No exceptions.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace deadheat::engine {

enum class TensorType : std::uint8_t { f16, bf16, tf32, f32, f64, e4m3, e5m2, s8, u8, s4, u4, b1, s32 };
unsigned tensor_bits(TensorType type);

// Which collective operation. The loads and the store say how rows, read or to be written by single lanes, and
// fragments belong together; the accesses are those lanes' own.
enum class TensorKind : std::uint8_t { mma, wmma, load_a, load_b, load_c, store_d, ldmatrix, stmatrix, movmatrix };

// Rows of 16 bytes that ldmatrix and stmatrix move, and the matrices that they make: 8 rows of 16-bit elements; of
// bytes, each from a byte, from 6 bits (12 bytes a row) or from 4 (8 bytes a row) (PTX ISA 9.7.14.5.15, 9.7.14.5.16).
enum class RowFormat : std::uint8_t { b16, b8, b6, b4 };

struct TensorOp {
  TensorKind kind = TensorKind::mma;
  std::uint8_t m = 0, n = 0;
  std::uint16_t k = 0;
  TensorType a = TensorType::f16, b = TensorType::f16, c = TensorType::f16, d = TensorType::f16;
  bool a_col = false, b_col = false;  // layouts, where fragments depend on them: mma.m8n8k4 of f16
  bool col = false;                   // of the matrix in memory
  bool satfinite = false, bit_and = false, trans = false;
  std::uint8_t rounding = 0;          // numeric::Rounding, of f64
  std::uint8_t count = 0;             // words of a lane of ldmatrix and stmatrix: 8 lanes give addresses for each
  bool sparse = false;                // half of a's elements are stored; metadata says where they belong
  std::uint8_t selector = 0;          // of sparse products: which lanes give metadata
  RowFormat rows = RowFormat::b16;    // of ldmatrix and stmatrix

  std::uint64_t code() const;
  static TensorOp from(std::uint64_t code);
};

// 32-bit words of a lane's fragment, as the instruction's operand lists count them.
unsigned fragment_words(const TensorOp& op, char matrix);

// Of products: where each element of the lanes' fragments lies in the matrix, lane after lane: a by rows, b by columns,
// c and d by rows. Empty for mma.m8n8k4 of f16.
std::vector<std::uint32_t> fragment_places(const TensorOp& op, char matrix);

// Of loads and stores: the matrix in memory, whose lines (rows, or columns if .col) lie `stride` apart. Each lane
// accesses one piece of a line: which, the manual leaves open (9.7.14.4.3).
struct MatrixLines {
  unsigned line_bytes = 0; // without what lies between lines
  unsigned piece_bytes = 0; // 4 to 32; lane l has the l-th
  unsigned element_bits = 0;
};
MatrixLines matrix_lines(const TensorOp& op);

inline constexpr unsigned tensor_lanes = 32;
inline constexpr unsigned max_tensor_words = 32, max_tensor_results = 16; // of a lane

// A warp's words. In: operands in the order a, b, c; of loads the piece, of ldmatrix the row that a lane gave the
// address of (4 words), of stores the fragment. Out: the result's fragment; of stores the piece, of stmatrix the row.
// Lanes that take no part are zeros.
using WarpWords = std::array<std::array<std::uint32_t, max_tensor_words>, tensor_lanes>;
void run_tensor(const TensorOp& op, const WarpWords& in, WarpWords& out);
// The same on the arguments and results of threads at WarpOp::tensor: `arguments(lane)` is ThreadContext::arg of a lane
// that takes part, else null; so is `results(lane)`.
template <typename Arguments, typename Results>
void run_tensor(std::uint64_t code, Arguments&& arguments, Results&& results) {
  WarpWords in{}, out{};
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    if (const std::uint64_t* words = arguments(lane)) std::memcpy(in[lane].data(), words + 3, 4 * max_tensor_words);
  run_tensor(TensorOp::from(code), in, out);
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    if (std::uint64_t* words = results(lane)) std::memcpy(words, out[lane].data(), 4 * max_tensor_results);
}

} // namespace deadheat::engine
