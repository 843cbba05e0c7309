// A download of half-made results, which nothing orders with the kernel that makes them, into a buffer that the next
// download, in its stream, overwrites before the host looks: nobody ever sees what it brought.
#include "check.h"

constexpr int threads = 64;

__global__ void produce(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = 3 * in[t];  // @A
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int* host = pinned(std::vector<int>(threads, 0));
  cudaStream_t compute = make_stream(), download = make_stream();
  cudaEvent_t produced = make_event();
  produce<<<1, threads, 0, compute>>>(in, data);
  CHECK(cudaEventRecord(produced, compute));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(download, produced, 0));
#endif
  CHECK(cudaMemcpyAsync(host, data, threads * sizeof(int), cudaMemcpyDeviceToHost, download));
  CHECK(cudaMemcpyAsync(host, in, threads * sizeof(int), cudaMemcpyDeviceToHost, download));
  CHECK(cudaDeviceSynchronize());
  print_checksum(host, threads);
}
