// One thread finds the key and says so in a shared flag; the others look at the flag without a barrier between.
#include "check.h"

constexpr int threads = 96, key = 12;  // numbers() holds 12 once in its first 101 elements, at place 0

__global__ void search(const int* in, int* out) {
  __shared__ bool found;
  unsigned t = threadIdx.x;
  if (t == 0) found = false;
  __syncthreads();
  int value = in[threads - 1 - t];
  if (value == key) found = true;  // @A
#ifndef RACY
  __syncthreads();
#endif
  bool seen = found;  // @B
  out[t] = seen ? value : -1;
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  search<<<1, threads>>>(in, out);
  report(out, threads);
}
