// Whoever finds an odd number writes 1. All write the same: a race, and no schedule shows it.
#include "check.h"

constexpr int threads = 64;

__global__ void any_odd(const int* in, int* found) {
  if (in[blockIdx.x * threads + threadIdx.x] % 2 == 0) return;
#ifdef RACY
  found[0] = 1;  // @A
#else
  atomicOr(found, 1);
#endif
}

int main() {
  int* in = to_device(numbers(2 * threads));
  int* found = zeros<int>(1);
  any_odd<<<2, threads>>>(in, found);
  report(found, 1);
}
