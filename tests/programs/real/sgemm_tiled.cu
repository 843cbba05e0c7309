// C = alpha A B + beta C: 32x32 tiles in shared memory, 2x2 results a thread, sizes that are no multiple of the tile.
#include <cmath>

#include "check.h"

constexpr int tile = 32, depth = 16, height = 90, width = 70, inner = 50;

__global__ void sgemm(int m, int n, int k, float alpha, const float* a, const float* b, float beta, float* c) {
  __shared__ float as[depth][tile + 1], bs[depth][tile + 1];
  int thread = threadIdx.y * 16 + threadIdx.x, row = blockIdx.y * tile, column = blockIdx.x * tile;
  float sum[2][2] = {};
  for (int first = 0; first < k; first += depth) {
    for (int e = thread; e < tile * depth; e += 256) {
      int i = e / depth, p = e % depth, q = e / tile, j = e % tile;
      as[p][i] = row + i < m && first + p < k ? a[(row + i) * k + first + p] : 0.0f;
      bs[q][j] = first + q < k && column + j < n ? b[(first + q) * n + column + j] : 0.0f;
    }
    __syncthreads();
    for (int p = 0; p < depth; ++p) {
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) sum[i][j] += as[p][threadIdx.y + 16 * i] * bs[p][threadIdx.x + 16 * j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      int y = row + threadIdx.y + 16 * i, x = column + threadIdx.x + 16 * j;
      if (y < m && x < n) c[y * n + x] = alpha * sum[i][j] + beta * c[y * n + x];
    }
  }
}

std::vector<float> matrix(int rows, int columns) {
  std::vector<float> values;
  for (int value : numbers(rows * columns)) values.push_back(0.02f * value - 1.0f);
  return values;
}

int main() {
  std::vector<float> a = matrix(height, inner), b = matrix(inner, width), c = matrix(height, width);
  float *device_a = to_device(a), *device_b = to_device(b), *device_c = to_device(c);
  dim3 blocks((width + tile - 1) / tile, (height + tile - 1) / tile);
  sgemm<<<blocks, dim3(16, 16)>>>(height, width, inner, 1.5f, device_a, device_b, 0.5f, device_c);
  std::vector<float> result = to_host(device_c, c.size());
  for (int i = 0; i < height; ++i) {
    for (int j = 0; j < width; ++j) {
      double sum = 0;
      for (int p = 0; p < inner; ++p) sum += double(a[i * inner + p]) * b[p * width + j];
      if (std::fabs(result[i * width + j] - (1.5 * sum + 0.5 * c[i * width + j])) > 1e-4) {
        return std::printf("wrong at row %d column %d\n", i, j), 0;
      }
    }
  }
  std::printf("ok %d elements\n", height * width);
}
