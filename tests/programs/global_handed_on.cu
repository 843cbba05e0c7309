// A table goes from block to block: the first fills it, the second checks that it is there and says so to the third,
// which reads it. Without its fence the second hands on nothing of what it has heard from the first.
#include "check.h"

__global__ void hand_on(const int* in, int* table, int* filled, int* checked, int* out) {
  unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    table[t] = 3 * in[t];  // @A
    __syncthreads();
    if (t == 0) {
      __threadfence();
      *(volatile int*)filled = 1;
    }
  } else if (blockIdx.x == 1) {
    if (t == 0) {
      while (*(volatile int*)filled == 0) {
      }
#ifndef RACY
      __threadfence();
#endif
      *(volatile int*)checked = 1;
    }
  } else {
    if (t == 0) {
      while (*(volatile int*)checked == 0) {
      }
      __threadfence();
    }
    __syncthreads();
    out[t] = table[63 - t];  // @B
  }
}

int main() {
  int* in = to_device(numbers(64));
  int* table = zeros<int>(64);
  int* filled = zeros<int>(1);
  int* checked = zeros<int>(1);
  int* out = zeros<int>(64);
  hand_on<<<3, 64>>>(in, table, filled, checked, out);
  report(out, 64);
}
