// The last of several exchanges stays: it depends on the order, without any race. A maximum does not.
#include "check.h"

constexpr int threads = 32, blocks = 2;

__global__ void leave(const int* in, int* out) {
  int value = in[blockIdx.x * threads + threadIdx.x];
#ifdef RACY
  atomicExch(out, value);
#else
  atomicMax(out, value);
#endif
}

int main() {
  int* in = to_device(numbers(blocks * threads));
  int* out = zeros<int>(1);
  leave<<<blocks, threads>>>(in, out);
  report(out, 1);
}
