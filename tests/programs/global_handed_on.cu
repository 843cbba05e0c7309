// A table goes from block to block: the first fills it, the second checks that it is there and says so to the third,
// which reads it. Without its fence the second hands on nothing of what it has heard from the first.
#include "check.h"

__global__ void hand_on(const int* in, int* table, int* filled, int* checked, int* out) {
  if (blockIdx.x == 0) {
    for (int i = 0; i < 16; ++i) {
      table[i] = 3 * in[i];  // @A
    }
    __threadfence();
    *(volatile int*)filled = 1;
  } else if (blockIdx.x == 1) {
    while (*(volatile int*)filled == 0) {
    }
#ifndef RACY
    __threadfence();
#endif
    *(volatile int*)checked = 1;
  } else {
    while (*(volatile int*)checked == 0) {
    }
    __threadfence();
    for (int i = 0; i < 16; ++i) {
      out[i] = table[15 - i];  // @B
    }
  }
}

int main() {
  int* in = to_device(numbers(16));
  int* table = zeros<int>(16);
  int* filled = zeros<int>(1);
  int* checked = zeros<int>(1);
  int* out = zeros<int>(16);
  hand_on<<<3, 1>>>(in, table, filled, checked, out);
  report(out, 16);
}
