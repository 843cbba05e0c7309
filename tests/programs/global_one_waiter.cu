// Thread 0 of a block waits until another block's data are there. Without the barrier behind its wait, the block's other
// threads do not wait.
#include <cuda/atomic>

#include "check.h"

constexpr int threads = 64;

__global__ void hand_over(int* data, int* flag, int* out) {
  const int t = threadIdx.x;
  cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
  if (blockIdx.x == 1) {
    data[t] = 3 * t + 1;  // @A
    __syncthreads();
    if (t == 0) ready.store(1, cuda::memory_order_release);
    return;
  }
  if (t == 0) {
    while (!ready.load(cuda::memory_order_acquire)) {
    }
  }
#ifndef RACY
  __syncthreads();
#endif
  out[t] = data[threads - 1 - t];  // @B
}

int main() {
  int *data = zeros<int>(threads), *flag = zeros<int>(1), *out = zeros<int>(threads);
  hand_over<<<2, threads>>>(data, flag, out);
  report(out, threads);
}
