// Two producers append to one queue by atomics, in two streams. One leaves flags as they were that the other looks at: a
// race that changes nothing. Whose items come first does change the outputs, and no race decides it. Beside them a race
// of other kernels that does change them.
#include "check.h"

constexpr int threads = 32;

__global__ void one(int* tail, int* queue, int* flags) {
  flags[threadIdx.x] = 0;  // @A
  queue[atomicAdd(tail, 1)] = 1;
}

__global__ void two(int* tail, int* queue, const int* flags) {
  const int flag = flags[threadIdx.x];  // @B
  queue[atomicAdd(tail, 1)] = 2 + flag;
}

__global__ void fill(int* flags) {
  flags[threadIdx.x] = 7;  // @C
}

__global__ void look(const int* flags, int* out) {
  out[threadIdx.x] = flags[threadIdx.x];  // @D
}

int main() {
  int* tail = zeros<int>(1);
  int* flags = zeros<int>(2 * threads);
  int* out = zeros<int>(3 * threads);
  cudaStream_t first = make_stream();
#ifdef RACY
  cudaStream_t second = make_stream();
#else
  cudaStream_t second = first;
#endif
  one<<<1, threads, 0, first>>>(tail, out, flags);
  two<<<1, threads, 0, second>>>(tail, out, flags);
  fill<<<1, threads, 0, first>>>(flags + threads);
  look<<<1, threads, 0, second>>>(flags + threads, out + 2 * threads);
  report(out, 3 * threads);
}
