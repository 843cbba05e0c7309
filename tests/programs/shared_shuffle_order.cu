// A shuffle is a rendezvous of the lanes, but it orders no memory.
#include "check.h"

__global__ void reverse(const int* in, int* out) {
  __shared__ int s[32];
  unsigned lane = threadIdx.x;
  int value = in[lane];
  s[lane] = value;  // @A
#ifndef RACY
  __syncwarp();
#endif
  int first = __shfl_sync(0xffffffffu, value, 0);
  out[lane] = s[31 - lane] + first;  // @B
}

int main() {
  int* in = to_device(numbers(32));
  int* out = zeros<int>(32);
  reverse<<<1, 32>>>(in, out);
  report(out, 32);
}
