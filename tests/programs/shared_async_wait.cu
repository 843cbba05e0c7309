// cp.async into shared memory. There is a barrier before the read, but nobody waited for the copies.
#include <cuda_pipeline.h>

#include "check.h"

constexpr int threads = 64;

__global__ void reverse(const int* in, int* out) {
  __shared__ int s[threads];
  unsigned t = threadIdx.x;
  __pipeline_memcpy_async(&s[t], &in[t], sizeof(int));  // @A
  __pipeline_commit();
#ifndef RACY
  __pipeline_wait_prior(0);
#endif
  __syncthreads();
  out[t] = s[threads - 1 - t];  // @B
  __pipeline_wait_prior(0);
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  reverse<<<1, threads>>>(in, out);
  report(out, threads);
}
