// Gradient of an embedding: tokens scatter into the rows of a table, and equal tokens into the same row.
#include "check.h"

constexpr int tokens = 12, rows = 5, width = 32;

__global__ void scatter(const int* token, const float* gradient, float* table) {
  unsigned column = threadIdx.x;
  float value = gradient[blockIdx.x * width + column];
  float* cell = &table[token[blockIdx.x] * width + column];
#ifdef RACY
  *cell += value;  // @A
#else
  atomicAdd(cell, value);
#endif
}

int main() {
  std::vector<int> token = numbers(tokens), whole = numbers(tokens * width);
  for (int& t : token) t %= rows;
  int* device_token = to_device(token);
  float* gradient = to_device(std::vector<float>(whole.begin(), whole.end()));
  float* table = zeros<float>(rows * width);
  scatter<<<tokens, width>>>(device_token, gradient, table);
  report(table, rows * width);
}
