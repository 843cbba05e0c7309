// Two blocks exchange numbers step by step, each beside a flag in 8 bytes that are read until the flag is the step's (as
// NCCL's LL protocol has them). A block is never more than a step ahead of the other one, so that two slots in turn are
// enough. The racy twin has one.
#include "check.h"

constexpr int threads = 1, steps = 3;
#ifdef RACY
constexpr int slots = 1;
#else
constexpr int slots = 2;
#endif

__global__ void exchange(const int* in, int2* pairs, int* out) {
  const int t = threadIdx.x, me = blockIdx.x;
  int sum = in[me * threads + t];
  for (int step = 0; step < steps; ++step) {
    int2* const slot = pairs + step % slots * 2 * threads + t;
    asm volatile("st.relaxed.gpu.global.v2.s32 [%0], {%1, %2};" ::
                 "l"(slot + (1 - me) * threads), "r"(sum), "r"(step + 1) : "memory");  // @A
    int other, flag;
    do {
      asm volatile("ld.relaxed.gpu.global.v2.s32 {%0, %1}, [%2];"
                   : "=r"(other), "=r"(flag) : "l"(slot + me * threads) : "memory");  // @B
    } while (flag != step + 1);
    sum = 3 * sum + other;
  }
  out[me * threads + t] = sum;
}

int main() {
  int* in = to_device(numbers(2 * threads));
  int2* pairs = zeros<int2>(2 * slots * threads);
  int* out = zeros<int>(2 * threads);
  exchange<<<2, threads>>>(in, pairs, out);
  report(out, 2 * threads);
}
