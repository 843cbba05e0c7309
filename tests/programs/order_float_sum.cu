// A sum of floats by atomics: no race, but its last bits depend on the order. The other twin adds integers.
#include "check.h"

constexpr int threads = 64, blocks = 2;

#ifdef RACY
using Sum = float;
#else
using Sum = unsigned;
#endif

__global__ void sum(const int* in, Sum* total) {
  int value = in[blockIdx.x * threads + threadIdx.x];
#ifdef RACY
  atomicAdd(total, 1.0f / static_cast<float>(value));  // @A
#else
  atomicAdd(total, 1000000u / static_cast<unsigned>(value));
#endif
}

int main() {
  int* in = to_device(numbers(blocks * threads));
  Sum* total = zeros<Sum>(1);
  sum<<<blocks, threads>>>(in, total);
  report(total, 1);
}
