// Producer and consumer on two streams with nothing between them.
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

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int* out = zeros<int>(threads);
  cudaStream_t first = make_stream();
#ifdef RACY
  cudaStream_t second = make_stream();
#else
  cudaStream_t second = first;
#endif
  produce<<<1, threads, 0, first>>>(in, data);
  consume<<<1, threads, 0, second>>>(data, out);
  report(out, threads);
}
