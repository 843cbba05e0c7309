// Three launches of alpha and two of beta. alpha prints, in an order that a program may rely on.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void alpha(int* data, int turn) {
  data[threadIdx.x] = turn;
  if (threadIdx.x == 0) printf("alpha %d\n", turn);
}

__global__ void beta(int* data) { data[threadIdx.x] += 1; }

int main() {
  int* data = nullptr;
  cudaMalloc(&data, 32 * sizeof(int));
  for (int turn = 0; turn < 3; ++turn) alpha<<<1, 32>>>(data, turn);
  cudaDeviceSynchronize();
  std::printf("host\n");
  std::fflush(stdout);
  for (int turn = 0; turn < 2; ++turn) beta<<<1, 32>>>(data);
  int first = 0;
  cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost);
  std::printf("first %d\n", first);
}
