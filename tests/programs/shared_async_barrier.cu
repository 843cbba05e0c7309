// cp.async into shared memory. Every thread waits for its own copies; without a barrier it may not read the others'.
#include <cuda_pipeline.h>

#include "check.h"

constexpr int threads = 64;

__global__ void reverse(const int4* in, int4* out) {
  __shared__ int4 s[threads];
  unsigned t = threadIdx.x;
  __pipeline_memcpy_async(&s[t], &in[t], sizeof(int4));  // @A
  __pipeline_commit();
  __pipeline_wait_prior(0);
#ifndef RACY
  __syncthreads();
#endif
  out[t] = s[threads - 1 - t];  // @B
}

int main() {
  int* in = to_device(numbers(4 * threads));
  int* out = zeros<int>(4 * threads);
  reverse<<<1, threads>>>(reinterpret_cast<int4*>(in), reinterpret_cast<int4*>(out));
  report(out, 4 * threads);
}
