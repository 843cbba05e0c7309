// Softmax, a block a row: maximum and sum by warp shuffles, then through shared memory between the warps.
#include <cmath>

#include "check.h"

constexpr int threads = 128, rows = 8, columns = 700;

template <class Combine>
__device__ float block_reduce(float value, float neutral, Combine combine) {
  __shared__ float warps[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  if (lane == 0) warps[warp] = value;
  __syncthreads();
  value = lane < blockDim.x / 32 ? warps[lane] : neutral;
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  __syncthreads();
  return value;
}

__global__ void softmax(const float* __restrict__ in, float* __restrict__ out, int width) {
  const float* row = in + blockIdx.x * width;
  float largest = -INFINITY, sum = 0.0f;
  for (int i = threadIdx.x; i < width; i += blockDim.x) largest = fmaxf(largest, row[i]);
  largest = block_reduce(largest, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
  for (int i = threadIdx.x; i < width; i += blockDim.x) sum += expf(row[i] - largest);
  sum = block_reduce(sum, 0.0f, [](float a, float b) { return a + b; });
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    out[blockIdx.x * width + i] = expf(row[i] - largest) / sum;
  }
}

int main() {
  std::vector<float> in;
  for (int value : numbers(rows * columns)) in.push_back(0.05f * value);
  float *device = to_device(in), *out = zeros<float>(in.size());
  softmax<<<rows, threads>>>(device, out, columns);
  std::vector<float> result = to_host(out, in.size());
  for (int row = 0; row < rows; ++row) {
    double sum = 0;
    for (int i = 0; i < columns; ++i) sum += std::exp(double(in[row * columns + i]));
    for (int i = 0; i < columns; ++i) {
      double expected = std::exp(double(in[row * columns + i])) / sum;
      if (std::fabs(result[row * columns + i] - expected) > 1e-5 * expected + 1e-9) {
        return std::printf("wrong at row %d column %d\n", row, i), 0;
      }
    }
  }
  std::printf("ok %d elements\n", rows * columns);
}
