// Two phases in one cooperative launch. The grid barrier between them is missing.
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;
constexpr int threads = 64, blocks = 4, count = threads * blocks;

__global__ void phases(const int* in, int* middle, int* out) {
  unsigned i = blockIdx.x * threads + threadIdx.x;
  middle[i] = 2 * in[i];  // @A
#ifndef RACY
  cg::this_grid().sync();
#endif
  out[i] = middle[count - 1 - i];  // @B
}

int main() {
  int* in = to_device(numbers(count));
  int* middle = zeros<int>(count);
  int* out = zeros<int>(count);
  void* arguments[] = {&in, &middle, &out};
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(phases), dim3(blocks), dim3(threads), arguments, 0, 0));
  report(out, count);
}
