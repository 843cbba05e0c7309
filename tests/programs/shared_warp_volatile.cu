// Warp-synchronous reduction as it was written before Volta: volatile, and no __syncwarp. The accesses are strong, so
// the model calls it no data race, but nothing orders them either.
#include "check.h"

__global__ void reduce(const int* in, int* out) {
  __shared__ volatile int s[48];
  unsigned lane = threadIdx.x;
  int sum = in[lane];
  s[lane] = sum;
  if (lane < 16) s[lane + 32] = 0;
  __syncwarp();
#pragma unroll 1
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    sum += s[lane + distance];  // @A
#ifndef RACY
    __syncwarp();
#endif
    s[lane] = sum;  // @B
#ifndef RACY
    __syncwarp();
#endif
  }
  if (lane == 0) out[0] = sum;
}

int main() {
  int* in = to_device(numbers(32));
  int* out = zeros<int>(1);
  reduce<<<1, 32>>>(in, out);
  report(out, 1);
}
