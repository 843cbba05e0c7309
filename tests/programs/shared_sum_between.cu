// The callers of a block's sum synchronize behind it; the kernel forgets that twice. The function is right, and each
// place is a fault of its own.
#include "check.h"

constexpr int threads = 64;

// The caller synchronizes before it uses `part` again.
__device__ int block_sum(int* part, int value) {
  unsigned t = threadIdx.x;
  part[t] = value;  // @A
  __syncthreads();
  for (unsigned half = threads / 2; half; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  return part[0];  // @B
}

__global__ void moments(const int* in, int* out) {
  __shared__ int part[threads];
  unsigned t = threadIdx.x;
  int first = block_sum(part, in[t]);
  __syncthreads();
  int second = block_sum(part, in[t] * in[t] % 97);
  __syncthreads();
  int third = block_sum(part, in[t] + second % 100);
#ifndef RACY
  __syncthreads();
#endif
  int fourth = block_sum(part, in[t] - third % 100);
  __syncthreads();
  int fifth = block_sum(part, in[t] + fourth % 100);
#ifndef RACY
  __syncthreads();
#endif
  out[t] = first + block_sum(part, in[t] + fifth % 100);
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  moments<<<1, threads>>>(in, out);
  report(out, threads);
}
