// Double buffering: while one buffer is read, the next is filled. The one barrier a step is missing.
#include "check.h"

constexpr int threads = 64, steps = 6;

__global__ void mirror_sums(const int* in, int* out) {
  __shared__ int buffer[2][threads];
  unsigned t = threadIdx.x;
  int sum = 0;
  buffer[0][t] = in[t];
  __syncthreads();
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) {
    if (step + 1 < steps) buffer[(step + 1) % 2][t] = in[(step + 1) * threads + t];  // @A
    sum += (step + 1) * buffer[step % 2][threads - 1 - t];                           // @B
#ifndef RACY
    __syncthreads();
#endif
  }
  out[t] = sum;
}

int main() {
  int* in = to_device(numbers(threads * steps));
  int* out = zeros<int>(threads);
  mirror_sums<<<1, threads>>>(in, out);
  report(out, threads);
}
