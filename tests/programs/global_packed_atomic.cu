// Two blocks change halves of one word: as a packed pair and one by one they are atomic to each other (the same 16
// bits), as a pair and a whole word they are not.
#include <cuda_fp16.h>

#include "check.h"

__global__ void count(__half2* counters) {
  if (blockIdx.x == 0) {
    atomicAdd(counters, __floats2half2_rn(1, 2));  // @A
  } else {
#ifdef RACY
    atomicExch(reinterpret_cast<unsigned*>(counters), 0u);  // @B
#else
    atomicAdd(reinterpret_cast<__half*>(counters), __float2half(1));
#endif
  }
}

int main() {
  int* counters = zeros<int>(1);
  count<<<2, 1>>>(reinterpret_cast<__half2*>(counters));
  report(counters, 1);
}
