// A long product of matrices by tensor cores: a half accumulator swallows what is small beside the sum, a float does not.
#include <cuda_fp16.h>
#include <mma.h>

#include <cmath>

#include "check.h"

using namespace nvcuda;

#ifdef RACY
using Sum = half;
#else
using Sum = float;
#endif

constexpr int size = 16, steps = 64;

__global__ void multiply(const half* a, const half* b, Sum* out) {
  wmma::fragment<wmma::accumulator, size, size, size, Sum> sum;
  wmma::fill_fragment(sum, Sum(0.0f));
  for (int step = 0; step < steps; ++step) {
    wmma::fragment<wmma::matrix_a, size, size, size, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, size, size, size, half, wmma::row_major> right;
    wmma::load_matrix_sync(left, a + step * size, size * steps);
    wmma::load_matrix_sync(right, b + step * size * size, size);
    wmma::mma_sync(sum, left, right, sum);  // @A
  }
  wmma::store_matrix_sync(out, sum, size, wmma::mem_row_major);
}

int main() {
  std::vector<half> a(size * size * steps), b(a.size());
  for (int i = 0; i < int(a.size()); ++i) {
    const bool first = i % (size * steps) < size;
    a[i] = first ? 16.0f : 0.125f + 0.001f * float(i * 37 % 11);
    b[i] = i < size * size ? 8.0f : 0.2f + 0.001f * float(i * 53 % 13);
  }
  half *left = to_device(a), *right = to_device(b);
  Sum* out = zeros<Sum>(size * size);
  multiply<<<1, 32>>>(left, right, out);
  const std::vector<Sum> result = to_host(out, size * size);
  int near = 0;
  for (int n = 0; n < size * size; ++n) {
    double wanted = 0;
    for (int k = 0; k < size * steps; ++k)
      wanted += double(float(a[n / size * size * steps + k])) * double(float(b[k * size + n % size]));
    near += std::fabs(double(float(result[n])) - wanted) < 1e-3 * wanted;
  }
  std::printf("%d of %d near\n", near, size * size);
}
