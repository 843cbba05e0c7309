// A spin lock of relaxed atomics. Without fences it excludes, but it orders nothing: a holder may not see what the
// holder before it wrote.
#include "check.h"

constexpr int blocks = 5;

__global__ void deposit(const int* amount, int* lock, int* balance) {
  if (threadIdx.x != 0) return;
  int mine = amount[blockIdx.x];
  while (atomicCAS(lock, 0, 1) != 0) {
  }
#ifndef RACY
  __threadfence();
#endif
  balance[0] += mine;  // @A
#ifndef RACY
  __threadfence();
#endif
  atomicExch(lock, 0);
}

int main() {
  int* amount = to_device(numbers(blocks));
  int* lock = zeros<int>(1);
  int* balance = zeros<int>(1);
  deposit<<<blocks, 32>>>(amount, lock, balance);
  report(balance, 1);
}
