// Blocks and threads work in memory of the kernels' heap that others gave back (malloc; CUDA programming guide, dynamic
// global memory allocation). It is other memory then: accesses of two owners are no race, those of one are as ever.
#include "check.h"

constexpr int threads = 64, blocks = 3;

__global__ void scratch(const int* in, int* out) {
  __shared__ int* s;
  unsigned t = threadIdx.x, i = blockIdx.x * threads + t;
  if (t == 0) s = static_cast<int*>(malloc(threads * sizeof(int)));
  __syncthreads();
  s[t] = in[i];  // @A
#ifndef RACY
  __syncthreads();
#endif
  int sum = s[threads - 1 - t];  // @B
  __syncthreads();
  if (t == 0) free(s);
  volatile int* own = static_cast<int*>(malloc(12));  // lanes of a warp, one after the other
  own[2] = sum;
  out[i] = own[2];
  free(const_cast<int*>(own));
}

int main() {
  int* in = to_device(numbers(blocks * threads));
  int* out = zeros<int>(blocks * threads);
  scratch<<<blocks, threads>>>(in, out);
  report(out, blocks * threads);
}
