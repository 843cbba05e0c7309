// A softmax whose exponentials overflow, since nobody takes the row's largest element away first.
#include "check.h"

constexpr int rows = 4, columns = 64;

__device__ float over_warp(float value, bool largest) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = largest ? fmaxf(value, other) : value + other;
  }
  return value;
}

__global__ void softmax(const float* in, float* out) {
  const float* row = in + blockIdx.x * columns;
  float largest = 0.0f, sum = 0.0f;
#ifndef RACY
  largest = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += 32) largest = fmaxf(largest, row[i]);
  largest = over_warp(largest, true);
#endif
  for (int i = threadIdx.x; i < columns; i += 32) sum += expf(row[i] - largest);  // @A
  sum = over_warp(sum, false);
  for (int i = threadIdx.x; i < columns; i += 32)
    out[blockIdx.x * columns + i] = expf(row[i] - largest) / sum;  // @B
}

int main() {
  std::vector<float> logits;
  for (int value : numbers(rows * columns)) logits.push_back(0.95f * float(value) + 0.3f);
  float* in = to_device(logits);
  float* out = zeros<float>(rows * columns);
  softmax<<<rows, 32>>>(in, out);
  const std::vector<float> result = to_host(out, rows * columns);
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int i = 0; i < columns; ++i) sum += result[r * columns + i];
    std::printf("row %d %s\n", r, sum > 0.999 && sum < 1.001 ? "adds up" : "does not add up");
  }
}
