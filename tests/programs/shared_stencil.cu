// Three-point stencil. The barrier after loading the block's elements and its two halo cells is missing; the left halo
// cell is read by the thread that loads it, the right one is not.
#include "check.h"

constexpr int threads = 64;

__global__ void stencil(const int* in, int* out) {
  __shared__ int s[threads + 2];
  unsigned t = threadIdx.x, first = blockIdx.x * threads;
  s[t + 1] = in[first + t + 1];                                     // @A
  if (t < 2) s[t * (threads + 1)] = in[first + t * (threads + 1)];  // @B
#ifndef RACY
  __syncthreads();
#endif
  int sum = 0;
#pragma unroll 1
  for (unsigned k = 0; k < 3; ++k) sum += s[t + k];  // @C
  out[first + t] = sum;
}

int main() {
  int* in = to_device(numbers(2 * threads + 2));
  int* out = zeros<int>(2 * threads);
  stencil<<<2, threads>>>(in, out);
  report(out, 2 * threads);
}
