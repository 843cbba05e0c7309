// Dropout with a random generator's state for each thread, which a launch reads and writes back. Two launches share the
// states. Without the event, the second may begin with the states that the first began with, and the first may go on
// from those that the second left.
#include "check.h"

constexpr int threads = 64, blocks = 2, count = 512;

__global__ void seed(unsigned* states) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  states[i] = i * 2654435761u + 1;
}

__global__ void dropout(const int* in, int* out, unsigned* states) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned state = states[i];  // @A
  for (int k = i; k < count; k += gridDim.x * blockDim.x) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    out[k] = state & 1 ? 2 * in[k] : 0;
  }
  states[i] = state;  // @B
}

int main() {
  const int* in = to_device(numbers(count));
  int *first = zeros<int>(count), *second = zeros<int>(count);
  unsigned* states = zeros<unsigned>(blocks * threads);
  cudaStream_t a = make_stream(cudaStreamNonBlocking), b = make_stream(cudaStreamNonBlocking);
  cudaEvent_t done = make_event();
  seed<<<blocks, threads>>>(states);
  CHECK(cudaDeviceSynchronize());
  dropout<<<blocks, threads, 0, a>>>(in, first, states);
#ifndef RACY
  CHECK(cudaEventRecord(done, a));
  CHECK(cudaStreamWaitEvent(b, done));
#endif
  dropout<<<blocks, threads, 0, b>>>(in, second, states);
  CHECK(cudaDeviceSynchronize());
  report(first, count); // what the second made of its states is not looked at
}
