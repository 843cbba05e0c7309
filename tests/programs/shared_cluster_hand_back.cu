// A block reads a buffer and hands it back to the other block of its cluster, which fills it again by a bulk copy: over a
// relaxed cluster barrier between the two proxy fences of one direction. The racy twin leaves out the first, so that
// nothing is released.
#include "check.h"

#include "async.h"

constexpr int threads = 32;

__device__ unsigned in_block(unsigned address, unsigned rank) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

__global__ void __cluster_dims__(2, 1, 1) pass(const int* in, int* out) {
  __shared__ alignas(16) int fresh[threads], buffer[threads];
  __shared__ alignas(8) std::uint64_t full;
  const unsigned t = threadIdx.x;
  fresh[t] = 3 * in[t];
  buffer[t] = in[t];
  if (t == 0) mbarrier_init(&full, 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  fence_proxy_async();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  int sum = 0;
  if (blockIdx.x == 1) {
    if (t == 0) mbarrier_arrive_expect(&full, sizeof buffer);
    sum = buffer[threads - 1 - t];  // @A
#ifndef RACY
    asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");
#endif
  }
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (blockIdx.x == 0 && t == 0) {
    asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
    const unsigned to = in_block(shared_address(buffer), 1), object = in_block(shared_address(&full), 1);
    // clang-format off
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "r"(shared_address(fresh)), "n"(sizeof fresh), "r"(object) : "memory");  // @B
    // clang-format on
  }
  if (blockIdx.x == 1) {
    mbarrier_wait(&full, 0);
    out[t] = sum + buffer[t];
  }
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  pass<<<2, threads>>>(in, out);
  report(out, threads);
}
