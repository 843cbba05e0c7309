// The first block of a cluster brings a tile for both by one multicast; each waits at its own barrier. In the racy twin
// the second block reads its tile without waiting.
#include <cooperative_groups.h>

#include "tensors.h"

constexpr int columns = 16, rows = 4, threads = columns * rows;

__global__ void __cluster_dims__(2, 1, 1) scaled(const __grid_constant__ CUtensorMap map, int* out) {
  __shared__ alignas(128) int tile[threads];
  __shared__ std::uint64_t barrier;
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const unsigned rank = cluster.block_rank(), t = threadIdx.x;
  if (t == 0) {
    mbarrier_init(&barrier, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    mbarrier_arrive_expect(&barrier, sizeof tile);
  }
  cluster.sync();
  if (rank == 0 && t == 0) tensor_multicast(tile, &map, 0, 0, &barrier, 3);  // @A
#ifdef RACY
  if (rank == 0)
#endif
    mbarrier_wait(&barrier, 0);
  out[rank * threads + t] = (rank + 2) * tile[t];  // @B
  mbarrier_wait(&barrier, 0);
  cluster.sync();
}

int main() {
  int* in = to_device(numbers(threads));
  int* out = zeros<int>(2 * threads);
  scaled<<<2, threads>>>(tensor_of_rows(in, columns, rows, columns, rows), out);
  report(out, 2 * threads);
}
