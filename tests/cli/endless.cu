// Launches and synchronizes until it is killed; a line for each hundred launches.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void step(int* data) { data[blockIdx.x * blockDim.x + threadIdx.x] += int(blockIdx.x); }

int main() {
  int* data = nullptr;
  cudaMalloc(&data, 1024 * sizeof(int));
  cudaMemset(data, 0, 1024 * sizeof(int));
  for (int i = 1;; ++i) {
    step<<<8, 128>>>(data);
    cudaDeviceSynchronize();
    if (i % 100 == 0) {
      std::printf("%d\n", i);
      std::fflush(stdout);
    }
  }
}
