// A sparse triangular system, a row a thread: each row waits for those that it needs. Threads of one warp wait for each
// other, so none may stay in a loop of its own: it looks at a flag, and goes on to the next when that is set. The racy
// twin has lost the fence between a row's value and its flag.
#include "check.h"

constexpr int rows = 96, most = 5;

__global__ void solve(const int* start, const int* column, const int* factor, int* x, volatile int* ready) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  int k = start[row], diagonal = start[row + 1] - 1, sum = row + 1;
  while (k <= diagonal) {
    if (k == diagonal) {
      x[row] = sum % 1009;  // @A
#ifndef RACY
      __threadfence();
#endif
      ready[row] = 1;
      ++k;
    } else if (ready[column[k]]) {
      __threadfence();
      sum += factor[k] * x[column[k]];  // @B
      ++k;
    }
  }
}

int main() {
  std::vector<int> start{0}, column;
  for (int row = 0; row < rows; ++row) {
    for (int k = 0; k < most && row - 1 - 7 * k >= 0; ++k) column.push_back(row - 1 - 7 * k);
    column.push_back(row);
    start.push_back(int(column.size()));
  }
  int* x = zeros<int>(rows);
  solve<<<rows / 32, 32>>>(to_device(start), to_device(column), to_device(numbers(int(column.size()))), x,
                           zeros<int>(rows));
  report(x, rows);
}
