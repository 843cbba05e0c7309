// Every block fills a range of its own. With one element too many, ranges overlap at their borders.
#include "check.h"

constexpr int threads = 32, blocks = 4, range = 48;
#ifdef RACY
constexpr int extra = 1;
#else
constexpr int extra = 0;
#endif

__global__ void fill(int* out) {
  unsigned first = blockIdx.x * range, end = min(first + range + extra, unsigned(blocks * range));
#pragma unroll 1
  for (unsigned i = first + threadIdx.x; i < end; i += threads) out[i] = 100 * blockIdx.x + threadIdx.x;  // @A
}

int main() {
  int* out = zeros<int>(blocks * range);
  fill<<<blocks, threads>>>(out);
  report(out, blocks * range);
}
