// A host function marks a page-locked buffer as outdated while a download in another stream may still bring the results
// there that the host reads at the end.
#include "check.h"

constexpr int count = 64;

void mark(void* buffer) {
  for (int i = 0; i < count; ++i) static_cast<int*>(buffer)[i] = -1 - i;
}

int main() {
  int* results = to_device(numbers(count));
  int* host = pinned(std::vector<int>(count, 0));
  cudaStream_t marking = make_stream(cudaStreamNonBlocking), download = make_stream(cudaStreamNonBlocking);
  cudaEvent_t marked = make_event();
  CHECK(cudaLaunchHostFunc(marking, mark, host));
  CHECK(cudaEventRecord(marked, marking));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(download, marked, 0));
#endif
  CHECK(cudaMemcpyAsync(host, results, count * sizeof(int), cudaMemcpyDeviceToHost, download));
  CHECK(cudaDeviceSynchronize());
  print_checksum(host, count);
}
