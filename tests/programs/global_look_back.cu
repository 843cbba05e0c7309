// A scan over blocks by look-back: each publishes its own sum, and waits for those before it until one has published the
// sum of all up to it. Flags and values are volatile, and each has words of its own. The racy twin has lost the fence
// between a value and its flag. In whatever order the blocks come, the last one reads a total and the last but one sums of
// single blocks.
#include "check.h"

constexpr int blocks = 6, threads = 32;

__device__ void publish(volatile int* value, volatile int* flag, int sum, int state) {
  *value = sum;  // @A
#ifndef RACY
  __threadfence();
#endif
  *flag = state;
}

__global__ void scan(const int* in, volatile int* sums, volatile int* totals, volatile int* flags, int* out) {
  __shared__ int before;
  int t = threadIdx.x, me = blockIdx.x;
  int mine = in[me * threads + t];
  int sum = __reduce_add_sync(~0u, mine);
  if (t == 0) {
    publish(&sums[me], &flags[me], sum, 1);
    int all = 0;
    for (int at = me - 1; at >= 0; --at) {
      int state;
      while ((state = flags[at]) == 0 || (state == 1 && me == blocks - 1)) {
      }
      __threadfence();
      if (state == 2 && me != blocks - 2) {
        all += totals[at];  // @B
        break;
      }
      all += sums[at];  // @C
    }
    publish(&totals[me], &flags[me], all + sum, 2);
    before = all;
  }
  __syncwarp();
  for (int d = 1; d < threads; d *= 2) {
    int other = __shfl_up_sync(~0u, mine, d);
    if (t >= d) mine += other;
  }
  out[me * threads + t] = before + mine;
}

int main() {
  int* out = zeros<int>(blocks * threads);
  scan<<<blocks, threads>>>(to_device(numbers(blocks * threads)), zeros<int>(blocks), zeros<int>(blocks),
                            zeros<int>(blocks), out);
  report(out, blocks * threads);
}
