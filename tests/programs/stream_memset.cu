// A buffer is cleared on one stream and written on another.
#include "check.h"

constexpr int threads = 64;

__global__ void produce(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = 3 * in[t];  // @A
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(2 * threads);
  cudaStream_t clear = make_stream(), compute = make_stream();
  cudaEvent_t cleared = make_event();
  CHECK(cudaMemsetAsync(data, 0, 2 * threads * sizeof(int), clear));
  CHECK(cudaEventRecord(cleared, clear));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(compute, cleared, 0));
#endif
  produce<<<1, threads, 0, compute>>>(in, data);
  report(data, 2 * threads);
}
