// Two kernels in two streams, on the device at the same time, hand each other a buffer round by round. Who fills the
// buffer again must wait until the other has read it. Each waits for the other in every round, all the same, so that
// neither ever is more than a round ahead: the two meet only where each looks as soon as there is something to see.
#include <cuda/atomic>

#include "check.h"

constexpr int threads = 64, rounds = 4;

__device__ void raise(int* flag, int round) {
  __syncthreads();
  if (threadIdx.x == 0)
    cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).store(round, cuda::memory_order_release);
}

__device__ void wait_for(int* flag, int round) {
  cuda::atomic_ref<int, cuda::thread_scope_device> at(*flag);
  if (threadIdx.x == 0) {
    while (at.load(cuda::memory_order_acquire) < round) {
    }
  }
  __syncthreads();
}

struct Side {
  int *buffer, *filled, *read;
};

__global__ void exchange(const int* in, Side own, Side other, int* out) {
  const int t = threadIdx.x;
  for (int round = 1; round <= rounds; ++round) {
#ifndef RACY
    wait_for(other.read, round - 1);
#endif
    own.buffer[t] = round + in[t];  // @Fill
    raise(own.filled, round);
    wait_for(other.filled, round);
    out[t] = 3 * out[t] + other.buffer[t];  // @Read
    raise(own.read, round);
  }
}

int main() {
  int* flags = zeros<int>(4);
  const Side sides[2] = {{zeros<int>(threads), flags, flags + 1}, {zeros<int>(threads), flags + 2, flags + 3}};
  int* out[2] = {zeros<int>(threads), zeros<int>(threads)};
  int* in = to_device(numbers(2 * threads));
  for (int side = 0; side < 2; ++side) {
    exchange<<<1, threads, 0, make_stream(cudaStreamNonBlocking)>>>(in + side * threads, sides[side], sides[1 - side],
                                                                  out[side]);
  }
  report(out[0], threads);
  report(out[1], threads);
}
