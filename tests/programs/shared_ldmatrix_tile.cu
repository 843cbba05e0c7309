// A matrix product by mma.sync, its fragments loaded by ldmatrix: of a as it lies, of b transposed. Two warps share the
// tiles and overwrite them in each step; the barrier that ends a step is missing, so the faster one writes into what
// the slower still loads.
#include <cuda_bf16.h>

#include "check.h"

constexpr int m = 32, n = 16, k = 64, step = 16;

__device__ unsigned address_of(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// Warp w computes rows 16·w to 16·w + 15 of c = a * b.
__global__ void multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  __shared__ __align__(16) __nv_bfloat16 as[m][step], bs[step][n];
  unsigned t = threadIdx.x, warp = t / 32, lane = t % 32;
  float sums[2][4] = {};
#pragma unroll 1
  for (int first = 0; first < k; first += step) {
    for (unsigned i = t; i < m * step; i += 64) as[i / step][i % step] = a[i / step * k + first + i % step];  // @A
    for (unsigned i = t; i < step * n; i += 64) bs[i / n][i % n] = b[(first + i / n) * n + i % n];            // @B
    __syncthreads();
    unsigned x[4], y[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address_of(&as[warp * 16 + lane % 16][lane / 16 * 8])));  // @C
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3])
                 : "r"(address_of(&bs[lane % 16][lane / 16 * 8])));  // @D
#pragma unroll
    for (int half = 0; half < 2; ++half)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(sums[half][0]), "+f"(sums[half][1]), "+f"(sums[half][2]), "+f"(sums[half][3])
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * half]), "r"(y[2 * half + 1]));
#ifndef RACY
    __syncthreads();
#endif
  }
  for (int half = 0; half < 2; ++half)
    for (int e = 0; e < 4; ++e)
      c[(warp * 16 + lane / 4 + e / 2 * 8) * n + half * 8 + lane % 4 * 2 + e % 2] = sums[half][e];
}

int main() {
  std::vector<int> left = numbers(m * k), right = numbers(k * n + 1);
  std::vector<__nv_bfloat16> x, y;
  for (int i : left) x.push_back(__float2bfloat16(float(i % 31)));
  for (int i = 0; i < k * n; ++i) y.push_back(__float2bfloat16(float(right[i + 1] % 29)));
  __nv_bfloat16 *a = to_device(x), *b = to_device(y);
  float* c = zeros<float>(m * n);
  multiply<<<1, 64>>>(a, b, c);
  std::vector<float> product = to_host(c, m * n);
  print_checksum(product.data(), product.size());
  int wrong = 0;  // sums of small integers are exact
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      int sum = 0;
      for (int l = 0; l < k; ++l) sum += left[i * k + l] % 31 * (right[l * n + j + 1] % 29);
      wrong += product[i * n + j] != float(sum);
    }
  std::printf("wrong %d\n", wrong);
}
