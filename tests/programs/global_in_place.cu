// Rows become their softmax in place. Both parameters are __restrict__, so that a row is read through the non-coherent
// cache, which is for memory that no thread writes meanwhile. Who needs what it read before it stores, or before a
// barrier behind which others store, has read in time. What the launch has written it must read by the other pointer.
#include "check.h"

constexpr int rows = 2, width = 128, threads = 64;

__device__ float block_sum(float value, float* partial) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return partial[0] + partial[1];
}

// 2^x, of whole numbers up to 8.
__device__ float power(float x) { return float(1 << int(x)); }

__global__ void softmax(const float* __restrict__ in, float* __restrict__ out, float* __restrict__ last) {
  __shared__ float partial[threads / 32];
  const float* row = in + blockIdx.x * width;
  float* to = out + blockIdx.x * width;
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += threads) sum += power(row[i]);
  sum = block_sum(sum, partial);
  for (int i = threadIdx.x; i < width; i += threads) to[width - 1 - i] = power(row[width - 1 - i]) / sum;  // @A
  __syncthreads();
#ifdef RACY
  if (threadIdx.x == threads - 1) last[blockIdx.x] = row[width - 1];  // @B
#else
  if (threadIdx.x == threads - 1) last[blockIdx.x] = to[width - 1];
#endif
}

int main() {
  std::vector<float> values;
  for (const int value : numbers(rows * width)) values.push_back(float(value % 8));
  float *data = to_device(values), *last = zeros<float>(rows);
  softmax<<<rows, threads>>>(data, data, last);
  std::vector<float> results = to_host(data, rows * width);
  for (const float value : to_host(last, rows)) results.push_back(value);
  for (float& result : results) result *= 1 << 20;
  print_checksum(results.data(), results.size());
}
