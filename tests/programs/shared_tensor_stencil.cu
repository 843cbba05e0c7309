// A stencil whose tiles come with their halo by tensor map: what lies outside of the grid is filled with zeros. The racy
// twin reads the tile before the copy has completed.
#include "tensors.h"

// Boxes begin at multiples of 16 bytes along a row.
constexpr int side = 16, before = 4, halo = side + 2 * before, grid_side = 40;

__global__ void stencil(const __grid_constant__ CUtensorMap map, int* out) {
  __shared__ alignas(128) int tile[side + 2][halo];
  __shared__ std::uint64_t barrier;
  const int x = threadIdx.x % side, y = threadIdx.x / side;
  const int left = blockIdx.x * side, top = blockIdx.y * side;
  if (threadIdx.x == 0) {
    mbarrier_init(&barrier, 1);
    fence_proxy_async();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(&barrier, sizeof tile);
    tensor_load(tile, &map, left - before, top - 1, &barrier);  // @A
  }
#ifndef RACY
  mbarrier_wait(&barrier, 0);
#endif
  int sum = tile[y + 1][x + before];  // @B
  mbarrier_wait(&barrier, 0);
  sum += tile[y][x + before] + tile[y + 2][x + before] + tile[y + 1][x + before - 1] + tile[y + 1][x + before + 1];
  if (left + x < grid_side && top + y < grid_side) out[(top + y) * grid_side + left + x] = sum;
}

int main() {
  int* in = to_device(numbers(grid_side * grid_side));
  int* out = zeros<int>(grid_side * grid_side);
  const dim3 blocks((grid_side + side - 1) / side, (grid_side + side - 1) / side);
  stencil<<<blocks, side * side>>>(tensor_of_rows(in, grid_side, grid_side, halo, side + 2), out);
  report(out, grid_side * grid_side);
}
