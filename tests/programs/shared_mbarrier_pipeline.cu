// A producer warp fills two buffers in turn, a consumer warp empties them; a full and an empty mbarrier each. The racy
// consumer says that a buffer is empty before it has read it.
#include "check.h"

#include "async.h"

constexpr int lanes = 32, stages = 2, tiles = 6;

__global__ void scale(const int* in, int* out) {
  __shared__ int buffer[stages][lanes];
  __shared__ alignas(8) std::uint64_t full[stages], empty[stages];
  unsigned lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      mbarrier_init(&full[s], lanes);
      mbarrier_init(&empty[s], lanes);
    }
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int tile = 0; tile < tiles; ++tile) {
      int s = tile % stages;
      mbarrier_wait(&empty[s], (tile / stages & 1) ^ 1);
      buffer[s][lane] = in[tile * lanes + lane];  // @A
      mbarrier_arrive(&full[s]);
    }
  } else {
    for (int tile = 0; tile < tiles; ++tile) {
      int s = tile % stages;
      mbarrier_wait(&full[s], tile / stages & 1);
#ifdef RACY
      mbarrier_arrive(&empty[s]);
#endif
      out[tile * lanes + lane] = 3 * buffer[s][lanes - 1 - lane];  // @B
#ifndef RACY
      mbarrier_arrive(&empty[s]);
#endif
    }
  }
}

int main() {
  int* in = to_device(numbers(tiles * lanes));
  int* out = zeros<int>(tiles * lanes);
  scale<<<1, 2 * lanes>>>(in, out);
  report(out, tiles * lanes);
}
