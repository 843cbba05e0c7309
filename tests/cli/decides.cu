// No race: two blocks write apart where block 0 takes the first ticket. Where block 1 does, they would not, and an IF
// node keeps the kernel from running.
#include <cstdio>
#include <cstdlib>

#define CHECK(call) \
  if ((call) != cudaSuccess) std::exit(1)

__global__ void draw(int* ticket, int* slots, cudaGraphConditionalHandle apart) {
  if (atomicAdd(ticket, 1) > 0) return;
  slots[0] = 0;
  slots[1] = blockIdx.x == 0 ? 1 : 0;
  cudaGraphSetConditional(apart, blockIdx.x == 0);
}
__global__ void put(const int* slots, int* data) { data[slots[blockIdx.x]] = int(blockIdx.x) + 1; }

int main() {
  int* memory;
  CHECK(cudaMalloc(&memory, 5 * sizeof(int)));
  CHECK(cudaMemset(memory, 0, 5 * sizeof(int)));
  int *slots = memory + 1, *data = memory + 3;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphConditionalHandle apart;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphConditionalHandleCreate(&apart, graph, 0, 0));
  void *drawn[] = {&memory, &slots, &apart}, *written[] = {&slots, &data};
  cudaKernelNodeParams kernel = {};
  kernel.func = reinterpret_cast<void*>(draw);
  kernel.gridDim = dim3(2);
  kernel.blockDim = dim3(1);
  kernel.kernelParams = drawn;
  cudaGraphNode_t first, node;
  CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &kernel));
  cudaGraphNodeParams condition = {};
  condition.type = cudaGraphNodeTypeConditional;
  condition.conditional.handle = apart;
  condition.conditional.type = cudaGraphCondTypeIf;
  condition.conditional.size = 1;
  CHECK(cudaGraphAddNode(&node, graph, &first, nullptr, 1, &condition));
  kernel.func = reinterpret_cast<void*>(put);
  kernel.kernelParams = written;
  CHECK(cudaGraphAddKernelNode(&node, condition.conditional.phGraph_out[0], nullptr, 0, &kernel));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, 0));
  int result[2];
  CHECK(cudaMemcpy(result, data, sizeof result, cudaMemcpyDeviceToHost));
  std::printf("%d %d\n", result[0], result[1]);
}
