// All blocks leave their number in a word that nobody reads.
#include "check.h"

constexpr int threads = 32, blocks = 4;

__global__ void scale(const int* in, int* out, int* debug) {
  unsigned i = blockIdx.x * threads + threadIdx.x;
  out[i] = 3 * in[i];
#ifdef RACY
  if (threadIdx.x == 0) debug[0] = blockIdx.x;  // @A
#else
  if (threadIdx.x == 0) debug[blockIdx.x] = blockIdx.x;
#endif
}

int main() {
  int* in = to_device(numbers(blocks * threads));
  int* out = zeros<int>(blocks * threads);
  int* debug = zeros<int>(blocks);
  scale<<<blocks, threads>>>(in, out, debug);
  report(out, blocks * threads);
}
