// The gradient of a norm's weight: every block adds up its rows, and the last one to finish adds up the blocks. Thread 0
// takes the block's ticket; without the barrier it does so before the others have stored what the ticket announces.
#include "check.h"

constexpr int rows = 24, columns = 64, blocks = 6;

__device__ unsigned finished;

__global__ void backward(const int* in, const int* gradient, int* partial, int* weight) {
  __shared__ bool last;
  const int t = threadIdx.x;
  int sum = 0;
  for (int row = blockIdx.x; row < rows; row += gridDim.x) sum += in[row * columns + t] * gradient[row * columns + t];
  partial[blockIdx.x * columns + t] = sum;  // @A
  __threadfence();
#ifndef RACY
  __syncthreads();
#endif
  if (t == 0) last = atomicAdd(&finished, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  int all = 0;
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) all += partial[block * columns + t];  // @B
  weight[t] = all;
  if (t == 0) finished = 0; // for the next launch
}

int main() {
  int *in = to_device(numbers(rows * columns)), *gradient = to_device(numbers(rows * columns));
  int *partial = zeros<int>(blocks * columns), *weight = zeros<int>(columns);
  for (int step = 0; step < 2; ++step) {
    CHECK(cudaMemset(partial, 0, blocks * columns * sizeof(int)));
    backward<<<blocks, columns>>>(in, gradient, partial, weight);
  }
  report(weight, columns);
}
