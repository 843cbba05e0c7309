// What matrix instructions compute: sums of products as an H200 adds them.
//
// Found by experiment, and kept by tests/unit/data/engine_gpu_matrices.txt (96 products of every instruction):
//  - f16, bf16, tf32: products are exact. All products of a block and the accumulator are shifted to the largest
//    exponent among them (a product's is the sum of its factors', not normalized; zeros have none), cut off (toward
//    zero) below 2^-25 of it, and added exactly. The sum is cut off to float, or rounded to nearest for an f16
//    accumulator. A sum that vanishes is +0; one that overflows is infinite. A block is all of k, but 4 products in
//    wmma of tf32. wmma adds in float if c or d is float.
//  - f64: one fma after another, by ascending k, in the given rounding.
//  - e4m3, e5m2: turned into f16, which is exact; two blocks of half of k without the accumulator, which an addition in
//    its type adds.
//  - A sparse a: as of a matrix of half of k, of the stored elements and those of b that they meet.
//  - f16 in mma.m8n8k4: float fmas by ascending k, then the accumulator; with an f16 accumulator the products of each
//    half of k apart.
//  - integers: exact. They wrap; with .satfinite they are clamped once.
//  - NaN: 0x7fffffff, 0x7fff; of f64 0xfff8000000000000, as elsewhere in the engine (an H200 keeps payloads).
//
// Thread-safety: pure functions; MXCSR is restored.
#pragma once

#include <cstdint>

#include "replay/engine/tensor.h"

namespace deadheat::engine {

// d = a * b + c. Elements as stored, in the low bits: a by rows, b by columns, c and d by rows.
void multiply_matrices(const TensorOp& op, const std::uint64_t* a, const std::uint64_t* b, const std::uint64_t* c,
                       std::uint64_t* d);

} // namespace deadheat::engine
