// A producer warp arrives at a barrier on which the consumer warp waits. Arriving before the write releases nothing.
#include "check.h"

__global__ void pass(const int* in, int* out) {
  __shared__ int s[32];
  unsigned lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
#ifdef RACY
    asm volatile("bar.arrive 1, 64;" ::: "memory");
    s[lane] = in[lane];  // @A
#else
    s[lane] = in[lane];
    asm volatile("bar.arrive 1, 64;" ::: "memory");
#endif
  } else {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[lane] = s[31 - lane];  // @B
  }
}

int main() {
  int* in = to_device(numbers(32));
  int* out = zeros<int>(32);
  pass<<<1, 64>>>(in, out);
  report(out, 32);
}
