// Hillis-Steele scan in place: every round reads a neighbour's sum, then writes its own. The barrier between the two is
// missing, so that a neighbour's sum may be the next round's.
#include "check.h"

constexpr int threads = 64;

__global__ void scan(const int* in, int* out) {
  __shared__ int s[threads];
  unsigned t = threadIdx.x;
  int mine = in[t];
  s[t] = mine;
  __syncthreads();
#pragma unroll 1
  for (unsigned distance = 1; distance < threads; distance *= 2) {
    if (t >= distance) mine += s[t - distance];  // @A
#ifndef RACY
    __syncthreads();
#endif
    s[t] = mine;  // @B
    __syncthreads();
  }
  out[t] = mine;
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  scan<<<1, threads>>>(in, out);
  report(out, threads);
}
