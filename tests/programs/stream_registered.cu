// A kernel writes host memory that the program registered, by its device address; a copy on another stream reads the same
// memory by its host address, and nothing orders the two.
#include "check.h"

constexpr int count = 64;

__global__ void square(int* data) {
  int i = threadIdx.x;
  data[i] = data[i] * data[i];  // @A
}

int main() {
  std::vector<int> host = numbers(count);
  CHECK(cudaHostRegister(host.data(), count * sizeof(int), cudaHostRegisterMapped));
  int *mapped = nullptr, *target = zeros<int>(count);
  CHECK(cudaHostGetDevicePointer(&mapped, host.data(), 0));
  cudaStream_t work = make_stream(), upload = make_stream();
  square<<<1, count, 0, work>>>(mapped);
#ifndef RACY
  CHECK(cudaStreamSynchronize(work));
#endif
  CHECK(cudaMemcpyAsync(target, host.data(), count * sizeof(int), cudaMemcpyHostToDevice, upload));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaHostUnregister(host.data()));
  report(target, count);
}
