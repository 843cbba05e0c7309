// Threads that exclude each other by a lock add to one float: no race and no atomic, yet the sum depends on who comes
// first. Small integers add up to the same in any order.
#include "check.h"

constexpr int blocks = 6;

__global__ void deposit(const float* amount, int* lock, float* balance) {
  if (threadIdx.x != 0) return;
  const float mine = amount[blockIdx.x];
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  balance[0] += mine;  // @A
  __threadfence();
  atomicExch(lock, 0);
}

int main() {
#ifdef RACY
  std::vector<float> amounts = {1e8f, 3.3f, 0.7f, 2.9f, 1.1f, 3.7f};
#else
  std::vector<float> amounts = {100.0f, 3.0f, 1.0f, 3.0f, 1.0f, 4.0f};
#endif
  float* amount = to_device(amounts);
  int* lock = zeros<int>(1);
  float* balance = zeros<float>(1);
  deposit<<<blocks, 32>>>(amount, lock, balance);
  report(balance, 1);
}
