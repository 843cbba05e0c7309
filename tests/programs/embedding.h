// An embedding's gradient, as the precision_embedding programs accumulate it: tokens add their rows by atomics. How
// often a row is hit depends on how tokens are drawn.
#pragma once

#include <cuda_bf16.h>

#include <cmath>

#include "check.h"

constexpr int tokens = 4096, rows = 256, width = 4;

template <class Sum>
__global__ void add_gradients(const int* ids, const float* gradient, Sum* table) {
  const int token = blockIdx.x * blockDim.x + threadIdx.x;
  for (int column = 0; column < width; ++column)
    atomicAdd(&table[ids[token] * width + column], Sum(gradient[token * width + column]));
}

// Each row as often as any other.
inline std::vector<int> uniform_draw() {
  std::vector<int> ids(tokens);
  for (int i = 0; i < tokens; ++i) ids[i] = (i * 97 + 13) % rows;
  return ids;
}

// Row k about as often as 1 / (k + 1) says: as words occur in a text.
inline std::vector<int> zipf_draw() {
  std::vector<int> ids(tokens);
  for (int i = 0; i < tokens; ++i) {
    const double u = ((i * 769 + 5) % tokens + 0.5) / tokens;
    ids[i] = int(std::exp(u * std::log(double(rows)))) - 1;
  }
  return ids;
}

template <class Sum>
void accumulate(const std::vector<int>& ids) {
  std::vector<float> gradient(tokens * width);
  for (int i = 0; i < tokens * width; ++i) gradient[i] = 0.01f + 0.0001f * float(i * 37 % 11);
  int* device_ids = to_device(ids);
  float* device_gradient = to_device(gradient);
  Sum* table = zeros<Sum>(rows * width);
  add_gradients<<<tokens / 128, 128>>>(device_ids, device_gradient, table);
  const std::vector<Sum> result = to_host(table, rows * width);
  double sum = 0, wanted = 0;
  for (const Sum& value : result) sum += float(value);
  for (float value : gradient) wanted += value;
  std::printf("the table %s up\n", std::fabs(sum - wanted) < 0.01 * wanted ? "adds" : "does not add");
}
