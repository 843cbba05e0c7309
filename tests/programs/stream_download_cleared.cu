// A page-locked buffer is cleared for its next use while the download that brings the last results into it may still be
// under way, and a kernel adds a word of its own. What the host finds is what the last of the three left.
#include "check.h"

constexpr int threads = 64;

__global__ void produce(const int* in, int* out) {
  unsigned t = threadIdx.x;
  out[t] = in[t] + 5;
}

__global__ void stamp(int* host) {
  host[0] = 4242;  // @A
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int* host = pinned(std::vector<int>(threads, 0));
  cudaStream_t clearing = make_stream(), download = make_stream();
  cudaEvent_t cleared = make_event();
  produce<<<1, threads, 0, download>>>(in, data);
  CHECK(cudaMemsetAsync(host, 0, threads * sizeof(int), clearing));
  CHECK(cudaEventRecord(cleared, clearing));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(download, cleared, 0));
#endif
  CHECK(cudaMemcpyAsync(host, data, threads * sizeof(int), cudaMemcpyDeviceToHost, download));
  stamp<<<1, 1, 0, download>>>(host);
  CHECK(cudaDeviceSynchronize());
  print_checksum(host, threads);
}
