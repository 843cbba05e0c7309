// Message passing between blocks with a fence that reaches no further than the block.
#include "check.h"

__global__ void pass(const int* in, int* data, int* flag, int* out) {
  unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    data[t] = 7 * in[t];  // @A
    __syncwarp();
    if (t == 0) {
#ifdef RACY
      __threadfence_block();
#else
      __threadfence();
#endif
      atomicExch(flag, 1);
    }
  } else {
    if (t == 0) {
      while (atomicAdd(flag, 0) == 0) {
      }
      __threadfence();
    }
    __syncwarp();
    out[t] = data[31 - t];  // @B
  }
}

int main() {
  int* in = to_device(numbers(32));
  int* data = zeros<int>(32);
  int* flag = zeros<int>(1);
  int* out = zeros<int>(32);
  pass<<<2, 32>>>(in, data, flag, out);
  report(out, 32);
}
