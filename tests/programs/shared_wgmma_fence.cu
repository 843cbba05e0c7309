// A warpgroup fills a tile with ordinary stores and multiplies it (wgmma), which reads it through the asynchronous proxy.
// The racy twin leaves out the fence between the proxies; the barrier alone does not make the stores visible there.
#include "warpgroup.h"

constexpr int steps = 4;

__global__ void product(const unsigned* tiles, float* c) {
  constexpr int words = (a_tile + b_tile) / 2;
  __shared__ alignas(128) unsigned tile[words];
  float d[tile_sums] = {};
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < words; i += 128) tile[i] = tiles[step * words + i];  // @A
#ifndef RACY
    fence_proxy_async();
#endif
    __syncthreads();
    warpgroup_fence();
    multiply(d, tile, tile + a_tile / 2);  // @B
    warpgroup_commit();
    warpgroup_wait<0>(d);
    __syncthreads();
  }
  store_sums(c, d);
}

int main() {
  const Factors factors(steps);
  const __nv_bfloat16* tiles = to_device(factors.tiles());
  float* c = zeros<float>(tile_m * tile_n);
  product<<<1, 128>>>(reinterpret_cast<const unsigned*>(tiles), c);
  factors.compare(to_host(c, tile_m * tile_n));
}
