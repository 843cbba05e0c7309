// Histogram with one table a block. The barrier between zeroing the table and counting into it is missing.
#include "check.h"

constexpr int threads = 96, bins = 16;

__global__ void histogram(const int* in, int* out) {
  __shared__ int table[bins];
  unsigned t = threadIdx.x;
  if (t < bins) table[t] = 0;  // @A
#ifndef RACY
  __syncthreads();
#endif
  atomicAdd(&table[in[blockIdx.x * threads + t] % bins], 1);  // @B
  __syncthreads();
  if (t < bins) out[blockIdx.x * bins + t] = table[t];
}

int main() {
  int* in = to_device(numbers(2 * threads));
  int* out = zeros<int>(2 * bins);
  histogram<<<2, threads>>>(in, out);
  report(out, 2 * bins);
}
