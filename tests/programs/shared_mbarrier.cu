// All threads arrive at an mbarrier after writing. Whoever does not wait for the phase may not read.
#include <cuda_awbarrier_primitives.h>

#include "check.h"

constexpr int threads = 64;

__global__ void reverse(const int* in, int* out) {
  __shared__ __mbarrier_t barrier;
  __shared__ int s[threads];
  unsigned t = threadIdx.x;
  if (t == 0) __mbarrier_init(&barrier, threads);
  __syncthreads();
  s[t] = in[t];  // @A
  __mbarrier_token_t token = __mbarrier_arrive(&barrier);
#ifndef RACY
  while (!__mbarrier_test_wait(&barrier, token)) {
  }
#endif
  out[t] = s[threads - 1 - t];  // @B
  while (!__mbarrier_test_wait(&barrier, token)) {
  }
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  reverse<<<1, threads>>>(in, out);
  report(out, threads);
}
