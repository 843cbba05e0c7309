// Two kernels in two streams, on the device at the same time: one makes data and raises a flag, the other waits for the
// flag. Without a fence between the data and the flag, the flag may be seen first.
#include "check.h"

constexpr int threads = 64;

__global__ void make(const int* in, int* data, volatile int* flag) {
  data[threadIdx.x] = 3 * in[threadIdx.x];  // @A
  __syncthreads();
  if (threadIdx.x == 0) {
#ifndef RACY
    __threadfence();
#endif
    *flag = 1;
  }
}

__global__ void use(const int* data, volatile int* flag, int* out) {
  if (threadIdx.x == 0) {
    while (*flag == 0) {
    }
    __threadfence();
  }
  __syncthreads();
  out[threadIdx.x] = data[threadIdx.x];  // @B
}

int main() {
  int *data = zeros<int>(threads), *flag = zeros<int>(1), *out = zeros<int>(threads);
  const int* in = to_device(numbers(threads));
  make<<<1, threads, 0, make_stream(cudaStreamNonBlocking)>>>(in, data, flag);
  use<<<1, threads, 0, make_stream(cudaStreamNonBlocking)>>>(data, flag, out);
  report(out, threads);
}
