// Cooperative groups' cluster groups: ranks and sizes in clusters of one to three dimensions, both halves of the barrier,
// the shared memory of every block of the cluster read, written and added to; and launches that begin before the one
// before them is complete.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "agree.h"

namespace cg = cooperative_groups;
using namespace agree;

template <typename Kernel, typename... Arguments>
void launch(Kernel kernel, dim3 grid, int threads, dim3 cluster, std::size_t shared, bool programmatic,
            Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = cluster.x;
  attributes[0].val.clusterDim.y = cluster.y;
  attributes[0].val.clusterDim.z = cluster.z;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = programmatic;
  config.attrs = attributes;
  config.numAttrs = programmatic ? 2 : 1;
  CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

// A row a block: what the group says of it.
__global__ void ranks_kernel(int* out) {
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x != blockDim.x - 1) return;
  int* row = out + 10 * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
  dim3 at = cluster.block_index(), size = cluster.dim_blocks();
  row[0] = at.x, row[1] = at.y, row[2] = at.z;
  row[3] = size.x, row[4] = size.y, row[5] = size.z;
  row[6] = cluster.block_rank(), row[7] = cluster.num_blocks();
  row[8] = cluster.thread_rank(), row[9] = cluster.num_threads();
}

void ranks(dim3 grid, dim3 cluster, int threads) {
  std::vector<int> expected;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        unsigned i = x % cluster.x, j = y % cluster.y, k = z % cluster.z, rank = i + cluster.x * (j + cluster.y * k);
        unsigned blocks = cluster.x * cluster.y * cluster.z;
        for (unsigned v : {i, j, k, cluster.x, cluster.y, cluster.z, rank, blocks, rank * threads + threads - 1,
                           blocks * threads})
          expected.push_back(int(v));
      }
    }
  }
  Array<int> out(expected.size());
  launch(ranks_kernel, grid, threads, cluster, 0, false, out.data());
  equal("ranks", grid.x * grid.y * grid.z, out.host(), expected);
}

// A transposition within the cluster: block r's part s goes to block s's part r; then sums of all, read from each.
__global__ void exchange_kernel(const int* in, int* out, int* sums) {
  extern __shared__ int memory[];
  __shared__ int sum;
  cg::cluster_group cluster = cg::this_cluster();
  unsigned blocks = cluster.num_blocks(), rank = cluster.block_rank(), t = threadIdx.x, n = blockDim.x;
  if (t == 0) sum = 0;
  cluster.sync();
  for (unsigned other = 0; other < blocks; ++other)
    cluster.map_shared_rank(memory, other)[rank * n + t] = in[(blockIdx.x * blocks + other) * n + t];
  cluster.barrier_arrive();
  int mine = 0;
  for (unsigned part = 0; part < blocks; ++part) mine += in[(blockIdx.x * blocks + part) * n + t];
  mine = cg::reduce(cg::tiled_partition<32>(cg::this_thread_block()), mine, cg::plus<int>());
  cluster.barrier_wait();
  for (unsigned part = 0; part < blocks; ++part)
    out[(blockIdx.x * blocks + part) * n + t] = memory[part * n + n - 1 - t];
  if (t % 32 == 0) {
    for (unsigned other = 0; other < blocks; ++other) {
      int* there = cluster.map_shared_rank(&sum, other);
      if (cluster.query_shared_rank(there) != other) there = nullptr;
      atomicAdd(there, mine);
    }
  }
  cluster.sync();
  if (t == 0) sums[blockIdx.x] = *cluster.map_shared_rank(&sum, (rank + 1) % blocks);
  cluster.sync();
}

void exchange(int grid, int size, int threads) {
  int count = grid * size * threads;
  std::vector<int> in = values<int>(count, 0, 1000, size), expected(count), sums(grid);
  for (int block = 0; block < grid; ++block) {
    int first = block / size * size, rank = block % size;
    for (int part = 0; part < size; ++part) {
      for (int t = 0; t < threads; ++t) {
        expected[(block * size + part) * threads + t] = in[((first + part) * size + rank) * threads + threads - 1 - t];
        for (int member = 0; member < size; ++member) sums[block] += in[((first + member) * size + part) * threads + t];
      }
    }
  }
  Array<int> from(in), out(count), of_clusters(grid);
  launch(exchange_kernel, dim3(grid), threads, dim3(size), size * threads * sizeof(int), false,
         static_cast<const int*>(from), out.data(), of_clusters.data());
  equal("exchange", count, out.host(), expected);
  equal("sums of clusters", count, of_clusters.host(), sums);
}

// A chain of dependent launches, of clusters: each lets the next begin, and waits for the one before.
__global__ void __cluster_dims__(2, 1, 1) step_kernel(const int* in, int* out) {
  __shared__ int edge;
  cg::cluster_group cluster = cg::this_cluster();
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
  unsigned t = threadIdx.x, n = blockDim.x, i = blockIdx.x * n + t;
  int mine = in[i];
  if (t == n - 1) edge = mine;
  cluster.sync();
  int before = *cluster.map_shared_rank(&edge, cluster.block_rank() ^ 1);
  out[i] = 2 * mine + before;
  cluster.sync();
}

void chain(int grid, int threads, int steps) {
  int count = grid * threads;
  std::vector<int> expected = values<int>(count, 0, 9, 1);
  Array<int> a(expected), b(count);
  int *from = a, *to = b;
  for (int step = 0; step < steps; ++step) {
    std::vector<int> now(expected);
    for (int i = 0; i < count; ++i) expected[i] = 2 * now[i] + now[(i / threads ^ 1) * threads + threads - 1];
    launch(step_kernel, dim3(grid), threads, dim3(2), 0, true, static_cast<const int*>(from), to);
    std::swap(from, to);
  }
  equal("dependent launches", count, to_host(from, count), expected);
}

int main() {
  ranks(dim3(4), dim3(2), 32), ranks(dim3(2, 6), dim3(2, 3), 1), ranks(dim3(4, 2, 2), dim3(2, 2, 2), 70);
  exchange(3, 1, 32), exchange(4, 2, 64), exchange(8, 4, 96), exchange(8, 8, 32);
  chain(4, 40, 5);
  return conclude();
}
