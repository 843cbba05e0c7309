// One thread starts a bulk copy into shared memory that completes on an mbarrier. The racy twin reads the bytes before
// it waits.
#include <cstdint>

#include "check.h"

constexpr int threads = 64;

__device__ bool completed(unsigned barrier) {
  unsigned done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(barrier)
               : "memory");
  return done;
}

__global__ void reverse(const int* in, int* out) {
  __shared__ alignas(16) int s[threads];
  __shared__ alignas(8) std::uint64_t barrier_storage;
  unsigned t = threadIdx.x;
  unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(&barrier_storage));
  unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(s));
  std::size_t from = __cvta_generic_to_global(in);
  if (t == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (t == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(sizeof s) : "memory");
    // clang-format off
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(to), "l"(from), "n"(sizeof s), "r"(barrier) : "memory");  // @A
    // clang-format on
  }
#ifndef RACY
  while (!completed(barrier)) {
  }
#endif
  out[t] = s[threads - 1 - t];  // @B
  while (!completed(barrier)) {
  }
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  reverse<<<1, threads>>>(in, out);
  report(out, threads);
}
