// One template, two kernels: the same lines race in both.
#include <cstdio>

template <typename T>
__global__ void turn(T* out) {
  __shared__ T values[64];
  values[threadIdx.x] = T(threadIdx.x); // @WRITE
  out[threadIdx.x] = values[63 - threadIdx.x]; // @READ
}

int main() {
  int* ints;
  double* doubles;
  cudaMalloc(&ints, 64 * sizeof *ints);
  cudaMalloc(&doubles, 64 * sizeof *doubles);
  turn<<<1, 64>>>(ints);
  turn<<<1, 64>>>(doubles);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
