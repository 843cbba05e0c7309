// A buffer is cleared on one stream while a kernel on another writes the same zeros.
#include "check.h"

constexpr int threads = 64;

__global__ void clear_half(int* data) {
  data[threadIdx.x] = 0;  // @A
}

int main() {
  int* data = to_device(numbers(2 * threads));
  cudaStream_t first = make_stream(), second = make_stream();
  CHECK(cudaMemsetAsync(data, 0, 2 * threads * sizeof(int), first));
#ifndef RACY
  CHECK(cudaStreamSynchronize(first));
#endif
  clear_half<<<1, threads, 0, second>>>(data);
  report(data, 2 * threads);
}
