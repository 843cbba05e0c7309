// Two buffers, filled by cp.async one step ahead of the sums. Without the barrier behind a sum, a warp that is ahead
// refills the buffer that another one still reads: every copy is waited for, but one is issued too early.
#include <cuda_pipeline.h>

#include "check.h"

constexpr int threads = 64, steps = 6;

__global__ void mirror_sums(const int* in, int* out) {
  __shared__ int s[2][threads];
  unsigned t = threadIdx.x;
  int sum = 0;
  __pipeline_memcpy_async(&s[0][t], &in[t], sizeof(int));
  __pipeline_commit();
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) {
    if (step + 1 < steps) __pipeline_memcpy_async(&s[(step + 1) % 2][t], &in[(step + 1) * threads + t], sizeof(int));  // @A
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    sum += (step + 1) * s[step % 2][threads - 1 - t];  // @B
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
