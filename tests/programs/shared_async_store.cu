// The blocks of a cluster send each other values by st.async, which completes on an mbarrier of the receiver. The racy
// twin reads before it waits.
#include <cooperative_groups.h>

#include "async.h"
#include "check.h"

namespace cg = cooperative_groups;
constexpr int threads = 64;

__device__ void store_async(unsigned to, int value, unsigned barrier) {
  // clang-format off
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(value), "r"(barrier) : "memory");  // @A
  // clang-format on
}
__device__ unsigned in_block(unsigned address, unsigned rank) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

__global__ void __cluster_dims__(2, 1, 1) swap(const int* in, int* out) {
  __shared__ int s[threads];
  __shared__ std::uint64_t received;
  cg::cluster_group cluster = cg::this_cluster();
  unsigned t = threadIdx.x, i = blockIdx.x * threads + t, other = cluster.block_rank() ^ 1;
  if (t == 0) {
    mbarrier_init(&received, 1);
    mbarrier_arrive_expect(&received, sizeof s);
  }
  cluster.sync();
  store_async(in_block(shared_address(&s[t]), other), in[i], in_block(shared_address(&received), other));
#ifndef RACY
  mbarrier_wait(&received, 0);
#endif
  out[i] = s[threads - 1 - t];  // @B
  mbarrier_wait(&received, 0);
  cluster.sync();
}

int main() {
  int* in = to_device(numbers(2 * threads));
  int* out = zeros<int>(2 * threads);
  swap<<<2, threads>>>(in, out);
  report(out, 2 * threads);
}
