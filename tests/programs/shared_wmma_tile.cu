// A matrix product by tensor cores: tiles of shared memory that four warps fill and all read as fragments. The barrier
// between filling and reading is missing: a warp multiplies what the others have not written yet.
#include <cuda_fp16.h>
#include <mma.h>

#include "check.h"

using namespace nvcuda;

constexpr int side = 16, size = 32, warps = 4;

// One block: c = a * b, of size×size; warp w computes the quarter (w / 2, w % 2).
__global__ void multiply(const __half* a, const __half* b, float* c) {
  __shared__ __align__(32) __half as[size * side], bs[side * size];
  unsigned t = threadIdx.x, row = t / 32 / 2 * side, column = t / 32 % 2 * side;
  wmma::fragment<wmma::accumulator, side, side, side, float> sum;
  wmma::fill_fragment(sum, 0.0f);
#pragma unroll 1
  for (int first = 0; first < size; first += side) {
    for (unsigned i = t; i < size * side; i += warps * 32) {
      as[i] = a[i / side * size + first + i % side];    // @A
      bs[i] = b[(first + i / size) * size + i % size];  // @B
    }
#ifndef RACY
    __syncthreads();
#endif
    wmma::fragment<wmma::matrix_a, side, side, side, __half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, side, side, side, __half, wmma::row_major> y;
    wmma::load_matrix_sync(x, as + row * side, side);  // @C
    wmma::load_matrix_sync(y, bs + column, size);      // @D
    wmma::mma_sync(sum, x, y, sum);
    __syncthreads();
  }
  wmma::store_matrix_sync(c + row * size + column, sum, size, wmma::mem_row_major);
}

int main() {
  std::vector<int> left = numbers(size * size), right = numbers(size * size + 1);
  std::vector<__half> x, y;
  for (int i = 0; i < size * size; ++i) {
    x.push_back(__float2half(float(left[i] % 31)));
    y.push_back(__float2half(float(right[i + 1] % 29)));
  }
  __half *a = to_device(x), *b = to_device(y);
  float* c = zeros<float>(size * size);
  multiply<<<1, warps * 32>>>(a, b, c);
  std::vector<float> product = to_host(c, size * size);
  print_checksum(product.data(), product.size());
  int wrong = 0;  // sums of small integers are exact
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < size; ++j) {
      int sum = 0;
      for (int k = 0; k < size; ++k) sum += left[i * size + k] % 31 * (right[k * size + j + 1] % 29);
      wrong += product[i * size + j] != float(sum);
    }
  std::printf("wrong %d\n", wrong);
}
