// Uses the runtime without a kernel: what plain C++ linked against libcudart does.
#include <cuda_runtime_api.h>

#include <cstdio>

int main() {
  void* pointer = nullptr;
  int version = 0, value = 0x01020304, back = 0;
  cudaRuntimeGetVersion(&version);
  if (cudaMalloc(&pointer, 64) != cudaSuccess) return 1;
  cudaMemcpy(pointer, &value, 4, cudaMemcpyHostToDevice);
  cudaMemset(pointer, 9, 1);
  cudaMemcpy(&back, pointer, 4, cudaMemcpyDeviceToHost);
  std::printf("%d %x %s\n", version / 1000, back, cudaGetErrorName(cudaFree(pointer)));
  return 3;
}
