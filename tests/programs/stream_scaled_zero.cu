// Numbers are scaled in one stream and downloaded in another. The first of them is 0, which scaling leaves as it is:
// that its thread comes too late shows nothing.
#include "check.h"

constexpr int threads = 64;

__global__ void scale(int* data) {
  data[threadIdx.x] *= 3;  // @A
}

int main() {
  std::vector<int> numbers(threads);
  for (int i = 0; i < threads; ++i) numbers[i] = i;
  int *data = to_device(numbers), *host = pinned(numbers);
  cudaStream_t scaling = make_stream(), download = make_stream();
  scale<<<1, threads, 0, scaling>>>(data);
#ifndef RACY
  CHECK(cudaStreamSynchronize(scaling));
#endif
  CHECK(cudaMemcpyAsync(host, data, threads * sizeof(int), cudaMemcpyDeviceToHost, download));
  CHECK(cudaStreamSynchronize(download));
  print_checksum(host, threads);
  CHECK(cudaDeviceSynchronize());
}
