// Two blocks store tiles side by side by tensor map. In the racy twin the second one begins four columns too far to the
// left, so that the boxes overlap.
#include "tensors.h"

constexpr int columns = 16, rows = 4, blocks = 2, threads = columns * rows;
#ifdef RACY
constexpr int distance = columns - 4;
#else
constexpr int distance = columns;
#endif

__global__ void tiles(const int* in, const __grid_constant__ CUtensorMap map) {
  __shared__ alignas(128) int tile[threads];
  tile[threadIdx.x] = in[blockIdx.x * threads + threadIdx.x];
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    tensor_store(&map, blockIdx.x * distance, 0, tile);  // @A
    bulk_commit();
    bulk_wait();
  }
}

int main() {
  int* in = to_device(numbers(blocks * threads));
  int* out = zeros<int>(blocks * threads);
  tiles<<<blocks, threads>>>(in, tensor_of_rows(out, blocks * columns, rows, columns, rows));
  report(out, blocks * threads);
}
