// Warp-synchronous reduction without volatile and without __syncwarp.
#include "check.h"

__global__ void reduce(const int* in, int* out) {
  __shared__ int s[64];
  unsigned lane = threadIdx.x;
  s[lane] = in[lane];
  s[lane + 32] = in[lane + 32];
  __syncwarp();
#pragma unroll 1
  for (unsigned half = 32; half > 0; half /= 2) {
    if (lane < half) s[lane] += s[lane + half];  // @A
#ifndef RACY
    __syncwarp();
#endif
  }
  if (lane == 0) out[0] = s[0];
}

int main() {
  int* in = to_device(numbers(64));
  int* out = zeros<int>(1);
  reduce<<<1, 32>>>(in, out);
  report(out, 1);
}
