// A shared counter: atomic increments, then a plain read of the count with no barrier between.
#include "check.h"

constexpr int threads = 64;

__global__ void count_odd(const int* in, int* out) {
  __shared__ int odd;
  unsigned t = threadIdx.x;
  if (t == 0) odd = 0;
  __syncthreads();
  if (in[t] % 2) atomicAdd(&odd, 1);  // @A
#ifndef RACY
  __syncthreads();
#endif
  out[t] = odd;  // @B
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  count_odd<<<1, threads>>>(in, out);
  report(out, threads);
}
