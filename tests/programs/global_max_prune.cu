// An atomic maximum behind a plain read that spares the atomic where it cannot matter. The read may be old, never
// wrong.
#include "check.h"

constexpr int threads = 64, blocks = 2;

__global__ void maximum(const int* in, int* best) {
  int value = in[blockIdx.x * threads + threadIdx.x];
#ifdef RACY
  if (value <= best[0]) return;  // @A
#endif
  atomicMax(best, value);  // @B
}

int main() {
  int* in = to_device(numbers(blocks * threads));
  int* best = zeros<int>(1);
  maximum<<<blocks, threads>>>(in, best);
  report(best, 1);
}
