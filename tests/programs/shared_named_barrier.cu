// Two producer warps, two consumer warps, each pair with a barrier of its own. The wrong barrier number pairs producer
// with producer.
#include "check.h"

constexpr int threads = 128;

__global__ void pass(const int* in, int* out) {
  __shared__ int s[threads / 2];
  unsigned t = threadIdx.x, warp = t / 32;
#ifdef RACY
  unsigned barrier = 1 + warp / 2;
#else
  unsigned barrier = 1 + warp % 2;
#endif
  if (warp < 2) s[t] = in[t];  // @A
  asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory");
  if (warp >= 2) out[t - 64] = s[t - 64];  // @B
}

int main() {
  int* in = to_device(numbers(threads / 2));
  int* out = zeros<int>(threads / 2);
  pass<<<1, threads>>>(in, out);
  report(out, threads / 2);
}
