// The producer is the block's last warp, of 16 threads: at a barrier with a thread count it counts as a whole one (PTX ISA
// 9.7.13.1: counts are multiples of the warp size). Arriving before the write releases nothing.
#include "check.h"

constexpr int consumers = 32, producers = 16;

__global__ void hand_over(const int* in, int* out) {
  __shared__ int s[producers];
  unsigned t = threadIdx.x;
  if (t >= consumers) {
#ifdef RACY
    asm volatile("barrier.cta.arrive 1, 64;" ::: "memory");
    s[t - consumers] = in[t - consumers];  // @A
#else
    s[t - consumers] = in[t - consumers];
    asm volatile("barrier.cta.arrive 1, 64;" ::: "memory");
#endif
  } else {
    asm volatile("barrier.cta.sync 1, 64;" ::: "memory");
    out[t] = s[t % producers];  // @B
  }
}

int main() {
  int* in = to_device(numbers(producers));
  int* out = zeros<int>(consumers);
  hand_over<<<1, consumers + producers>>>(in, out);
  report(out, consumers);
}
