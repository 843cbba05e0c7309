// One page-locked staging buffer serves an upload on one stream and a download on another. The download overwrites it
// while the upload may still read it.
#include "check.h"

constexpr int count = 64;

int main() {
  int* staging = pinned(numbers(count));
  int* target = zeros<int>(count);
  int* source = to_device(std::vector<int>(count, 7));
  cudaStream_t upload = make_stream(), download = make_stream();
  CHECK(cudaMemcpyAsync(target, staging, count * sizeof(int), cudaMemcpyHostToDevice, upload));
#ifndef RACY
  CHECK(cudaStreamSynchronize(upload));
#endif
  CHECK(cudaMemcpyAsync(staging, source, count * sizeof(int), cudaMemcpyDeviceToHost, download));
  report(target, count);
}
