// Tiles are stored by tensor map one after the other, through one buffer. The racy twin fills the buffer again before
// the copy has read it.
#include "tensors.h"

constexpr int columns = 32, rows = 4, tiles = 3, threads = columns * rows;

__global__ void doubled(const int* in, const __grid_constant__ CUtensorMap map) {
  __shared__ alignas(128) int tile[threads];
  for (int i = 0; i < tiles; ++i) {
    tile[threadIdx.x] = 2 * in[i * threads + threadIdx.x];  // @A
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      tensor_store(&map, 0, i * rows, tile);  // @B
      bulk_commit();
#ifndef RACY
      bulk_wait_read();
#endif
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) bulk_wait();
}

int main() {
  int* in = to_device(numbers(tiles * threads));
  int* out = zeros<int>(tiles * threads);
  doubled<<<1, threads>>>(in, tensor_of_rows(out, columns, tiles * rows, columns, rows));
  report(out, tiles * threads);
}
