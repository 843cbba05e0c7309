// A window over one launch of a graph that was captured before it: graph_window FAULT
//
// Most of its kernels are to be left unrecorded, so that they are opaque: a cooperative grid, a cluster, one of a
// stream of high priority. The recorded ones, `fill` and `scale`, are in two branches; with FAULT 1 `scale` does not
// wait for `fill`. Every launch adds to what the one before left, so that what the window saves matters, and the state
// that opaque nodes make of it. cudaProfilerStart and Stop are around the third of five launches. Prints sums of the
// results after each launch.
#include <cooperative_groups.h>
#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "checked_calls.h"

namespace cg = cooperative_groups;

constexpr unsigned count = 1 << 14, threads = 256, blocks = count / threads;

__global__ void fill(unsigned* to, const unsigned* from) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[i] * 3 + i;
}
__global__ void scale(const unsigned* from, unsigned* to) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] += from[count - 1 - i] * 5 + 1;
}
__global__ void whole_grid(unsigned* data, unsigned* sums) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned mine = data[i];
  sums[i] = mine + 1;
  cg::this_grid().sync();
  data[i] = mine + sums[(i + threads) % count];
}
__global__ void __cluster_dims__(2) in_clusters(unsigned* data) {
  __shared__ unsigned part[threads];
  const auto cluster = cg::this_cluster();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = data[i];
  cluster.sync();
  const unsigned other = cluster.map_shared_rank(part, cluster.block_rank() ^ 1)[threadIdx.x];
  data[i] += other * 7;
  cluster.sync();
}
__global__ void rotate(const unsigned* from, unsigned* to) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] += from[(i + 13) % count];
}

unsigned* allocated(unsigned value) {
  unsigned* data;
  std::vector<unsigned> host(count);
  for (unsigned i = 0; i < count; ++i) host[i] = i * value;
  CHECK(cudaMalloc(&data, sizeof(unsigned) * count));
  CHECK(cudaMemcpy(data, host.data(), sizeof(unsigned) * count, cudaMemcpyHostToDevice));
  return data;
}

int main(int argc, char** argv) {
  const bool fault = argc > 1 && std::atoi(argv[1]);
  unsigned *state = allocated(1), *sums = allocated(2), *filled = allocated(3), *result = allocated(5), *copy = allocated(7);
  cudaStream_t work, side;
  int least = 0, greatest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithPriority(&side, cudaStreamNonBlocking, greatest));
  cudaEvent_t begun, is_filled, side_done;
  for (cudaEvent_t* event : {&begun, &is_filled, &side_done}) CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  CHECK(cudaDeviceSynchronize());

  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(work, cudaStreamCaptureModeThreadLocal));
  void* arguments[] = {&state, &sums};
  CHECK(cudaLaunchCooperativeKernel(whole_grid, dim3(blocks), dim3(threads), arguments, 0, work));
  in_clusters<<<blocks, threads, 0, work>>>(state);
  CHECK(cudaEventRecord(begun, work));
  CHECK(cudaStreamWaitEvent(side, begun, 0));
  fill<<<blocks, threads, 0, work>>>(filled, state);
  CHECK(cudaEventRecord(is_filled, work));
  rotate<<<blocks, threads, 0, side>>>(state, copy);
  if (!fault) CHECK(cudaStreamWaitEvent(side, is_filled, 0));
  scale<<<blocks, threads, 0, side>>>(filled, result);
  rotate<<<blocks, threads, 0, side>>>(result, copy);
  CHECK(cudaEventRecord(side_done, side));
  CHECK(cudaMemsetAsync(sums, 1, sizeof(unsigned) * count / 2, work));
  CHECK(cudaStreamWaitEvent(work, side_done, 0));
  CHECK(cudaMemcpyAsync(state, copy, sizeof(unsigned) * count / 4, cudaMemcpyDeviceToDevice, work));
  CHECK(cudaStreamEndCapture(work, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));

  std::vector<unsigned> host(count);
  for (int launch = 0; launch < 5; ++launch) {
    if (launch == 2) CHECK(cudaProfilerStart());
    CHECK(cudaGraphLaunch(executable, work));
    CHECK(cudaStreamSynchronize(work));
    if (launch == 2) CHECK(cudaProfilerStop());
    for (unsigned* data : {state, result, copy}) {
      CHECK(cudaMemcpy(host.data(), data, sizeof(unsigned) * count, cudaMemcpyDeviceToHost));
      unsigned sum = 0;
      for (unsigned i = 0; i < count; ++i) sum = sum * 31 + host[i];
      if (!fault) std::printf("%d %08x\n", launch, sum);
    }
  }
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  return 0;
}
