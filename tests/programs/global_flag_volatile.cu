// Message passing as it was written before C++ atomics: a volatile flag between fences. The producer's fence is
// missing.
#include "check.h"

__global__ void pass(const int* in, int* data, volatile int* flag, int* out) {
  unsigned t = threadIdx.x;
  if (t != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 5 * in[0];  // @A
#ifndef RACY
    __threadfence();
#endif
    *flag = 1;
  } else {
    while (*flag == 0) {
    }
    __threadfence();
    out[0] = data[0];  // @B
  }
}

int main() {
  int* in = to_device(numbers(1));
  int* data = zeros<int>(1);
  int* flag = zeros<int>(1);
  int* out = zeros<int>(1);
  pass<<<2, 32>>>(in, data, flag, out);
  report(out, 1);
}
