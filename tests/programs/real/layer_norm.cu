// Layer normalization, a warp a row, four floats a load, mean and variance in one pass each.
#include <cmath>

#include "check.h"

constexpr int warps = 4, rows = 24, columns = 512;

__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

__global__ void layer_norm(const float4* __restrict__ in, const float4* __restrict__ weight,
                           const float4* __restrict__ bias, float4* __restrict__ out, int height, int vectors) {
  int lane = threadIdx.x % 32, row = blockIdx.x * warps + threadIdx.x / 32;
  if (row >= height) return;
  const float4* x = in + row * vectors;
  float sum = 0.0f, squares = 0.0f;
  for (int i = lane; i < vectors; i += 32) sum += x[i].x + x[i].y + x[i].z + x[i].w;
  float mean = warp_sum(sum) / (4 * vectors);
  for (int i = lane; i < vectors; i += 32) {
    float a = x[i].x - mean, b = x[i].y - mean, c = x[i].z - mean, d = x[i].w - mean;
    squares += a * a + b * b + c * c + d * d;
  }
  float scale = rsqrtf(warp_sum(squares) / (4 * vectors) + 1e-5f);
  for (int i = lane; i < vectors; i += 32) {
    float4 value = x[i], w = __ldg(&weight[i]), b = __ldg(&bias[i]);
    out[row * vectors + i] = make_float4((value.x - mean) * scale * w.x + b.x, (value.y - mean) * scale * w.y + b.y,
                                         (value.z - mean) * scale * w.z + b.z, (value.w - mean) * scale * w.w + b.w);
  }
}

int main() {
  std::vector<float> in, weight, bias;
  for (int value : numbers(rows * columns)) in.push_back(0.1f * value);
  for (int value : numbers(columns)) weight.push_back(0.01f * value), bias.push_back(1.0f - 0.02f * value);
  float *x = to_device(in), *w = to_device(weight), *b = to_device(bias), *out = zeros<float>(in.size());
  layer_norm<<<(rows + warps - 1) / warps, 32 * warps>>>(reinterpret_cast<float4*>(x), reinterpret_cast<float4*>(w),
                                                         reinterpret_cast<float4*>(b), reinterpret_cast<float4*>(out),
                                                         rows, columns / 4);
  std::vector<float> result = to_host(out, in.size());
  for (int row = 0; row < rows; ++row) {
    double mean = 0, variance = 0;
    for (int i = 0; i < columns; ++i) mean += double(in[row * columns + i]) / columns;
    for (int i = 0; i < columns; ++i) variance += std::pow(in[row * columns + i] - mean, 2) / columns;
    for (int i = 0; i < columns; ++i) {
      double expected = (in[row * columns + i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i];
      if (std::fabs(result[row * columns + i] - expected) > 1e-4) {
        return std::printf("wrong at row %d column %d\n", row, i), 0;
      }
    }
  }
  std::printf("ok %d elements\n", rows * columns);
}
