// Every block reads the sum of the block before it, as if blocks ran in order. The fixed twin makes two launches of it.
#include "check.h"

constexpr int blocks = 6;

__global__ void sums(const int* in, int* sum, int* out, bool write, bool read) {
  int value = in[blockIdx.x * 32 + threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if (threadIdx.x != 0) return;
  if (write) sum[blockIdx.x] = value;                                     // @A
  if (read) out[blockIdx.x] = blockIdx.x == 0 ? 0 : sum[blockIdx.x - 1];  // @B
}

int main() {
  int* in = to_device(numbers(blocks * 32));
  int* sum = zeros<int>(blocks);
  int* out = zeros<int>(blocks);
#ifdef RACY
  sums<<<blocks, 32>>>(in, sum, out, true, true);
#else
  sums<<<blocks, 32>>>(in, sum, out, true, false);
  sums<<<blocks, 32>>>(in, sum, out, false, true);
#endif
  report(out, blocks);
}
