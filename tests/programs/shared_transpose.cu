// Transpose through a padded tile. The barrier between filling and reading the tile is missing.
#include "check.h"

constexpr int side = 16;

__global__ void transpose(const int* in, int* out) {
  __shared__ int tile[side][side + 1];
  unsigned x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = in[y * side + x];  // @A
#ifndef RACY
  __syncthreads();
#endif
  out[y * side + x] = tile[x][y];  // @B
}

int main() {
  int* in = to_device(numbers(side * side));
  int* out = zeros<int>(side * side);
  transpose<<<1, dim3(side, side)>>>(in, out);
  report(out, side * side);
}
