// Two buffers, an event each. The consumer of the second buffer waits for the first one's event.
#include "check.h"

constexpr int threads = 64;

__global__ void produce(const int* in, int* data, int factor) {
  unsigned t = threadIdx.x;
  data[t] = factor * in[t];  // @A
}

__global__ void consume(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;  // @B
}

int main() {
  int* in = to_device(numbers(threads));
  int* data[] = {zeros<int>(threads), zeros<int>(threads)};
  int* out = zeros<int>(threads);
  cudaStream_t first = make_stream(), second = make_stream();
  cudaEvent_t produced[] = {make_event(), make_event()};
  for (int buffer = 0; buffer < 2; ++buffer) {
    produce<<<1, threads, 0, first>>>(in, data[buffer], buffer + 2);
    CHECK(cudaEventRecord(produced[buffer], first));
  }
#ifdef RACY
  CHECK(cudaStreamWaitEvent(second, produced[0], 0));
#else
  CHECK(cudaStreamWaitEvent(second, produced[1], 0));
#endif
  consume<<<1, threads, 0, second>>>(data[1], out);
  report(out, threads);
}
