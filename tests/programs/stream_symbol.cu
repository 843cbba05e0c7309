// A device variable is set on one stream while a kernel on another reads it.
#include "check.h"

constexpr int threads = 64;

__device__ int factor = 2;

__global__ void scale(const int* in, int* out) {
  unsigned t = threadIdx.x;
  int by = factor;  // @A
  out[t] = by * in[t];
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  int* host = pinned(std::vector<int>{9});
  cudaStream_t first = make_stream(), second = make_stream();
  cudaEvent_t set = make_event();
  CHECK(cudaMemcpyToSymbolAsync(factor, host, sizeof(int), 0, cudaMemcpyHostToDevice, first));
  CHECK(cudaEventRecord(set, first));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(second, set, 0));
#endif
  scale<<<1, threads, 0, second>>>(in, out);
  report(out, threads);
}
