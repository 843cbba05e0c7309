// Threads take places with an atomic counter; thread 0 copies the counter into the result before all have taken theirs.
#include "check.h"

constexpr int threads = 64, blocks = 2;

__global__ void keep_large(const int* in, unsigned* counter, unsigned* kept) {
  unsigned i = blockIdx.x * threads + threadIdx.x;
  if (in[i] > 50) atomicAdd(counter, 1u);  // @A
#ifdef RACY
  if (i == 0) kept[0] = counter[0];  // @B
#endif
}

__global__ void copy_count(const unsigned* counter, unsigned* kept) {
  kept[0] = counter[0];
}

int main() {
  int* in = to_device(numbers(blocks * threads));
  unsigned* counter = zeros<unsigned>(1);
  unsigned* kept = zeros<unsigned>(1);
  keep_large<<<blocks, threads>>>(in, counter, kept);
#ifndef RACY
  copy_count<<<1, 1>>>(counter, kept);
#endif
  report(kept, 1);
}
