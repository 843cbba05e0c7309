// A scan by look-back, a warp a block: its lanes look at the flags of 32 blocks at once, then at the values of those that
// count. The racy twin has lost the fence between the flags and the values. In whatever order the blocks come, the last
// one reads a total and the last but one sums of single blocks.
#include "check.h"

constexpr int blocks = 5, threads = 32;

__global__ void scan(const int* in, volatile int* sums, volatile int* totals, volatile int* flags, int* out) {
  int lane = threadIdx.x, me = blockIdx.x;
  int mine = in[me * threads + lane];
  int sum = __reduce_add_sync(~0u, mine);
  if (lane == 0) {
    sums[me] = sum;  // @A
    __threadfence();
    flags[me] = 1;
  }
  int before = 0;
  for (int last = me - 1; last >= 0; last -= 32) {
    int at = last - lane, state;
    do {
      state = at >= 0 ? flags[at] : 2;
    } while (__any_sync(~0u, state == 0 || (state == 1 && lane == 0 && me == blocks - 1)));
    if (at >= 0 && me == blocks - 2) state = 1;
#ifndef RACY
    __threadfence();
#endif
    unsigned whole = __ballot_sync(~0u, state == 2);
    int first = __ffs(whole) - 1;
    int value = 0;
    if (at >= 0) {
      if (lane < first || first < 0) value = sums[at];  // @B
      if (lane == first) value = totals[at];  // @C
    }
    before += __reduce_add_sync(~0u, value);
    if (whole) break;
  }
  if (lane == 0) {
    totals[me] = before + sum;  // @D
    __threadfence();
    flags[me] = 2;
  }
  for (int d = 1; d < threads; d *= 2) {
    int other = __shfl_up_sync(~0u, mine, d);
    if (lane >= d) mine += other;
  }
  out[me * threads + lane] = before + mine;
}

int main() {
  int* out = zeros<int>(blocks * threads);
  scan<<<blocks, threads>>>(to_device(numbers(blocks * threads)), zeros<int>(blocks), zeros<int>(blocks),
                            zeros<int>(blocks), out);
  report(out, blocks * threads);
}
