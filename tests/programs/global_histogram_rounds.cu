// Blocks add to one histogram, meet at a counter and read the sums, as the rounds of a radix selection do. In the racy
// twin thread 0, whose warp adds nothing, says that its block is there without a barrier before: the others may still
// be adding.
#include "check.h"

constexpr int blocks = 3, threads = 96, buckets = 64, elements = 4;

__global__ void select(const int* in, int* histogram, int* arrived, int* out) {
  unsigned t = threadIdx.x;
  for (int e = 0; e < elements && t >= 32; ++e)
    atomicAdd(&histogram[in[(blockIdx.x * elements + e) * threads + t] % buckets], 1);  // @Add
#ifndef RACY
  __syncthreads();
#endif
  if (t == 0) {
    asm volatile("fence.acq_rel.gpu; red.relaxed.gpu.global.add.s32 [%0], 1;" ::"l"(arrived) : "memory");
    int seen;
    do {
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
    } while (seen < blocks);
  }
  __syncthreads();
  out[blockIdx.x * threads + t] = histogram[t % buckets] * static_cast<int>(t + 1);  // @Read
}

int main() {
  int* in = to_device(numbers(blocks * threads * elements));
  int *histogram = zeros<int>(buckets), *arrived = zeros<int>(1), *out = zeros<int>(blocks * threads);
  select<<<blocks, threads>>>(in, histogram, arrived, out);
  report(out, blocks * threads);
}
