// As in global_last_block_fence, with C++ orders: every ticket releases, but the last block's must also acquire.
#include <cuda/atomic>

#include "check.h"

constexpr int blocks = 6;
#ifdef RACY
constexpr cuda::memory_order order = cuda::memory_order_release;
#else
constexpr cuda::memory_order order = cuda::memory_order_acq_rel;
#endif

__global__ void sum(const int* in, int* partial, unsigned* finished, int* total) {
  int value = in[blockIdx.x * 32 + threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if (threadIdx.x != 0) return;
  partial[blockIdx.x] = value;  // @A
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> tickets(*finished);
  if (tickets.fetch_add(1u, order) != gridDim.x - 1) return;
  int all = 0;
#pragma unroll 1
  for (unsigned b = 0; b < gridDim.x; ++b) all += partial[b];  // @B
  total[0] = all;
}

int main() {
  int* in = to_device(numbers(blocks * 32));
  int* partial = zeros<int>(blocks);
  unsigned* finished = zeros<unsigned>(1);
  int* total = zeros<int>(1);
  sum<<<blocks, 32>>>(in, partial, finished, total);
  report(total, 1);
}
