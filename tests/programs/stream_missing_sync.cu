// A blocking copy reads the results of a kernel on a non-blocking stream, for which it does not wait.
#include "check.h"

constexpr int threads = 64;

__global__ void produce(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = 3 * in[t];  // @A
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  std::vector<int> host(threads);
  cudaStream_t stream = make_stream(cudaStreamNonBlocking);
  produce<<<1, threads, 0, stream>>>(in, data);
#ifndef RACY
  CHECK(cudaStreamSynchronize(stream));
#endif
  CHECK(cudaMemcpy(host.data(), data, threads * sizeof(int), cudaMemcpyDeviceToHost));
  print_checksum(host.data(), threads);
  CHECK(cudaDeviceSynchronize());
}
