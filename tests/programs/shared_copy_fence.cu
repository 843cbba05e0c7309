// A block copies a tile into shared memory with cp.async and waits for it; one thread stores it with a bulk copy. The racy
// twin leaves out the fence between the two proxies.
#include "check.h"

#include "async.h"

constexpr int threads = 64;

__global__ void through(const int4* in, int4* out) {
  __shared__ alignas(16) int4 s[threads];
  const unsigned t = threadIdx.x;
  const auto* from = static_cast<const int4*>(in) + t;
  // clang-format off
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(s + t)), "l"(__cvta_generic_to_global(from)) : "memory");  // @A
  // clang-format on
  asm volatile("cp.async.wait_all;" ::: "memory");
#ifndef RACY
  fence_proxy_async();
#endif
  __syncthreads();
  if (t == 0) {
    std::size_t to = __cvta_generic_to_global(out);
    // clang-format off
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(s)), "n"(sizeof s) : "memory");  // @B
    // clang-format on
    bulk_commit();
    bulk_wait();
  }
}

int main() {
  int* in = to_device(numbers(4 * threads));
  int* out = zeros<int>(4 * threads);
  through<<<1, threads>>>(reinterpret_cast<const int4*>(in), reinterpret_cast<int4*>(out));
  report(out, 4 * threads);
}
