// wgmma for the programs of this folder: bf16 products of 64 rows, 32 columns and 16 steps of k, from tiles in shared
// memory that need no swizzling. They are compiled for compute_90a. Sides of races that lie in these functions are
// named by the programs, not here.
#pragma once

#include <cuda_bf16.h>

#include <cstdio>
#include <vector>

#include "async.h"
#include "check.h"

constexpr int tile_m = 64, tile_n = 32, tile_k = 16, tile_sums = 16; // sums: of a thread
constexpr int a_tile = tile_m * tile_k, b_tile = tile_n * tile_k; // elements

// A matrix descriptor (PTX ISA 9.7.15.5.1.2.2): core matrices of 8 rows of 16 bytes, two beside each other along k.
__device__ inline unsigned long long matrix_at(const void* tile) {
  return (shared_address(tile) >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32;
}
__device__ inline void warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending>
__device__ inline void warpgroup_wait(float (&d)[tile_sums]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
  for (float& x : d) asm volatile("" : "+f"(x)::"memory"); // they change until then
}
__device__ inline void multiply(float (&d)[tile_sums], const void* a, const void* b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(matrix_at(a)), "l"(matrix_at(b))
      : "memory");
}
// c has 64 rows of 32.
__device__ inline void store_sums(float* c, const float (&d)[tile_sums]) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < tile_sums; ++i)
    c[(warp * 16 + lane / 4 + i / 2 % 2 * 8) * tile_n + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}

// ---- the host's side: c = a * b over so many steps of k

struct Factors {
  int steps;
  std::vector<int> a, b; // rows of a, columns of b
  explicit Factors(int k_steps) : steps(k_steps), a(numbers(tile_m * steps * tile_k)), b(numbers(b_tile * steps + 5)) {
    for (int& x : a) x %= 13;
    for (int& x : b) x %= 11;
    b.erase(b.begin(), b.begin() + 5);
  }
  // Step by step the tile of a and that of b, as the descriptors have them.
  std::vector<__nv_bfloat16> tiles() const {
    std::vector<__nv_bfloat16> all;
    for (int step = 0; step < steps; ++step) {
      append(all, a, tile_m, step);
      append(all, b, tile_n, step);
    }
    return all;
  }
  void append(std::vector<__nv_bfloat16>& all, const std::vector<int>& rows, int count, int step) const {
    for (int i = 0; i < count * tile_k; ++i) { // 64 elements a core matrix
      const int row = i / 128 * 8 + i % 64 / 8, k = i / 64 % 2 * 8 + i % 8;
      all.push_back(__float2bfloat16(float(rows[row * steps * tile_k + step * tile_k + k])));
    }
  }
  // Prints how many are wrong: sums of small integers are exact.
  void compare(const std::vector<float>& c) const {
    int wrong = 0;
    for (int i = 0; i < tile_m; ++i)
      for (int j = 0; j < tile_n; ++j) {
        int sum = 0;
        for (int k = 0; k < steps * tile_k; ++k) sum += a[i * steps * tile_k + k] * b[j * steps * tile_k + k];
        wrong += c[i * tile_n + j] != float(sum);
      }
    print_checksum(c.data(), c.size());
    std::printf("wrong %d\n", wrong);
  }
};
