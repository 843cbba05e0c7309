// Atomics of block scope on a total that all blocks add to: between blocks they are not atomic.
#include "check.h"

constexpr int blocks = 6;

__global__ void sum(const int* in, int* total) {
  if (threadIdx.x != 0) return;
  int value = in[blockIdx.x];
#ifdef RACY
  atomicAdd_block(total, value);  // @A
#else
  atomicAdd(total, value);
#endif
}

int main() {
  int* in = to_device(numbers(blocks));
  int* total = zeros<int>(1);
  sum<<<blocks, 32>>>(in, total);
  report(total, 1);
}
