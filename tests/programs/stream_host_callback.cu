// The consumer waits for a host callback. That callback orders it after the producer only where it waits for it itself.
#include "check.h"

constexpr int threads = 64;

__global__ void produce(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = 3 * in[t];  // @A
}

__global__ void consume(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;  // @B
}

void count_call(void* calls) {
  ++*static_cast<int*>(calls);
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int* out = zeros<int>(threads);
  int calls = 0;
  cudaStream_t first = make_stream(), second = make_stream(), third = make_stream();
  cudaEvent_t produced = make_event(), called = make_event();
  produce<<<1, threads, 0, first>>>(in, data);
  CHECK(cudaEventRecord(produced, first));
#ifndef RACY
  CHECK(cudaStreamWaitEvent(second, produced, 0));
#endif
  CHECK(cudaLaunchHostFunc(second, count_call, &calls));
  CHECK(cudaEventRecord(called, second));
  CHECK(cudaStreamWaitEvent(third, called, 0));
  consume<<<1, threads, 0, third>>>(data, out);
  report(out, threads);
  std::printf("calls %d\n", calls);
}
