// A snapshot for debugging is taken while the kernel still writes. Nobody looks at it.
#include "check.h"

constexpr int threads = 64;

__global__ void produce(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = 3 * in[t];  // @A
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int* snapshot = zeros<int>(threads);
  cudaStream_t first = make_stream(), second = make_stream();
  produce<<<1, threads, 0, first>>>(in, data);
#ifndef RACY
  CHECK(cudaStreamSynchronize(first));
#endif
  CHECK(cudaMemcpyAsync(snapshot, data, threads * sizeof(int), cudaMemcpyDeviceToDevice, second));
  report(data, threads);
}
