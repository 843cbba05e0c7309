// Two blocks hand over halves of an array, each behind a flag of its own; a third looks at both flags until both are
// set. The racy twin's first block lacks its fence.
#include "check.h"

constexpr int threads = 64, half = threads / 2;

__global__ void pass(const int* in, int* data, volatile int* flags, int* out) {
  unsigned t = threadIdx.x;
  if (blockIdx.x < 2) {
    if (t < half) data[half * blockIdx.x + t] = 5 * in[half * blockIdx.x + t];  // @A
    __syncthreads();
    if (t == 0) {
#ifdef RACY
      if (blockIdx.x == 1)
#endif
        __threadfence();
      flags[blockIdx.x * 32] = 1;
    }
  } else {
    if (t == 0) {
      int first, second;
      do {
        first = flags[0];
        second = flags[32];
      } while (!(first & second));
      __threadfence();
    }
    __syncthreads();
    out[t] = data[threads - 1 - t];  // @B
  }
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int* flags = zeros<int>(64);
  int* out = zeros<int>(threads);
  pass<<<3, threads>>>(in, data, flags, out);
  report(out, threads);
}
