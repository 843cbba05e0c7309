// Numbers are scaled in one stream and downloaded in another. The first of them is 0, which scaling leaves as it is:
// that its thread comes too late shows nothing.
#include "check.h"

constexpr int threads = 64;

__global__ void twice(int* data) {
  data[threadIdx.x] *= 2;  // @A
}
__global__ void thrice(int* data) {
  data[threadIdx.x] *= 3;  // @B
}

int main() {
  std::vector<int> numbers(threads);
  for (int i = 0; i < threads; ++i) numbers[i] = i;
  int *one = to_device(numbers), *other = to_device(numbers);
  int *host_one = pinned(numbers), *host_other = pinned(numbers);
  cudaStream_t scaling = make_stream(), download = make_stream();
  twice<<<1, threads, 0, scaling>>>(one);
  thrice<<<1, threads, 0, scaling>>>(other);
#ifndef RACY
  CHECK(cudaStreamSynchronize(scaling));
#endif
  CHECK(cudaMemcpyAsync(host_one, one, threads * sizeof(int), cudaMemcpyDeviceToHost, download));
  CHECK(cudaMemcpyAsync(host_other, other, threads * sizeof(int), cudaMemcpyDeviceToHost, download));
  CHECK(cudaStreamSynchronize(download));
  print_checksum(host_one, threads);
  print_checksum(host_other, threads);
  CHECK(cudaDeviceSynchronize());
}
