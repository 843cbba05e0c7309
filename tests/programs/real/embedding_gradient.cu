// Gradient of an embedding table: tokens scatter-add into rows by float atomics, and padding tokens are skipped.
#include <cmath>

#include "check.h"

constexpr int tokens = 256, rows = 40, width = 96, padding = 3;

__global__ void embedding_gradient(const long long* __restrict__ ids, const float* __restrict__ gradient,
                                   float* __restrict__ table, int count, int columns, long long padding_row) {
  for (int token = blockIdx.x * blockDim.y + threadIdx.y; token < count; token += gridDim.x * blockDim.y) {
    long long row = ids[token];
    if (row == padding_row) continue;
    for (int column = threadIdx.x; column < columns; column += blockDim.x) {
      atomicAdd(&table[row * columns + column], gradient[token * columns + column]);
    }
  }
}

int main() {
  std::vector<long long> ids;
  std::vector<float> gradient;
  for (int value : numbers(tokens)) ids.push_back(value % rows);
  for (int value : numbers(tokens * width)) gradient.push_back(0.01f * value - 0.5f);
  long long* device_ids = to_device(ids);
  float *device_gradient = to_device(gradient), *table = zeros<float>(rows * width);
  embedding_gradient<<<8, dim3(32, 4)>>>(device_ids, device_gradient, table, tokens, width, padding);
  std::vector<double> expected(rows * width, 0.0);
  for (int token = 0; token < tokens; ++token) {
    if (ids[token] == padding) continue;
    for (int i = 0; i < width; ++i) expected[ids[token] * width + i] += gradient[token * width + i];
  }
  std::vector<float> result = to_host(table, rows * width);
  for (int i = 0; i < rows * width; ++i) {
    if (std::fabs(result[i] - expected[i]) > 1e-4) return std::printf("wrong at %d\n", i), 0;
  }
  std::printf("ok %d elements\n", rows * width);
}
