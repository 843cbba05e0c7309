// One warp fills a tile and arrives at an mbarrier, the other waits for the phase and reads. The racy twin's arrival is
// relaxed: it counts, and publishes nothing. The reader always comes later; it is the old bytes that give it away.
#include "check.h"

#include "async.h"

constexpr int threads = 64, lanes = 32;

__global__ void pass(const int* in, int* out) {
  __shared__ alignas(8) std::uint64_t barrier;
  __shared__ int s[lanes];
  unsigned t = threadIdx.x;
  if (t == 0) mbarrier_init(&barrier, lanes);
  if (t < lanes) s[t] = 0;
  __syncthreads();
  if (t < lanes) {
    s[t] = 3 * in[t];  // @A
#ifdef RACY
    asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
#else
    mbarrier_arrive(&barrier);
#endif
  } else {
    mbarrier_wait(&barrier, 0);
    out[t - lanes] = s[threads - 1 - t];  // @B
  }
}

int main() {
  int* in = to_device(numbers(lanes));
  int* out = zeros<int>(lanes);
  pass<<<1, threads>>>(in, out);
  report(out, lanes);
}
