// Blocks add their sums to a total without an atomic.
#include "check.h"

constexpr int blocks = 6;

__global__ void sum(const int* in, int* total) {
  int value = in[blockIdx.x * 32 + threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if (threadIdx.x != 0) return;
#ifdef RACY
  total[0] += value;  // @A
#else
  atomicAdd(total, value);
#endif
}

int main() {
  int* in = to_device(numbers(blocks * 32));
  int* total = zeros<int>(1);
  sum<<<blocks, 32>>>(in, total);
  report(total, 1);
}
