// The last block to finish adds up the blocks' sums. Without the fence before its ticket, a block's sum may arrive
// after the ticket that announces it.
#include "check.h"

constexpr int blocks = 6;

__global__ void sum(const int* in, int* partial, unsigned* finished, int* total) {
  int value = in[blockIdx.x * 32 + threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if (threadIdx.x != 0) return;
  partial[blockIdx.x] = value;  // @A
#ifndef RACY
  __threadfence();
#endif
  if (atomicAdd(finished, 1u) != gridDim.x - 1) return;
  __threadfence();
  int all = 0;
#pragma unroll 1
  for (unsigned b = 0; b < gridDim.x; ++b) all += partial[b];  // @B
  total[0] = all;
}

int main() {
  int* in = to_device(numbers(blocks * 32));
  int* partial = zeros<int>(blocks);
  unsigned* finished = zeros<unsigned>(1);
  int* total = zeros<int>(1);
  sum<<<blocks, 32>>>(in, partial, finished, total);
  report(total, 1);
}
