// Every thread copies with cp.async; readers wait on an mbarrier. The racy twin arrives itself instead of leaving the
// arrival to the copy.
#include "check.h"

#include "async.h"

constexpr int threads = 64;

__global__ void reverse(const int* in, int* out) {
  __shared__ alignas(16) int s[threads];
  __shared__ alignas(8) std::uint64_t barrier;
  unsigned t = threadIdx.x;
  if (t == 0) mbarrier_init(&barrier, threads);
  __syncthreads();
  std::size_t from = __cvta_generic_to_global(in + t);
  // clang-format off
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(&s[t])), "l"(from) : "memory");  // @A
  // clang-format on
#ifdef RACY
  mbarrier_arrive(&barrier);
#else
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
#endif
  mbarrier_wait(&barrier, 0);
  out[t] = s[threads - 1 - t];  // @B
  asm volatile("cp.async.wait_all;" ::: "memory");
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  reverse<<<1, threads>>>(in, out);
  report(out, threads);
}
