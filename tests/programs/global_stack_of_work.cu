// Blocks take items of work off a stack, by compare-and-swap of its top. Two items add to the same sum, which blocks may
// do at the same time: where one block takes all of them, nothing shows.
#include "check.h"

constexpr int threads = 64, blocks = 4, items = 48, none = -1;

__device__ int pop(int* top, const int* below) {
  int seen = *(volatile int*)top, expected;
  do {
    expected = seen;
    if (expected == none) break;
    seen = atomicCAS(top, expected, below[expected]);
  } while (seen != expected);
  return expected;
}

__global__ void work(const int* values, int* top, const int* below, int* sums) {
  __shared__ int item;
  for (;;) {
    if (threadIdx.x == 0) item = pop(top, below);
    __syncthreads();
    const int mine = item;
    __syncthreads();
    if (mine == none) return;
    if (threadIdx.x != 0) continue;
#ifdef RACY
    sums[mine / 2] += values[mine];  // @Sum
#else
    atomicAdd(&sums[mine / 2], values[mine]);
#endif
  }
}

int main() {
  std::vector<int> below(items);
  for (int item = 0; item < items; ++item) below[item] = item - 1;  // the first lies on `none`
  int* top = to_device(std::vector<int>(1, items - 1));
  int* sums = zeros<int>(items / 2);
  work<<<blocks, threads>>>(to_device(numbers(items)), top, to_device(below), sums);
  report(sums, items / 2);
}
