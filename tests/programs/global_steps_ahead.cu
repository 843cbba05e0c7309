// Blocks take steps over all of an array, with a barrier of the grid by hand between: one thread of each waits for the
// generation that the last block begins. Without the barrier behind its wait, the block's other threads go ahead.
#include "check.h"

constexpr int threads = 64, blocks = 4, steps = 3, count = threads * blocks;

struct Barrier {
  unsigned arrived, generation;
};

__device__ void meet(Barrier* barrier) {
  __syncthreads();
  if (threadIdx.x == 0) {
    volatile unsigned* generation = &barrier->generation;
    const unsigned before = *generation;
    __threadfence();
    if (atomicAdd(&barrier->arrived, 1) == gridDim.x - 1) {
      barrier->arrived = 0;
      __threadfence();
      *generation = before + 1;
    } else {
      while (*generation == before) {
      }
      __threadfence();
    }
  }
#ifndef RACY
  __syncthreads();
#endif
}

__global__ void smooth(int* a, int* b, Barrier* barrier) {
  const int i = blockIdx.x * threads + threadIdx.x;
  for (int step = 0; step < steps; ++step) {
    const int* from = step % 2 ? b : a;
    int* to = step % 2 ? a : b;
    to[i] = from[i] + from[(i + threads) % count] / 2;  // @Step
    meet(barrier);
  }
}

int main() {
  int *a = to_device(numbers(count)), *b = zeros<int>(count);
  Barrier* barrier = zeros<Barrier>(1);
  smooth<<<blocks, threads>>>(a, b, barrier);
  report(b, count);
}
