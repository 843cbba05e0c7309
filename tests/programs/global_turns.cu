// Blocks add to one row in turn: a thread of each waits for its turn and gives it on, between barriers, and every thread
// fences behind the one and before the other. The fence before the turn is given on is left out: what is missing is
// that one, and not the one that stands there.
#include "check.h"

constexpr int threads = 64, blocks = 3;

__global__ void add_in_turn(const int* in, int* row, int* turn) {
  unsigned t = threadIdx.x;
  if (t == 0)
    while (*static_cast<volatile int*>(turn) != blockIdx.x) {}
  __syncthreads();
  __threadfence();
  int before = row[t];  // @B
  row[t] = before * 2 + in[blockIdx.x * threads + t];  // @A
#ifndef RACY
  __threadfence();
#endif
  __syncthreads();
  if (t == 0) *static_cast<volatile int*>(turn) = blockIdx.x + 1;
}

int main() {
  int* in = to_device(numbers(threads * blocks));
  int* row = zeros<int>(threads);
  int* turn = zeros<int>(1);
  add_in_turn<<<blocks, threads>>>(in, row, turn);
  report(row, threads);
}
