// Heat diffusion: all time steps in one cooperative launch, with a grid barrier after each.
#include <cooperative_groups.h>

#include <cmath>
#include <utility>

#include "check.h"

namespace cg = cooperative_groups;
constexpr int threads = 128, blocks = 4, count = 2000, steps = 12;

__global__ void diffuse(float* now, float* next, int cells, int rounds) {
  cg::grid_group grid = cg::this_grid();
  for (int round = 0; round < rounds; ++round) {
    for (unsigned i = grid.thread_rank(); i < cells; i += grid.num_threads()) {
      float left = now[i == 0 ? i : i - 1], right = now[i == cells - 1 ? i : i + 1];
      next[i] = now[i] + 0.25f * (left - 2.0f * now[i] + right);
    }
    grid.sync();
    float* swapped = now;
    now = next;
    next = swapped;
  }
}

int main() {
  std::vector<int> whole = numbers(count);
  std::vector<float> expected(whole.begin(), whole.end()), other(count);
  float *now = to_device(expected), *next = zeros<float>(count);
  int cells = count, rounds = steps;
  void* arguments[] = {&now, &next, &cells, &rounds};
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(diffuse), dim3(blocks), dim3(threads), arguments, 0, 0));
  for (int round = 0; round < steps; ++round) {
    for (int i = 0; i < count; ++i) {
      float left = expected[i == 0 ? i : i - 1], right = expected[i == count - 1 ? i : i + 1];
      other[i] = expected[i] + 0.25f * (left - 2.0f * expected[i] + right);
    }
    std::swap(expected, other);
  }
  std::vector<float> result = to_host(steps % 2 ? next : now, count);
  for (int i = 0; i < count; ++i) {
    if (std::fabs(result[i] - expected[i]) > 1e-3f) return std::printf("wrong at %d\n", i), 0;
  }
  std::printf("ok %d elements\n", count);
}
