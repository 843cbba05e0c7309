// A library with a racy kernel of its own: lanes read what others write.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void reverse(int* data) { data[threadIdx.x] = data[63 - threadIdx.x]; }

extern "C" int reversed_numbers() {
  int *data = nullptr, numbers[64], sum = 0;
  for (int i = 0; i < 64; ++i) numbers[i] = i;
  if (cudaMalloc(&data, sizeof numbers) != cudaSuccess) return 1;
  cudaMemcpy(data, numbers, sizeof numbers, cudaMemcpyHostToDevice);
  reverse<<<1, 64>>>(data);
  cudaFree(data);
  for (const int number : numbers) sum += number;
  std::printf("sum %d\n", sum);
  std::fflush(stdout);
  return cudaDeviceSynchronize();
}
