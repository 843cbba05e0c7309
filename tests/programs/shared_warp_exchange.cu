// Butterfly sum inside a warp through shared memory. The __syncwarp between writing and reading is missing: since Volta
// the lanes of a warp need not run in step.
#include "check.h"

constexpr int threads = 64;

__global__ void butterfly(const int* in, int* out) {
  __shared__ int s[threads];
  unsigned t = threadIdx.x;
  int sum = in[t];
#pragma unroll 1
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    s[t] = sum;  // @A
#ifndef RACY
    __syncwarp();
#endif
    sum += s[t ^ distance];  // @B
    __syncwarp();
  }
  out[t] = sum;
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  butterfly<<<1, threads>>>(in, out);
  report(out, threads);
}
