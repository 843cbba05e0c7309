// A block-wide sum, called twice in a row. Without a barrier at its end, the second call overwrites the warps' sums
// that the first is still adding.
#include "check.h"

constexpr int threads = 128, warps = threads / 32;

__device__ int block_sum(int value) {
  __shared__ int sums[warps];
  unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if (lane == 0) sums[warp] = value;  // @A
  __syncthreads();
  int total = 0;
#pragma unroll 1
  for (unsigned w = 0; w < warps; ++w) total += sums[w];  // @B
#ifndef RACY
  __syncthreads();
#endif
  return total;
}

__global__ void deviations(const int* in, int* out) {
  unsigned t = threadIdx.x;
  int value = in[t];
  int mean = block_sum(value) / threads;
  int spread = block_sum(abs(value - mean));
  out[t] = mean * 1000 + spread;
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  deviations<<<1, threads>>>(in, out);
  report(out, threads);
}
