// A buffer is cleared in one stream, filled and downloaded in another. In the recorded run the clearing comes first, so
// that what it does to the download shows only where it comes between the two.
#include "check.h"

constexpr int threads = 32;

__global__ void fill(int* data) {
  data[threadIdx.x] = int(threadIdx.x) + 1;  // @A
}

int main() {
  int *data = zeros<int>(threads), *host = pinned(numbers(threads));
  cudaStream_t clearing = make_stream(), filling = make_stream();
  cudaEvent_t cleared = make_event();
  CHECK(cudaMemsetAsync(data, 0, threads * sizeof(int), clearing));
  CHECK(cudaEventRecord(cleared, clearing));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(filling, cleared, 0));
#endif
  fill<<<1, threads, 0, filling>>>(data);
  CHECK(cudaMemcpyAsync(host, data, threads * sizeof(int), cudaMemcpyDeviceToHost, filling));
  CHECK(cudaStreamSynchronize(filling));
  print_checksum(host, threads);
  CHECK(cudaDeviceSynchronize());
}
