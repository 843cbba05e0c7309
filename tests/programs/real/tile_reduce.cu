// Row sums with a tile of 16 threads a row: tiled_partition and cooperative_groups::reduce.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "check.h"

namespace cg = cooperative_groups;
constexpr int threads = 128, tile_size = 16, rows = 64, columns = 200;

__global__ void row_sums(const int* matrix, int* sums, int* maxima) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<tile_size>(block);
  int row = blockIdx.x * (threads / tile_size) + tile.meta_group_rank();
  int sum = 0, largest = 0;
  for (int column = tile.thread_rank(); column < columns; column += tile_size) {
    int value = matrix[row * columns + column];
    sum += value;
    largest = max(largest, value);
  }
  sum = cg::reduce(tile, sum, cg::plus<int>());
  for (int distance = tile_size / 2; distance > 0; distance /= 2) {
    largest = max(largest, tile.shfl_xor(largest, distance));
  }
  if (tile.thread_rank() == 0) {
    sums[row] = sum;
    maxima[row] = largest;
  }
}

int main() {
  std::vector<int> matrix = numbers(rows * columns);
  int *device = to_device(matrix), *sums = zeros<int>(rows), *maxima = zeros<int>(rows);
  row_sums<<<rows / (threads / tile_size), threads>>>(device, sums, maxima);
  std::vector<int> found_sums = to_host(sums, rows), found_maxima = to_host(maxima, rows);
  for (int row = 0; row < rows; ++row) {
    int sum = 0, largest = 0;
    for (int column = 0; column < columns; ++column) {
      sum += matrix[row * columns + column];
      if (matrix[row * columns + column] > largest) largest = matrix[row * columns + column];
    }
    if (found_sums[row] != sum || found_maxima[row] != largest) return std::printf("wrong in row %d\n", row), 0;
  }
  std::printf("ok %d elements\n", rows * columns);
}
