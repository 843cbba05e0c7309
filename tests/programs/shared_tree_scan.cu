// A scan's up-sweep: each thread adds what another has summed to a place of its own. That the line reads and writes the
// row makes it no update of one place by several: what is missing is the barrier between two levels.
#include "check.h"

constexpr int threads = 64;

__global__ void sums(const int* in, int* out) {
  __shared__ int row[2 * threads];
  const int t = threadIdx.x;
  row[t] = in[t];
  row[threads + t] = in[threads + t];
  __syncthreads();
  for (int stride = threads, width = 1; stride >= 1; stride /= 2, width *= 2) {
    const int at = (2 * t + 1) * width - 1;
    if (t < stride) row[at + width] += row[at];  // @A
#ifndef RACY
    __syncthreads();
#endif
  }
  __syncthreads();
  out[t] = row[t];
  out[threads + t] = row[threads + t];
}

int main() {
  int *in = to_device(numbers(2 * threads)), *out = zeros<int>(2 * threads);
  sums<<<1, threads>>>(in, out);
  report(out, 2 * threads);
}
