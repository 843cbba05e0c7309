// Blocks write rows, count them in a histogram, and read each other's rows: they race. That all add to one counter, in a
// module without any fence, and that nobody looks at what was there, was meant as no message: the report is not to ask
// for what it lacks as one.
#include "check.h"

constexpr int threads = 64, blocks = 4, bins = 8;

__global__ void rows(const int* in, int* row, int* counts, int* out) {
  const int i = blockIdx.x * threads + threadIdx.x;
  row[i] = in[i];  // @A
  atomicAdd(&counts[i % bins], 1);
#ifdef RACY
  out[i] = row[(i + threads) % (blocks * threads)];  // @B
#else
  out[i] = row[i];
#endif
}

int main() {
  int *in = to_device(numbers(blocks * threads)), *row = zeros<int>(blocks * threads);
  int *counts = zeros<int>(bins), *out = zeros<int>(blocks * threads);
  rows<<<blocks, threads>>>(in, row, counts, out);
  report(out, blocks * threads);
}
