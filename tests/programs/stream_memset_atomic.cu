// An accumulator is set to its start on one stream while a kernel already adds to it on another.
#include "check.h"

constexpr int threads = 64;

__global__ void accumulate(const int* in, int* total) {
  atomicAdd(total, in[threadIdx.x]);  // @A
}

int main() {
  int* in = to_device(numbers(threads));
  int* total = zeros<int>(1);
  cudaStream_t clear = make_stream(), compute = make_stream();
  CHECK(cudaMemsetAsync(total, 1, sizeof(int), clear));
#ifndef RACY
  CHECK(cudaStreamSynchronize(clear));
#endif
  accumulate<<<1, threads, 0, compute>>>(in, total);
  report(total, 1);
}
