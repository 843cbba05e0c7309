// A producer warp fills a stage for each step with a bulk copy, a warpgroup multiplies them (wgmma). The racy warpgroup
// does not wait for the last stage to be full.
#include "warpgroup.h"

constexpr int steps = 3;

__global__ void product(const __nv_bfloat16* tiles, float* c) {
  __shared__ alignas(128) __nv_bfloat16 stage[steps][a_tile + b_tile];
  __shared__ alignas(8) std::uint64_t full[steps];
  if (threadIdx.x == 0) {
    for (auto& barrier : full) mbarrier_init(&barrier, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x != 128) return;
    for (int s = 0; s < steps; ++s) {
      mbarrier_arrive_expect(&full[s], sizeof stage[s]);
      const std::size_t from = __cvta_generic_to_global(tiles + s * (a_tile + b_tile));
      // clang-format off
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(stage[s])), "l"(from), "n"(sizeof stage[s]), "r"(shared_address(&full[s])) : "memory");  // @A
      // clang-format on
    }
    return;
  }
  float d[tile_sums] = {};
  for (int s = 0; s < steps; ++s) {
#ifdef RACY
    if (s != steps - 1)
#endif
      mbarrier_wait(&full[s], 0);
    warpgroup_fence();
    multiply(d, stage[s], stage[s] + a_tile);  // @B
    warpgroup_commit();
    warpgroup_wait<0>(d);
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
