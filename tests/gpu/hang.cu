// Kernels that never end, one a name: threads wait for others that never come. What a detector must say of them is
// hangs.py's to know; lines are named there.
#include <cstdio>
#include <cstring>

#include "checked_calls.h"

// The last warp waits at a barrier of its own.
__global__ void barriers(int* data) {
  data[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  if (threadIdx.x / 32 == 3)
    asm volatile("barrier.sync 2, 64;" ::: "memory");  // LONELY
  else
    asm volatile("barrier.sync 1, 128;" ::: "memory");  // WAITING
  data[blockIdx.x * blockDim.x + threadIdx.x] = 2;
}

// The mbarrier expects one arrival more than there are threads.
__global__ void mbarriers(int* data) {
  __shared__ unsigned long long object;
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&object));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(blockDim.x + 1) : "memory");
  __syncthreads();
  unsigned long long state;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");  // ARRIVING
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(at), "l"(state) : "memory");
  data[threadIdx.x] = 2;
}

int main(int argc, char** argv) {
  int* data;
  CHECK(cudaMalloc(&data, 4096 * sizeof(int)));
  if (argc > 1 && !std::strcmp(argv[1], "mbarriers"))
    mbarriers<<<1, 64>>>(data);
  else
    barriers<<<4, 128>>>(data);
  CHECK(cudaDeviceSynchronize());
  return 0;
}
