// Blocks that wait for others: for a flag, and at a counter of those who have arrived. The racy twin has lost the loops:
// it reads the flag, and adds to the counter, without a look at what comes back. Fences and orders are all there.
#include <cuda/atomic>

#include "check.h"

constexpr int threads = 64, blocks = 4;

__global__ void pass(const int* in, int* data, int* flag, int* out) {
  unsigned t = threadIdx.x;
  cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
  if (blockIdx.x == 0) {
    data[t] = 3 * in[t];  // @A
    __syncthreads();
    if (t == 0) ready.store(1, cuda::memory_order_release);
  } else {
    if (t == 0) {
#ifdef RACY
      (void)ready.load(cuda::memory_order_acquire);
#else
      while (ready.load(cuda::memory_order_acquire) == 0) {
      }
#endif
    }
    __syncthreads();
    out[t] = data[threads - 1 - t];  // @B
  }
}

__global__ void meet(int* data, int* arrived, int* out) {
  unsigned t = threadIdx.x, b = blockIdx.x;
  data[b * threads + t] += 5 * int(b + t);  // @C
  __syncthreads();
  if (t == 0) {
    __threadfence();
    atomicAdd(arrived, 1);
#ifndef RACY
    while (atomicAdd(arrived, 0) < blocks) {
    }
#endif
    __threadfence();
  }
  __syncthreads();
  out[b * threads + t] = data[(b + blocks - 1) % blocks * threads + t];  // @D
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads * blocks);
  int* flags = zeros<int>(2);
  int* out = zeros<int>(threads);
  pass<<<2, threads>>>(in, data, flags, out);
  report(out, threads);
  int* all = zeros<int>(threads * blocks);
  meet<<<blocks, threads>>>(data, flags + 1, all);
  report(all, threads * blocks);
}
