// Two barriers are missing, one for each of two arrays, which functions access that are inlined: these are two faults,
// though the same lines read and write.
#include "check.h"

constexpr int threads = 128;

__device__ __forceinline__ void put(int* row, int at, int value) {
  row[at % threads] = value;  // @A
}
__device__ __forceinline__ int get(const int* row, int at) {
  return row[at % threads];  // @B
}

__global__ void shifted(const int* in, int* out) {
  __shared__ int first[threads], second[threads];
  const int t = threadIdx.x;
  put(first, t, in[t]);
#ifndef RACY
  __syncthreads();
#endif
  const int value = get(first, t + 33);
  put(second, t, value);
#ifndef RACY
  __syncthreads();
#endif
  out[t] = get(second, t + 65);
}

int main() {
  int *in = to_device(numbers(threads)), *out = zeros<int>(threads);
  shifted<<<1, threads>>>(in, out);
  report(out, threads);
}
