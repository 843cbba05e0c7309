// The barrier stands inside a branch that only some of the blocks take (all of a block's threads agree: it is legal).
#include "check.h"

constexpr int threads = 64;

__global__ void reverse(const int* in, const int* wide, int* out) {
  __shared__ int s[threads];
  unsigned t = threadIdx.x, first = blockIdx.x * threads;
  int bias = 0;
  s[t] = in[first + t];  // @A
#ifdef RACY
  if (wide[blockIdx.x]) {
    bias = 1;
    __syncthreads();
  }
#else
  if (wide[blockIdx.x]) bias = 1;
  __syncthreads();
#endif
  out[first + t] = s[threads - 1 - t] + bias;  // @B
}

int main() {
  int* in = to_device(numbers(2 * threads));
  int* wide = to_device(std::vector<int>{1, 0});
  int* out = zeros<int>(2 * threads);
  reverse<<<2, threads>>>(in, wide, out);
  report(out, 2 * threads);
}
