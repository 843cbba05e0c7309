// The thread that frees a block's memory is not the one that took it, and takes memory again at once, which may be the
// same: what others did with it before must come before the free. What the new owner does needs no order with that. (What
// is freed too early keeps its bytes here until everybody has read them.)
#include "check.h"

constexpr int threads = 64, rounds = 3;

__global__ void turns(const int* in, int* out) {
  __shared__ int* s;
  unsigned t = threadIdx.x;
  if (t == 0) s = static_cast<int*>(malloc(threads * sizeof(int)));
  __syncthreads();
  int* mine = s;
  int sum = 0;
  for (int round = 0; round < rounds; ++round) {
    mine[t] = in[t] + round;
    __syncthreads();
    sum += mine[threads - 1 - t];  // @A
#ifndef RACY
    __syncthreads();
#endif
    if (t == threads - 1) {
      free(mine);  // @B
      s = static_cast<int*>(malloc(threads * sizeof(int)));
    }
    __syncthreads();
    mine = s;
  }
  out[t] = sum;
  __syncthreads();
  if (t == 0) free(mine);
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  turns<<<1, threads>>>(in, out);
  report(out, threads);
}
