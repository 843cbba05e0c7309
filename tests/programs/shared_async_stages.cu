// A pipeline of cp.async stages, one copy ahead of the sums. Waiting for all but two groups, where all but one is
// meant, leaves the stage that is read in flight.
#include <cuda_pipeline.h>

#include "check.h"

#ifdef RACY
constexpr int in_flight = 2;
#else
constexpr int in_flight = 1;
#endif
constexpr int threads = 64, stages = 3, steps = 8;

__global__ void mirror_sums(const int* in, int* out) {
  __shared__ int s[stages][threads];
  unsigned t = threadIdx.x;
  int sum = 0;
#pragma unroll 1
  for (unsigned step = 0; step <= steps; ++step) {
    if (step < steps) __pipeline_memcpy_async(&s[step % stages][t], &in[step * threads + t], sizeof(int));  // @A
    __pipeline_commit();
    if (step == 0) continue;
    __pipeline_wait_prior(in_flight);
    __syncthreads();
    sum += step * s[(step - 1) % stages][threads - 1 - t];  // @B
  }
  __pipeline_wait_prior(0);
  out[t] = sum;
}

int main() {
  int* in = to_device(numbers(threads * steps));
  int* out = zeros<int>(threads);
  mirror_sums<<<1, threads>>>(in, out);
  report(out, threads);
}
