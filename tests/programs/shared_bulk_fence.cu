// A block writes a tile into shared memory, and one thread stores it with a bulk copy. The racy twin leaves out the
// fence that makes ordinary writes visible to the asynchronous proxy; the barrier alone does not.
#include "check.h"

#include "async.h"

constexpr int threads = 64;

__global__ void doubled(const int* in, int* out) {
  __shared__ alignas(16) int s[threads];
  unsigned t = threadIdx.x;
  s[t] = 2 * in[t];  // @A
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
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  doubled<<<1, threads>>>(in, out);
  report(out, threads);
}
