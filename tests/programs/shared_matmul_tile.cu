// Tiled matrix product. The barrier at the end of the loop body is missing: a fast warp overwrites the tiles that a
// slow one still reads.
#include "check.h"

constexpr int tile = 8, size = 16;

__global__ void multiply(const int* a, const int* b, int* c) {
  __shared__ int as[tile][tile], bs[tile][tile];
  unsigned x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * tile + x, row = blockIdx.y * tile + y;
  int sum = 0;
#pragma unroll 1
  for (unsigned first = 0; first < size; first += tile) {
    as[y][x] = a[row * size + first + x];       // @A
    bs[y][x] = b[(first + y) * size + column];  // @B
    __syncthreads();
#pragma unroll 1
    for (unsigned k = 0; k < tile; ++k) {
      int left = as[y][k];   // @C
      int right = bs[k][x];  // @D
      sum += left * right;
    }
#ifndef RACY
    __syncthreads();
#endif
  }
  c[row * size + column] = sum;
}

int main() {
  int* a = to_device(numbers(size * size));
  int* b = to_device(numbers(size * size));
  int* c = zeros<int>(size * size);
  multiply<<<dim3(size / tile, size / tile), dim3(tile, tile)>>>(a, b, c);
  report(c, size * size);
}
