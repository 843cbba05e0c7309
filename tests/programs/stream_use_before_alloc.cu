// Memory that one stream allocates in its order is filled on another, which does not wait for the allocation.
#include "check.h"

constexpr int threads = 64;

__global__ void produce(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = 2 * in[t];  // @A
}

__global__ void consume(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  int* data = nullptr;
  cudaStream_t first = make_stream(), second = make_stream();
  cudaEvent_t allocated = make_event(), produced = make_event();
  CHECK(cudaMallocAsync(&data, threads * sizeof(int), first));
  CHECK(cudaEventRecord(allocated, first));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(second, allocated, 0));
#endif
  produce<<<1, threads, 0, second>>>(in, data);
  CHECK(cudaEventRecord(produced, second));
  CHECK(cudaStreamWaitEvent(first, produced, 0));
  consume<<<1, threads, 0, first>>>(data, out);
  CHECK(cudaFreeAsync(data, first));
  report(out, threads);
}
