// A stencil in one cooperative launch, in place. Of its grid barriers the second is missing: what a block reads, the one
// beside it may have written already. The blocks between two barriers do little: who is let go last could meet others
// that have come to the next barrier.
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;
constexpr int threads = 32, blocks = 4;

__global__ void smooth(const int* in, int* values, int* out) {
  cg::grid_group grid = cg::this_grid();
  const unsigned block = blockIdx.x;
  if (threadIdx.x == 0) values[block] = in[block];
  grid.sync();
  int next = 0;
  if (threadIdx.x == 0) next = values[(block + 1) % blocks];  // @Read
#ifndef RACY
  grid.sync();
#endif
  if (threadIdx.x == 0) values[block] += next;  // @Write
  grid.sync();
  if (threadIdx.x == 0) out[block] = values[(block + 2) % blocks];
}

int main() {
  int* in = to_device(numbers(blocks));
  int* values = zeros<int>(blocks);
  int* out = zeros<int>(blocks);
  void* arguments[] = {&in, &values, &out};
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(smooth), dim3(blocks), dim3(threads), arguments, 0, 0));
  report(out, blocks);
}
