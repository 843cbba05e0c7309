// Threads take places in the result with an atomic counter: which element comes where depends on the order, without any
// race. The other twin gives each its own place.
#include "check.h"

constexpr int threads = 64, blocks = 2;

__global__ void place(const int* in, unsigned* counter, int* out) {
  unsigned i = blockIdx.x * threads + threadIdx.x;
#ifdef RACY
  out[atomicAdd(counter, 1u)] = in[i];
#else
  out[i] = in[i];
#endif
}

int main() {
  int* in = to_device(numbers(blocks * threads));
  unsigned* counter = zeros<unsigned>(1);
  int* out = zeros<int>(blocks * threads);
  place<<<blocks, threads>>>(in, counter, out);
  report(out, blocks * threads);
}
