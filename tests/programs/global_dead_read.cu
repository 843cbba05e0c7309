// Every thread reads what another block may be writing, and weights it with zero.
#include "check.h"

constexpr int threads = 32, blocks = 4, count = threads * blocks;

__global__ void blend(const int* in, const int* weight, int* data, int* out) {
  unsigned i = blockIdx.x * threads + threadIdx.x, other = (i + threads) % count;
  data[i] = in[i] + 1;  // @A
#ifdef RACY
  int neighbour = data[other];  // @B
#else
  int neighbour = in[other];
#endif
  out[i] = in[i] + weight[i] * neighbour;
}

int main() {
  int* in = to_device(numbers(count));
  int* weight = zeros<int>(count);
  int* data = zeros<int>(count);
  int* out = zeros<int>(count);
  blend<<<blocks, threads>>>(in, weight, data, out);
  report(out, count);
}
