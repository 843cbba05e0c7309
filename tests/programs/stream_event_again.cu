// An event is recorded twice; the second stream's wait was submitted in between, so that it covers the first record only.
#include "check.h"

constexpr int threads = 64;

__global__ void prepare(int* data) {
  data[threadIdx.x] = 1;
}

__global__ void produce(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = data[t] + 3 * in[t];  // @A
}

__global__ void consume(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;  // @B
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int* out = zeros<int>(threads);
  cudaStream_t first = make_stream(), second = make_stream();
  cudaEvent_t done = make_event();
  prepare<<<1, threads, 0, first>>>(data);
  CHECK(cudaEventRecord(done, first));
#ifdef RACY
  CHECK(cudaStreamWaitEvent(second, done, 0));
#endif
  produce<<<1, threads, 0, first>>>(in, data);
  CHECK(cudaEventRecord(done, first));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(second, done, 0));
#endif
  consume<<<1, threads, 0, second>>>(data, out);
  report(out, threads);
}
