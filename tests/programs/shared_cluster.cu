// Two blocks of a cluster read each other's shared memory. The cluster barrier after the writes is missing (the one
// before makes sure that both blocks are there, the one after that neither leaves early).
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;
constexpr int threads = 64;

__global__ void __cluster_dims__(2, 1, 1) swap(const int* in, int* out) {
  __shared__ int s[threads];
  cg::cluster_group cluster = cg::this_cluster();
  unsigned t = threadIdx.x, i = blockIdx.x * threads + t;
  cluster.sync();
  s[t] = in[i];  // @A
#ifndef RACY
  cluster.sync();
#endif
  const int* other = cluster.map_shared_rank(s, cluster.block_rank() ^ 1);
  out[i] = other[t];  // @B
  cluster.sync();
}

int main() {
  int* in = to_device(numbers(2 * threads));
  int* out = zeros<int>(2 * threads);
  swap<<<2, threads>>>(in, out);
  report(out, 2 * threads);
}
