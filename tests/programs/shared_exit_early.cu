// The second warp has nothing to write and returns before the barrier. The barrier does not wait for it in vain, but it
// orders what those threads did that come to it (PTX ISA 9.7.13.1; CUDA programming guide, __syncthreads: "memory ordering
// among participating threads"), and the second warp's halves of the tile are not among that.
#include "check.h"

constexpr int threads = 64;

__global__ void pair_sums(const int* in, int* out) {
  __shared__ int s[threads];
  unsigned t = threadIdx.x;
  s[t] = in[t];  // @A
#ifdef RACY
  if (t >= threads / 2) return;
  __syncthreads();
#else
  __syncthreads();
  if (t >= threads / 2) return;
#endif
  int sum = s[t] + s[t + threads / 2];  // @B
  __syncthreads();  // for those who are left: they are ordered by it as ever
  s[t] = sum;
  __syncthreads();
  out[t] = s[threads / 2 - 1 - t];
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads / 2);
  pair_sums<<<1, threads>>>(in, out);
  report(out, threads / 2);
}
