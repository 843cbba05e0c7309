// Matrix instructions (mma, wmma, ldmatrix, stmatrix, movmatrix), each in a kernel of its own that one warp a block
// runs: by the engine and, once, by a GPU, whose results are kept as hashes (data/engine_gpu_matrices.txt).
// engine_matrix_reference.cpp makes the file.
//
// A kernel takes two pointers, to operands and to results: matrix_trials blocks, each with input_words and
// output_words 32-bit words of its own. What a lane or the warp does with them is the case's.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deadheat::engine {

inline constexpr unsigned matrix_trials = 96;

// How the bits of a matrix's elements are generated.
// `chosen` and `chosen_half` are the metadata of sparse matrices: two of four, one of two.
enum class Element : std::uint8_t { f16, bf16, tf32, f32, f64, e4m3, e5m2, bits, chosen, chosen_half };

struct MatrixInput {
  Element element = Element::bits;
  unsigned words = 0;         // of the block
  bool accumulator = false;   // added to products
};

struct MatrixCase {
  std::string code;           // the instructions, for people: with the layouts and types that make the case
  std::string kernel;         // the body of the kernel
  std::vector<MatrixInput> inputs;
  unsigned output_words = 0;  // of the block
  Element result = Element::bits;  // all NaNs of it are one
};

std::vector<MatrixCase> all_matrix_cases();
// Kernels matrix_0 …
std::string matrix_module(const std::vector<MatrixCase>& cases);
// All operands: matrix_trials times the inputs, one after the other.
std::vector<std::uint32_t> matrix_operands(const MatrixCase& c);
std::uint64_t hash_matrices(const MatrixCase& c, std::vector<std::uint32_t> results);

unsigned element_width(Element e); // bits
// One element of what kind the trial is, from a random number; of accumulators with the range of products.
std::uint64_t element_bits(Element e, bool accumulator, unsigned trial, std::uint64_t random);
// Appends so many words of elements, made from `seed`.
void append_elements(std::vector<std::uint32_t>& to, Element e, bool accumulator, unsigned words, unsigned trial,
                     std::uint64_t seed);

}  // namespace deadheat::engine
