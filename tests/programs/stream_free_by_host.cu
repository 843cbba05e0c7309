// cudaFree of memory of a pool waits for nothing (Runtime API, cudaFree): in the racy twin a kernel still reads it.
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
  cudaStream_t stream = make_stream();
  cudaMemPool_t pool = nullptr;  // which keeps the memory, so that the late read finds some
  unsigned long long kept = ~0ull;
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
  CHECK(cudaMallocAsync(&data, threads * sizeof(int), stream));
  CHECK(cudaMemcpyAsync(data, host.data(), threads * sizeof(int), cudaMemcpyHostToDevice, stream));
  CHECK(cudaStreamSynchronize(stream));
  consume<<<1, threads, 0, stream>>>(data, out);
#ifndef RACY
  CHECK(cudaStreamSynchronize(stream));
#endif
  CHECK(cudaFree(data));
  report(out, threads);
}
