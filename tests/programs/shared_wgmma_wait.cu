// A warpgroup fills two tiles in turn and multiplies each while it fills the other (wgmma). Before it fills one again it
// must have waited for the product before the last; the racy twin waits at the end only.
#include "warpgroup.h"

constexpr int steps = 4;

__global__ void product(const unsigned* tiles, float* c) {
  constexpr int words = (a_tile + b_tile) / 2;
  __shared__ alignas(128) unsigned tile[2][words];
  float d[tile_sums] = {};
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    unsigned* const now = tile[step % 2];
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < words; i += 128) now[i] = tiles[step * words + i];  // @A
    fence_proxy_async();
    __syncthreads();
    warpgroup_fence();
    multiply(d, now, now + a_tile / 2);  // @B
    warpgroup_commit();
#ifndef RACY
    warpgroup_wait<1>(d);
#endif
  }
  warpgroup_wait<0>(d);
  store_sums(c, d);
}

int main() {
  const Factors factors(steps);
  const __nv_bfloat16* tiles = to_device(factors.tiles());
  float* c = zeros<float>(tile_m * tile_n);
  product<<<1, 128>>>(reinterpret_cast<const unsigned*>(tiles), c);
  factors.compare(to_host(c, tile_m * tile_n));
}
