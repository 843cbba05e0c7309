// wgmma.mma_async, each form in a kernel of its own that one warpgroup a block runs: by the engine and, once, by a GPU,
// whose results are kept as hashes (data/engine_gpu_warpgroups.txt). engine_warpgroup_reference.cpp makes the file.
//
// A kernel takes two pointers, to operands and to results. A block's operands: what it copies to the beginning of its
// shared memory, then of each thread in turn a (where it is in registers), d and the metadata. Its results: each
// thread's d. Shared memory is full of elements, so that descriptors may say what they like: whatever is read shows.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine_matrix.h"

namespace deadheat::engine {

struct Descriptor { // bytes, but for swizzle (the descriptor's field) and base offset
  std::uint32_t start = 0, leading = 0, stride = 0;
  unsigned swizzle = 0, base = 0;
  std::uint64_t bits() const; // of a matrix at `start` from address 0
};

struct WarpgroupCase {
  std::string code; // the instruction, for people: with the descriptors that make the case
  std::string opcode;
  unsigned n = 8, trials = 0;
  Element a = Element::f16, b = Element::f16, d = Element::f32;
  Descriptor a_at, b_at;
  bool a_registers = false, sparse = false, scale_d = true;
  unsigned selector = 0;
  std::string immediates; // behind scale-d
  unsigned shared_bytes = 0, b_begins = 0; // before, elements of a; from there on of b
  unsigned sums() const { return d == Element::f16 ? n / 4 : n / 2; } // words of a thread
  unsigned thread_words() const { return (a_registers ? 4 : 0) + sums() + (sparse ? 1 : 0); }
  unsigned input_words() const { return shared_bytes / 4 + 128 * thread_words(); }
};

std::vector<WarpgroupCase> all_warpgroup_cases();
// Kernels warpgroup_0 …
std::string warpgroup_module(const std::vector<WarpgroupCase>& cases);
std::vector<std::uint32_t> warpgroup_operands(const WarpgroupCase& c); // of all trials
std::uint64_t hash_words(const std::vector<std::uint32_t>& words);

} // namespace deadheat::engine
