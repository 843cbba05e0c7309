// Each half of the warp synchronizes with itself, then reads what the other half wrote.
#include "check.h"

__global__ void reverse(const int* in, int* out) {
  __shared__ int s[32];
  unsigned lane = threadIdx.x;
  s[lane] = in[lane];  // @A
#ifdef RACY
  __syncwarp(lane < 16 ? 0x0000ffffu : 0xffff0000u);
#else
  __syncwarp(0xffffffffu);
#endif
  out[lane] = s[31 - lane];  // @B
}

int main() {
  int* in = to_device(numbers(32));
  int* out = zeros<int>(32);
  reverse<<<1, 32>>>(in, out);
  report(out, 32);
}
