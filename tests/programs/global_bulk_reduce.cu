// Every block adds its tile to one in global memory with a bulk reduction; the last block to finish reads the sum. The
// racy twin does not wait for the reduction before it says that the block has finished.
#include "check.h"

#include "async.h"

constexpr int threads = 64, blocks = 4;

__global__ void sum(const int* in, int* total, unsigned* finished, int* out) {
  __shared__ alignas(16) int s[threads];
  __shared__ bool last;
  unsigned t = threadIdx.x;
  s[t] = in[blockIdx.x * threads + t];
  fence_proxy_async();
  __syncthreads();
  if (t == 0) {
    std::size_t to = __cvta_generic_to_global(total);
    // clang-format off
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(to), "r"(shared_address(s)), "n"(sizeof s) : "memory");  // @A
    // clang-format on
    bulk_commit();
#ifndef RACY
    bulk_wait();
#endif
    __threadfence();
    last = atomicAdd(finished, 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  if (last) out[t] = total[t];  // @B
  if (t == 0) bulk_wait();
}

int main() {
  int* in = to_device(numbers(blocks * threads));
  int* total = zeros<int>(threads);
  unsigned* finished = zeros<unsigned>(1);
  int* out = zeros<int>(threads);
  sum<<<blocks, threads>>>(in, total, finished, out);
  report(out, threads);
}
