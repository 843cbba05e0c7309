// A kernel leaves its results in memory that host and device share, and another one, in its own stream, goes on from
// there. What the device writes there is no doing of the host's: in the other order the second gets what was there
// before.
#include "check.h"

constexpr int threads = 64;

__global__ void square(const int* in, int* shared) {
  unsigned t = threadIdx.x;
  shared[t] = in[t] * in[t];  // @A
}

__global__ void shift(const int* shared, int* out) {
  unsigned t = threadIdx.x;
  out[t] = shared[t] + 1;  // @B
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  int* shared = pinned(std::vector<int>(threads, 7));
  cudaStream_t first = make_stream(), second = make_stream();
  cudaEvent_t squared = make_event();
  square<<<1, threads, 0, first>>>(in, shared);
  CHECK(cudaEventRecord(squared, first));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(second, squared));
#endif
  shift<<<1, threads, 0, second>>>(shared, out);
  report(out, threads);
}
