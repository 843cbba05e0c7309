// A bitonic sort whose steps are inlined one by one. One barrier is missing, at the end of the function that is inlined:
// as many pairs of accesses race as there are steps that follow each other, and there is one place to mend.
#include "check.h"

constexpr int threads = 64;

template <int size, int stride>
__device__ __forceinline__ void step(int* row, int t) {
  const int other = t ^ stride;
  if (other > t) {
    const int low = row[t], high = row[other];  // @A
    const bool keep = (low < high) == ((t & size) == 0);
    row[t] = keep ? low : high, row[other] = keep ? high : low;  // @B
  }
#ifndef RACY
  __syncthreads();
#endif
}

template <int size, int stride>
__device__ __forceinline__ void merge(int* row, int t) {
  step<size, stride>(row, t);
  if constexpr (stride > 1) merge<size, stride / 2>(row, t);
}

template <int size>
__device__ __forceinline__ void sort(int* row, int t) {
  if constexpr (size > 2) sort<size / 2>(row, t);
  merge<size, size / 2>(row, t);
}

__global__ void sorted(const int* in, int* out) {
  __shared__ int row[threads];
  const int t = threadIdx.x;
  row[t] = in[t];
  __syncthreads();
  sort<threads>(row, t);
  out[t] = row[t];  // @C
}

int main() {
  int *in = to_device(numbers(threads)), *out = zeros<int>(threads);
  sorted<<<1, threads>>>(in, out);
  report(out, threads);
}
