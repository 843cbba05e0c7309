// A tile is transposed in shared memory and stored by tensor map; what lies outside of the matrix is not written. The
// racy twin leaves out the fence that makes ordinary writes visible to the asynchronous proxy.
#include "tensors.h"

constexpr int side = 16, matrix_side = 40;

__global__ void transpose(const int* in, const __grid_constant__ CUtensorMap map) {
  __shared__ alignas(128) int tile[side][side];
  const int x = threadIdx.x % side, y = threadIdx.x / side;
  const int left = blockIdx.x * side, top = blockIdx.y * side;
  const bool inside = left + x < matrix_side && top + y < matrix_side;
  tile[x][y] = inside ? in[(top + y) * matrix_side + left + x] : -1;  // @A
#ifndef RACY
  fence_proxy_async();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    tensor_store(&map, top, left, tile);  // @B
    bulk_commit();
    bulk_wait();
  }
}

int main() {
  int* in = to_device(numbers(matrix_side * matrix_side));
  int* out = zeros<int>(matrix_side * matrix_side);
  const dim3 blocks((matrix_side + side - 1) / side, (matrix_side + side - 1) / side);
  transpose<<<blocks, side * side>>>(in, tensor_of_rows(out, matrix_side, matrix_side, side, side));
  report(out, matrix_side * matrix_side);
}
