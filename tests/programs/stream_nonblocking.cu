// The default stream waits for streams made by default, but not for non-blocking ones.
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
#ifdef RACY
  cudaStream_t stream = make_stream(cudaStreamNonBlocking);
#else
  cudaStream_t stream = make_stream(cudaStreamDefault);
#endif
  produce<<<1, threads, 0, stream>>>(in, data);
  consume<<<1, threads>>>(data, out);
  report(out, threads);
}
