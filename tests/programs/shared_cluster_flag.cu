// The first block of a cluster fills its shared memory and sets a flag in that of the second, which waits for the flag
// and reads. The racy twin's fence before the flag reaches its own block only.
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;
constexpr int threads = 64;

__device__ void fence_cluster() { asm volatile("fence.acq_rel.cluster;" ::: "memory"); }
__device__ void set(int* flag) { asm volatile("st.relaxed.cluster.u32 [%0], 1;" ::"l"(flag) : "memory"); }
__device__ int get(const int* flag) {
  int value;
  asm volatile("ld.relaxed.cluster.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

__global__ void __cluster_dims__(2, 1, 1) pass(const int* in, int* out) {
  __shared__ int s[threads], flag;
  cg::cluster_group cluster = cg::this_cluster();
  unsigned t = threadIdx.x;
  if (t == 0) flag = 0;
  s[t] = 0;
  cluster.sync();
  if (cluster.block_rank() == 0) {
    s[t] = 3 * in[t];  // @A
    __syncthreads();
    if (t == 0) {
#ifdef RACY
      __threadfence_block();
#else
      fence_cluster();
#endif
      set(cluster.map_shared_rank(&flag, 1));
    }
  } else {
    if (t == 0) {
      while (get(&flag) == 0) {
      }
      fence_cluster();
    }
    __syncthreads();
    out[t] = cluster.map_shared_rank(s, 0)[threads - 1 - t];  // @B
  }
  cluster.sync();
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(threads);
  pass<<<2, threads>>>(in, out);
  report(out, threads);
}
