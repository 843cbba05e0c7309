// Blocks take items of work from a queue. Two items add to the same sum, which blocks may do at the same time: where one
// block takes all of them, nothing shows.
#include "check.h"

constexpr int threads = 64, blocks = 4, items = 48;

__global__ void work(const int* values, unsigned* next, int* sums) {
  __shared__ unsigned item;
  for (;;) {
    if (threadIdx.x == 0) item = atomicAdd(next, 1u);
    __syncthreads();
    const unsigned mine = item;
    __syncthreads();
    if (mine >= items) return;
    if (threadIdx.x != 0) continue;
#ifdef RACY
    sums[mine / 2] += values[mine];  // @Sum
#else
    atomicAdd(&sums[mine / 2], values[mine]);
#endif
  }
}

int main() {
  int* values = to_device(numbers(items));
  unsigned* next = zeros<unsigned>(1);
  int* sums = zeros<int>(items / 2);
  work<<<blocks, threads>>>(values, next, sums);
  report(sums, items / 2);
}
