// A neighbour's element is fetched before it is sure to be there, and then weighted with zero.
#include "check.h"

constexpr int threads = 64;

__global__ void blend(const int* in, const int* weight, int* out) {
  __shared__ int s[threads];
  unsigned t = threadIdx.x;
  int value = in[t];
  s[t] = value;  // @A
#ifndef RACY
  __syncthreads();
#endif
  int next = s[(t + 1) % threads];  // @B
  out[t] = value + weight[t] * next;
}

int main() {
  int* in = to_device(numbers(threads));
  int* weight = zeros<int>(threads);
  int* out = zeros<int>(threads);
  blend<<<1, threads>>>(in, weight, out);
  report(out, threads);
}
