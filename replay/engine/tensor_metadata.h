// Metadata of sparse matrices a, as mma.sp and wgmma.mma_async.sp take them from a warp's lanes.
//
// Of each chunk of a row of a, which elements are stored: two fields of 2 bits a chunk, from the lowest bits on. Chunks
// are 4 elements; of tf32 2, named by halves; of 4-bit integers 8, named by pairs (PTX ISA 9.7.14.6.1, 9.7.15.6.1). A
// row of 16 bits of metadata shares a word with the row 8 below it. Of the lanes of a row, the selector's lane, or pair
// of lanes, give metadata, the columns' first half before the second; where rows need whole words, upper and lower row
// have lanes of their own (figures 117 to 142).
//
// Thread-safety: plain values.
#pragma once

#include <array>
#include <cstdint>

#include "replay/engine/tensor.h"

namespace deadheat::engine {

class Metadata {
 public:
  // Of products of 16 rows of k elements; a word of each lane.
  Metadata(TensorType a, unsigned k, unsigned selector, const std::array<std::uint32_t, tensor_lanes>& words)
      : words_(words), k_(k), selector_(selector), element_bits_(tensor_bits(a)) {}
  // Where the stored element `n` of a row belongs.
  unsigned column(unsigned row, unsigned n) const {
    if (element_bits_ == 32) return n * 2 + (field(row, n * 4, 4) >> 1 & 1);
    const unsigned unit = element_bits_ == 4 ? 2 : 1, stored = n / unit;
    return (stored / 2 * 4 + field(row, stored * 2, 2)) * unit + n % unit;
  }

 private:
  unsigned field(unsigned row, unsigned bit, unsigned count) const {
    const unsigned upper = row / 8;
    const unsigned row_bits = element_bits_ == 32 ? k_ * 2 : element_bits_ == 4 ? k_ / 2 : k_;
    unsigned lane = selector_, shift = bit;
    if (element_bits_ >= 16) {
      if (row_bits > 16) lane = selector_ * 2 + bit / 16;
      shift = bit % 16 + 16 * upper;
    } else {
      lane = (row_bits > 32 ? bit / 32 : selector_) * 2 + upper;
      shift = bit % 32;
    }
    return words_[row % 8 * 4 + lane % 4] >> shift & ((1u << count) - 1);
  }

  std::array<std::uint32_t, tensor_lanes> words_;
  unsigned k_, selector_, element_bits_;
};

} // namespace deadheat::engine
