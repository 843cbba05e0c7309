// A product split along k: blocks leave parts in a workspace, the last of a tile to finish adds them up. Two of them on two
// streams; in the racy twin they share the workspace, though not the counters.
#include "check.h"

constexpr int size = 64, parts = 4, threads = 32;

__global__ void product(const int* a, const int* x, int* y, int* workspace, unsigned* finished) {
  __shared__ bool last;
  int row = blockIdx.x * threads + threadIdx.x, part = blockIdx.y, sum = 0;
  for (int k = part * size / parts; k < (part + 1) * size / parts; ++k) sum += a[row * size + k] * x[k];
  workspace[part * size + row] = sum;  // @Part
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(&finished[blockIdx.x], parts - 1) == parts - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  sum = 0;
#pragma unroll 1
  for (int p = 0; p < parts; ++p) sum += workspace[p * size + row];  // @Sum
  y[row] = sum;
}

int main() {
  int *a = to_device(numbers(size * size)), *y = zeros<int>(2 * size), *workspace = zeros<int>(2 * size * parts);
  unsigned* finished = zeros<unsigned>(4);
#ifdef RACY
  int* other = workspace;
#else
  int* other = workspace + size * parts;
#endif
  const dim3 blocks(size / threads, parts);
  product<<<blocks, threads, 0, make_stream(cudaStreamNonBlocking)>>>(a, a, y, workspace, finished);
  product<<<blocks, threads, 0, make_stream(cudaStreamNonBlocking)>>>(a, a + 7, y + size, other, finished + 2);
  report(y, 2 * size);
}
