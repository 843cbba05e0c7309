// What wgmma reads of shared memory: a matrix descriptor tells where the matrix lies (PTX ISA 9.7.15.5.1, "Shared
// Memory Matrix Layout" and "Matrix Descriptor Format").
//
// Rows are those of A (M) or columns of B (N). A matrix is stored K-major (rows lie beside each other along K, in
// 16-byte units of core matrices of 8 rows) or, where the instruction transposes it, MN-major. Swizzled layouts permute
// 16-byte units by the address: bits 4 and up are XORed with bits 7 and up, less the base offset. What the manual
// leaves open of that (rows longer than an atom, what the base offset does) is an H100's
// (tests/unit/engine_warpgroup.h).
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace deadheat::ptx {

struct MatrixDescriptor {
  std::uint32_t start = 0, leading = 0, stride = 0; // bytes
  unsigned swizzle_bits = 0; // 0: none; 1, 2, 3: of 32, 64, 128 bytes
  std::uint32_t base_offset = 0; // 128 bytes each: how far the pattern's repetitions lie from aligned places
};
MatrixDescriptor matrix_descriptor(std::uint64_t bits);

struct MatrixShape { // of an instruction
  std::uint32_t n = 0; // M is 64
  std::uint32_t a_row_bytes = 0, b_row_bytes = 0; // along K; of sparse A what is stored
  std::uint32_t element_bytes = 2; // of b, and of a
};
// From an opcode such as wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16; n is 0 where it is not understood.
MatrixShape matrix_shape(std::string_view opcode);

// Where 16 bytes of a matrix lie: of row `outer` the bytes from 16 * `inner` on; of a transposed matrix, of the rows
// from 16 / element_bytes * `outer` on the elements at `inner` along K.
std::uint32_t unit_address(const MatrixDescriptor& matrix, bool transposed, std::uint32_t outer, std::uint32_t inner);

struct MatrixStretch {
  std::uint32_t address = 0, bytes = 0;
};
// Rows [from, to) of the matrix, each of so many bytes, sorted, without gaps or overlaps that could be joined.
std::vector<MatrixStretch> stretches_of(const MatrixDescriptor& matrix, std::uint32_t from, std::uint32_t to,
                                        std::uint32_t row_bytes, bool transposed, std::uint32_t element_bytes);

// What the warp reads that is the `quarter`th of its warpgroup: its rows of a, where that lies in memory, and all of b,
// which is read once, for the first. `a` is null where it lies in registers.
std::vector<MatrixStretch> warp_reads(const MatrixShape& shape, const std::uint64_t* a, bool a_transposed,
                                      std::uint64_t b, bool b_transposed, unsigned quarter);

} // namespace deadheat::ptx
