// Every block adds its tile to one in global memory by tensor map; the last block to finish reads the sum. The racy twin
// does not wait for the reduction before it says that the block has finished.
#include "tensors.h"

constexpr int columns = 16, rows = 4, blocks = 4, threads = columns * rows;

__global__ void sum(const int* in, const __grid_constant__ CUtensorMap map, const int* total, unsigned* finished,
                    int* out) {
  __shared__ alignas(128) int tile[threads];
  __shared__ bool last;
  const unsigned t = threadIdx.x;
  tile[t] = in[blockIdx.x * threads + t];
  fence_proxy_async();
  __syncthreads();
  if (t == 0) {
    tensor_add(&map, 0, 0, tile);  // @A
    bulk_commit();
#ifndef RACY
    bulk_wait();
#endif
    __threadfence();
    last = atomicAdd(finished, 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  if (last) out[t] = total[t];  // @B
  if (t == 0) bulk_wait();
}

int main() {
  int* in = to_device(numbers(blocks * threads));
  int* total = zeros<int>(threads);
  unsigned* finished = zeros<unsigned>(1);
  int* out = zeros<int>(threads);
  sum<<<blocks, threads>>>(in, tensor_of_rows(total, columns, rows, columns, rows), total, finished, out);
  report(out, threads);
}
