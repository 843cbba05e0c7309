// Tree reduction. Without the barrier between its rounds, a round adds sums that the round before has yet to write.
#include "check.h"

constexpr int threads = 128;

__global__ void reduce(const int* in, int* out) {
  __shared__ int s[threads];
  unsigned t = threadIdx.x;
  s[t] = in[blockIdx.x * threads + t];
  __syncthreads();
#pragma unroll 1
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];  // @A
#ifndef RACY
    __syncthreads();
#endif
  }
  if (t == 0) out[blockIdx.x] = s[0];
}

int main() {
  int* in = to_device(numbers(2 * threads));
  int* out = zeros<int>(2);
  reduce<<<2, threads>>>(in, out);
  report(out, 2);
}
