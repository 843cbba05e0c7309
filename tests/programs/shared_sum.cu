// All threads add to one shared variable; the racy twin without an atomic.
#include "check.h"

constexpr int threads = 64;

__global__ void sum(const int* in, int* out) {
  __shared__ int total;
  unsigned t = threadIdx.x;
  if (t == 0) total = 0;
  __syncthreads();
  int value = in[t];
#ifdef RACY
  total += value;  // @A
#else
  atomicAdd(&total, value);
#endif
  __syncthreads();
  if (t == 0) out[0] = total;
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(1);
  sum<<<1, threads>>>(in, out);
  report(out, 1);
}
