// Two streams read a buffer. It is freed after the one reader, on its stream; the other is not waited for.
#include "check.h"

constexpr int threads = 64;

__global__ void add(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;
}

__global__ void multiply(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] * 5;  // @A
}

int main() {
  std::vector<int> host = numbers(threads);
  int* sums = zeros<int>(threads);
  int* products = zeros<int>(threads);
  int* data = nullptr;
  cudaStream_t first = make_stream(), second = make_stream();
  cudaEvent_t multiplied = make_event();
  CHECK(cudaMallocAsync(&data, threads * sizeof(int), first));
  CHECK(cudaMemcpyAsync(data, host.data(), threads * sizeof(int), cudaMemcpyHostToDevice, first));
  CHECK(cudaDeviceSynchronize());
  multiply<<<1, threads, 0, second>>>(data, products);
  CHECK(cudaEventRecord(multiplied, second));
  add<<<1, threads, 0, first>>>(data, sums);
#ifndef RACY
  CHECK(cudaStreamWaitEvent(first, multiplied, 0));
#endif
  CHECK(cudaFreeAsync(data, first));
  report(sums, threads);
  report(products, threads);
}
