// Threads reserve room for records of various lengths in a common buffer, without an atomic on its end.
#include "check.h"

constexpr int threads = 32, blocks = 2;

__global__ void reserve(const int* length, int* end) {
  int mine = length[blockIdx.x * threads + threadIdx.x];
#ifdef RACY
  int start = end[0];     // @A
  end[0] = start + mine;  // @B
#else
  atomicAdd(end, mine);
#endif
}

int main() {
  int* length = to_device(numbers(blocks * threads));
  int* end = zeros<int>(1);
  reserve<<<blocks, threads>>>(length, end);
  report(end, 1);
}
