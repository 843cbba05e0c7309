// An upload, and a copy on the device of what was uploaded, on another stream without order.
#include "check.h"

constexpr int count = 64;

int main() {
  int* host = pinned(numbers(count));
  int* data = zeros<int>(count);
  int* copy = zeros<int>(count);
  cudaStream_t first = make_stream(), second = make_stream();
  CHECK(cudaMemcpyAsync(data, host, count * sizeof(int), cudaMemcpyHostToDevice, first));
#ifndef RACY
  CHECK(cudaStreamSynchronize(first));
#endif
  CHECK(cudaMemcpyAsync(copy, data, count * sizeof(int), cudaMemcpyDeviceToDevice, second));
  report(copy, count);
}
