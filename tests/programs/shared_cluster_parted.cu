// Two blocks of a cluster read each other's shared memory; the lanes of each warp come apart and arrive at the cluster's
// barrier, and wait at it, in different places (PTX ISA 9.7.13.4: without .aligned they may). In the racy twin the
// upper half of each warp writes behind its arrival.
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;
constexpr int threads = 64;

__device__ void arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ void wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

__global__ void __cluster_dims__(2, 1, 1) swap(const int* in, int* out, int* visits) {
  __shared__ int s[threads];
  cg::cluster_group cluster = cg::this_cluster();
  unsigned t = threadIdx.x, i = blockIdx.x * threads + t, lane = t % 32;
  cluster.sync();
  if (lane < 16) {
    s[t] = in[i];
    atomicAdd(&visits[0], 1);
    arrive();
  } else {
#ifdef RACY
    arrive();
    s[t] = in[i];  // @A
#else
    s[t] = in[i];
    arrive();
#endif
    atomicAdd(&visits[1], 1);
  }
  if (lane % 3 == 0) {
    wait();
    atomicAdd(&visits[2], 1);
  } else {
    atomicAdd(&visits[3], 1);
    wait();
  }
  const int* other = cluster.map_shared_rank(s, cluster.block_rank() ^ 1);
  out[i] = other[t];  // @B
  cluster.sync();
}

int main() {
  int* in = to_device(numbers(2 * threads));
  int* out = zeros<int>(2 * threads);
  int* visits = zeros<int>(4);
  swap<<<2, threads>>>(in, out, visits);
  report(out, 2 * threads);
}
