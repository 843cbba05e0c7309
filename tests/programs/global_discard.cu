// A scratch pad that is done with: each thread discards a line of it, so that nobody writes it back to memory. Other
// threads may still be reading there, unless it waits for them.
#include "check.h"

#include <cuda/discard_memory>

constexpr int threads = 64, line = 32, blocks = 2; // line: elements that are discarded as one

__global__ void mix(const int* in, int* out, int* pads) {
  int t = threadIdx.x, *pad = pads + blockIdx.x * threads * line;
  for (int i = 0; i < line; ++i) pad[i * threads + t] = in[(i * threads + t) % 251];
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < line; ++i) sum += (i + 1) * pad[i * threads + (t + 3 * i) % threads];  // @A
#ifndef RACY
  __syncthreads();
#endif
  cuda::discard_memory(pad + t * line, line * sizeof(int));  // @B
  out[blockIdx.x * threads + t] = sum;
}

int main() {
  int* in = to_device(numbers(251));
  int* out = zeros<int>(blocks * threads);
  int* pads = zeros<int>(blocks * threads * line);
  mix<<<blocks, threads>>>(in, out, pads);
  report(out, blocks * threads);
}
