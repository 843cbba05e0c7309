// Two warps go through a tile in shared memory that the first loads, and add what they find to global memory, as a
// rasterizer's backward pass does. That both add to one place tells neither anything: what the racy twin lacks is the
// barrier in front of the next tile.
#include "check.h"

constexpr int warp = 32, tiles = 2;

__global__ void gradient(const int* ids, float* sums) {
  __shared__ int tile[warp];
  const int lane = threadIdx.x % warp;
  for (int n = 0; n < tiles; ++n) {
#ifndef RACY
    __syncthreads();
#endif
    if (threadIdx.x < warp) tile[lane] = ids[n * warp + lane];  // @A
    __syncthreads();
    for (int i = 0; i < warp; ++i) {
      const int found = __reduce_add_sync(~0u, threadIdx.x + i);
      if (lane) continue;
      const int id = tile[i];  // @B
      atomicAdd(&sums[id], float(found));  // @C
    }
  }
}

int main() {
  std::vector<int> ids(tiles * warp);
  for (int i = 0; i < tiles * warp; ++i) ids[i] = i * 7 % 16 + 16 * (i / warp);
  int* from = to_device(ids);
  float* sums = zeros<float>(16 * tiles);
  gradient<<<1, 2 * warp>>>(from, sums);
  report(sums, 16 * tiles);
}
