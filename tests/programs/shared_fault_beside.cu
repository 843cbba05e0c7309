// The first thread says where the block's results go. Who does not wait for that takes what lay in shared memory for a
// place, and writes out of bounds, which ends the launch: the race lies between the read and a write that has not
// happened by then.
#include "check.h"

constexpr int threads = 128;

__global__ void append(const int* in, int* out, unsigned* used) {
  __shared__ unsigned base;
  unsigned t = threadIdx.x;
  if (t == 0) base = atomicAdd(used, threads);  // @A
#ifndef RACY
  __syncthreads();
#endif
  unsigned at = base;  // @B
  out[at + t] = 2 * in[t];
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  unsigned* used = zeros<unsigned>(1);
  append<<<1, threads>>>(in, out, used);
#ifdef RACY
  if (cudaDeviceSynchronize() != cudaSuccess) {
    std::printf("the launch failed\n");
    return 0;
  }
#endif
  report(out, threads);
}
