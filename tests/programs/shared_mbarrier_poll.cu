// Two phases of one mbarrier. The racy twin looks once whether the second is complete, and goes on either way.
#include "check.h"

#include "async.h"

constexpr int threads = 64;

__global__ void twice(const int* in, int* out) {
  __shared__ alignas(8) std::uint64_t barrier;
  __shared__ int a[threads], b[threads];
  unsigned t = threadIdx.x;
  if (t == 0) mbarrier_init(&barrier, threads);
  __syncthreads();
  a[t] = in[t];
  mbarrier_arrive(&barrier);
  mbarrier_wait(&barrier, 0);
  b[t] = a[threads - 1 - t] + 7;  // @A
  mbarrier_arrive(&barrier);
#ifdef RACY
  asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%0], 1; }" ::"r"(shared_address(&barrier))
               : "memory");
#else
  mbarrier_wait(&barrier, 1);
#endif
  out[t] = b[(t + 5) % threads];  // @B
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  twice<<<1, threads>>>(in, out);
  report(out, threads);
}
