// Memory is freed on one stream while a kernel on another still reads it.
#include "check.h"

constexpr int threads = 64;

__global__ void consume(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;  // @A
}

int main() {
  std::vector<int> host = numbers(threads);
  int* out = zeros<int>(threads);
  int* data = nullptr;
  cudaStream_t first = make_stream(), second = make_stream();
  cudaEvent_t consumed = make_event();
  CHECK(cudaMallocAsync(&data, threads * sizeof(int), first));
  CHECK(cudaMemcpyAsync(data, host.data(), threads * sizeof(int), cudaMemcpyHostToDevice, first));
  CHECK(cudaDeviceSynchronize());
  consume<<<1, threads, 0, first>>>(data, out);
  CHECK(cudaEventRecord(consumed, first));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(second, consumed, 0));
#endif
  CHECK(cudaFreeAsync(data, second));
  report(out, threads);
}
