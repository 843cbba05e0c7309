// A block's sum, that several places of two kernels take, one through another function, lacks the barrier behind the
// read of its result: one fault, to be mended in one place, whatever the kernels do between their calls and however
// often they synchronize elsewhere.
#include "check.h"

constexpr int threads = 64;

__device__ int block_sum(int* part, int value) {
  unsigned t = threadIdx.x;
  part[t] = value;  // @A
  __syncthreads();
  for (unsigned half = threads / 2; half; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  int sum = part[0];  // @B
#ifndef RACY
  __syncthreads();
#endif
  return sum;
}

__device__ int block_mean(int* part, int value) {
  return block_sum(part, value) / threads;
}

__global__ void deviate(const int* in, int* out) {
  __shared__ int part[threads], turned[threads];
  unsigned t = threadIdx.x;
  turned[t] = in[t];
  __syncthreads();
  int other = turned[threads - 1 - t];
  __syncthreads();
  turned[t] = other;
  __syncthreads();
  int mean = block_mean(part, other + turned[t ^ 1]);
  int deviation = block_sum(part, abs(in[t] - mean));
  out[t] = block_mean(part, in[t] * deviation % 1000);
}

__global__ void weigh(const int* in, int* out) {
  __shared__ int part[threads];
  unsigned t = threadIdx.x;
  int all = block_sum(part, in[t]);
  out[t] += block_sum(part, in[t] * t % (all + 1));
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  deviate<<<1, threads>>>(in, out);
  weigh<<<1, threads>>>(in, out);
  report(out, threads);
}
