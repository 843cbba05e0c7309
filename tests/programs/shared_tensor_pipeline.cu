// One warp brings tiles of a matrix, swizzled, into a ring of stages, another adds their columns up. The racy twin says
// that a stage is empty before it has read it.
#include "tensors.h"

constexpr int columns = 32, rows = 8, stages = 2, tiles = 6;

__global__ void sums(const __grid_constant__ CUtensorMap map, int* out) {
  __shared__ alignas(1024) int stage[stages][rows][columns];
  __shared__ std::uint64_t full[stages], empty[stages];
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], 32);
    }
    fence_proxy_async();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < tiles; ++i) {
      const int s = i % stages;
      if (i >= stages) mbarrier_wait(&empty[s], (i / stages - 1) & 1);
      mbarrier_arrive_expect(&full[s], sizeof stage[s]);
      tensor_load(stage[s], &map, 0, i * rows, &full[s]);  // @A
    }
  } else if (threadIdx.x >= 32) {
    int sum = 0;
    for (int i = 0; i < tiles; ++i) {
      const int s = i % stages;
      mbarrier_wait(&full[s], (i / stages) & 1);
#ifdef RACY
      mbarrier_arrive(&empty[s]);
#endif
      for (int y = 0; y < rows; ++y) {
        // 128 bytes a row: units of 16 bytes are permuted by the row's number.
        const unsigned unit = lane / 4 ^ y % 8;
        sum += (i + 1) * stage[s][y][unit * 4 + lane % 4];  // @B
      }
#ifndef RACY
      mbarrier_arrive(&empty[s]);
#endif
    }
    out[lane] = sum;
  }
}

int main() {
  int* in = to_device(numbers(columns * rows * tiles));
  int* out = zeros<int>(columns);
  sums<<<1, 64>>>(tensor_of_rows(in, columns, rows * tiles, columns, rows, CU_TENSOR_MAP_SWIZZLE_128B), out);
  report(out, columns);
}
