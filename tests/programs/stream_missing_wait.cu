// An upload on one stream, its consumer on another. The event is recorded, but nobody waits for it.
#include "check.h"

constexpr int threads = 64;

__global__ void consume(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;  // @A
}

int main() {
  int* host = pinned(numbers(threads));
  int* data = zeros<int>(threads);
  int* out = zeros<int>(threads);
  cudaStream_t upload = make_stream(), compute = make_stream();
  cudaEvent_t uploaded = make_event();
  CHECK(cudaMemcpyAsync(data, host, threads * sizeof(int), cudaMemcpyHostToDevice, upload));
  CHECK(cudaEventRecord(uploaded, upload));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(compute, uploaded, 0));
#endif
  consume<<<1, threads, 0, compute>>>(data, out);
  report(out, threads);
}
