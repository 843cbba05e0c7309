// One block fills a ring of slots, another takes what lies there and hands each slot back. Without a fence before that, the
// slot may be filled again before it was read: nothing that the writer waits for says that the read is over.
#include "check.h"

constexpr int threads = 32, slots = 2, items = 4;

struct Ring {
  int slot[slots][threads];
  int filled, taken;
};

__device__ void wait_until(const int* count, int least) {
  if (threadIdx.x == 0) {
    while (*(volatile const int*)count < least) {
    }
    __threadfence();
  }
  __syncthreads();
}

__device__ void say(int* count, int value, bool fenced) {
  __syncthreads();
  if (threadIdx.x) return;
  if (fenced) __threadfence();
  *(volatile int*)count = value;
}

__global__ void pass(const int* in, Ring* ring, int* sum) {
  const int t = threadIdx.x;
#ifdef RACY
  constexpr bool fenced = false;
#else
  constexpr bool fenced = true;
#endif
  int mine = 0;
  for (int n = 0; n < items; ++n) {
    if (blockIdx.x == 0) {
      wait_until(&ring->taken, n + 1 - slots);
      ring->slot[n % slots][t] = in[n * threads + t];  // @Fill
      say(&ring->filled, n + 1, true);
    } else {
      wait_until(&ring->filled, n + 1);
      mine += ring->slot[n % slots][t] * (n + 1);  // @Take
      say(&ring->taken, n + 1, fenced);
    }
  }
  if (blockIdx.x) sum[t] = mine;
}

int main() {
  int* in = to_device(numbers(items * threads));
  Ring* ring = zeros<Ring>(1);
  int* sum = zeros<int>(threads);
  pass<<<2, threads>>>(in, ring, sum);
  report(sum, threads);
}
