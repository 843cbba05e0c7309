// A histogram spread over the shared memory of a cluster: every block counts into its own bins and the other's. The
// racy twin begins to count before the other block has cleared its bins.
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;
constexpr int threads = 64, bins = 32;  // in each of the two blocks

__global__ void histogram(const int* in, int* out) {
  __shared__ int count[bins];
  cg::cluster_group cluster = cg::this_cluster();
  unsigned t = threadIdx.x, rank = cluster.block_rank();
  cluster.sync();
  if (t < bins) count[t] = 0;  // @A
#ifdef RACY
  __syncthreads();
#else
  cluster.sync();
#endif
  int bin = in[rank * threads + t] % (2 * bins);
  int* where = cluster.map_shared_rank(count, bin / bins);
  atomicAdd(&where[bin % bins], 1);  // @B
  cluster.sync();
  if (t < bins) out[rank * bins + t] = count[t];
}

int main() {
  int* in = to_device(numbers(2 * threads));
  int* out = zeros<int>(2 * bins);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(2);
  config.blockDim = dim3(threads);
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 2;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, histogram, static_cast<const int*>(in), out));
  report(out, 2 * bins);
}
