// A 64-bit atomic and a 32-bit atomic on its lower half: each is atomic, but not to the other.
#include "check.h"

__global__ void count(unsigned long long* counter, unsigned* reset) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    atomicAdd(counter, 1ull);  // @A
  } else {
    atomicExch(reset, 100u);  // @B
  }
}

int main() {
  unsigned long long* counters = zeros<unsigned long long>(2);
#ifdef RACY
  count<<<2, 32>>>(counters, reinterpret_cast<unsigned*>(counters));
#else
  count<<<2, 32>>>(counters, reinterpret_cast<unsigned*>(counters + 1));
#endif
  report(counters, 2);
}
