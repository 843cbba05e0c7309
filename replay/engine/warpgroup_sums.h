// What wgmma.mma_async computes, 16 rows of it: as an H100 does, by whose results
// tests/unit/data/engine_gpu_warpgroups.txt keeps it.
//
//  - f16, bf16, tf32: as mma (tensor_sums.h), of all of k at once.
//  - e4m3, e5m2: all of k at once, too, but cut off below 2^-13 of the largest exponent (subnormal factors have the
//    least one); the sum is cut off to 13 bits of fraction, or rounded to nearest for f16.
//  - integers: exact; they wrap, or with .satfinite are clamped.
//  - A sparse a: as of a matrix of half of k, of the stored elements and those of b that they meet.
//
// The loops run over columns, for the compiler to make vectors of.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/engine/warpgroup.h"

namespace deadheat::engine {

// Rows of a and columns of b as stored; `met`: of sparse products, for each row and stored element its place in k;
// sums row by row, in and out (f16 in the low bits).
void multiply_warpgroup(const WarpgroupOp& op, const std::uint8_t* a, const std::uint8_t* b,
                        const std::vector<std::uint16_t>& met, bool adds, std::uint32_t* sums);

} // namespace deadheat::engine
