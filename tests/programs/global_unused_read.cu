// Two threads load each element, as tile compilers have it where a tile has fewer elements than its block has threads;
// one of them stores what comes of it, in the racy twin in place.
#include "check.h"

constexpr int count = 32, threads = 2 * count, blocks = 4;

__global__ void scaled(int* data, int* out) {
  const unsigned t = threadIdx.x, at = blockIdx.x * count + t % count;
  int value, twice;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(data + at)) : "memory");  // @A
  twice = 2 * value + 1;
#ifdef RACY
  if (t < count) data[at] = twice;  // @B
#else
  if (t < count) out[at] = twice;
#endif
}

int main() {
  int* data = to_device(numbers(blocks * count));
  int* out = zeros<int>(blocks * count);
  scaled<<<blocks, threads>>>(data, out);
#ifdef RACY
  report(data, blocks * count);
#else
  report(out, blocks * count);
#endif
}
