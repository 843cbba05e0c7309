// A consumer in another stream that nothing makes wait; what the threads write first is what was there before. A second
// race beside it, so that what other orders change need not be its doing.
#include "check.h"

constexpr int threads = 64, rows = 4;

__global__ void produce(int* data) {
  for (int row = 0; row < rows; ++row)
    data[row * threads + threadIdx.x] = row * 5;  // @A
}

__global__ void consume(const int* data, int* out) {
  int sum = 0;
  for (int row = 0; row < rows; ++row)
    sum += data[row * threads + threadIdx.x];  // @B
  out[threadIdx.x] = sum;
}

__global__ void fill(int* flags) {
  flags[threadIdx.x] = 7;  // @C
}

__global__ void look(const int* flags, int* out) {
  out[threadIdx.x] = flags[threadIdx.x];  // @D
}

int main() {
  int* data = zeros<int>(rows * threads);
  int* flags = zeros<int>(threads);
  int* out = zeros<int>(2 * threads);
  cudaStream_t first = make_stream();
#ifdef RACY
  cudaStream_t second = make_stream();
#else
  cudaStream_t second = first;
#endif
  produce<<<1, threads, 0, first>>>(data);
  consume<<<1, threads, 0, second>>>(data, out);
  fill<<<1, threads, 0, first>>>(flags);
  look<<<1, threads, 0, second>>>(flags, out + threads);
  report(out, 2 * threads);
}
