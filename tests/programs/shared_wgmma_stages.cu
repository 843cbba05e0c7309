// A producer warp fills two stages in turn with bulk copies, a warpgroup multiplies them (wgmma). The racy warpgroup says
// that a stage is empty when it has only begun to multiply it: the copy that fills the stage again may overwrite what the
// tensor cores still read.
#include "warpgroup.h"

constexpr int stages = 2, steps = 6;

__global__ void product(const __nv_bfloat16* tiles, float* c) {
  __shared__ alignas(128) __nv_bfloat16 stage[stages][a_tile + b_tile];
  __shared__ alignas(8) std::uint64_t full[stages], empty[stages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], 128);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x != 128) return;
    for (int step = 0; step < steps; ++step) {
      const int s = step % stages;
      mbarrier_wait(&empty[s], (step / stages & 1) ^ 1);
      mbarrier_arrive_expect(&full[s], sizeof stage[s]);
      const std::size_t from = __cvta_generic_to_global(tiles + step * (a_tile + b_tile));
      // clang-format off
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(stage[s])), "l"(from), "n"(sizeof stage[s]), "r"(shared_address(&full[s])) : "memory");  // @A
      // clang-format on
    }
    return;
  }
  float d[tile_sums] = {};
  for (int step = 0; step < steps; ++step) {
    const int s = step % stages;
    mbarrier_wait(&full[s], step / stages & 1);
    warpgroup_fence();
    multiply(d, stage[s], stage[s] + a_tile);  // @B
    warpgroup_commit();
#ifdef RACY
    mbarrier_arrive(&empty[s]);
#endif
    warpgroup_wait<0>(d);
#ifndef RACY
    mbarrier_arrive(&empty[s]);
#endif
  }
  store_sums(c, d);
}

int main() {
  const Factors factors(steps);
  const __nv_bfloat16* tiles = to_device(factors.tiles());
  float* c = zeros<float>(tile_m * tile_n);
  product<<<1, 160>>>(tiles, c);
  factors.compare(to_host(c, tile_m * tile_n));
}
