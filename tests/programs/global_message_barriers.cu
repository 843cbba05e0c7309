// One thread of a block says to one of another that its block's table is there. That of the other one has all others
// wait for it by a barrier, or only those of its warp.
#include "check.h"

__global__ void pass(const int* in, int* table, int* flag, int* out) {
  unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    table[t] = 5 * in[t];  // @A
    __syncthreads();
    if (t == 0) {
      __threadfence();
      atomicExch(flag, 1);
    }
  } else {
    if (t == 0) {
      while (atomicAdd(flag, 0) == 0) {
      }
      __threadfence();
    }
#ifdef RACY
    __syncwarp();
#else
    __syncthreads();
#endif
    out[t] = table[63 - t];  // @B
  }
}

int main() {
  int* in = to_device(numbers(64));
  int* table = zeros<int>(64);
  int* flag = zeros<int>(1);
  int* out = zeros<int>(64);
  pass<<<2, 64>>>(in, table, flag, out);
  report(out, 64);
}
