// A thread hands values to one of another warp, which asks early whether the phase is complete. The racy twin takes the
// hint for the wait: it does not look at the outcome, and goes on where the phase is not complete, too.
#include "check.h"

#include "async.h"

constexpr int threads = 64;

// May wait a while, and says whether the phase is complete.
__device__ inline unsigned mbarrier_try(std::uint64_t* barrier, unsigned parity) {
  unsigned done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(shared_address(barrier)), "r"(parity)
               : "memory");
  return done;
}

__global__ void turns(const int* in, int* out) {
  __shared__ alignas(8) std::uint64_t full;
  __shared__ int value;
  unsigned t = threadIdx.x;
  if (t == 0) mbarrier_init(&full, 1);
  __syncthreads();
  int sum = 0;
  for (unsigned turn = 0; turn < 2; ++turn) {
    if (t == 0) {
      value = in[turn];  // @A
      mbarrier_arrive(&full);
    } else if (t == 32) {
      unsigned done = mbarrier_try(&full, turn);
#ifndef RACY
      if (!done) mbarrier_wait(&full, turn);
#endif
      (void)done;
      sum += value;  // @B
    }
    __syncthreads();
  }
  out[t] = sum;
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  turns<<<1, threads>>>(in, out);
  report(out, threads);
}
