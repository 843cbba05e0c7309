// A graph built node by node; the edge from producer to consumer is missing.
#include "check.h"

constexpr int threads = 64;

__global__ void produce(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = 3 * in[t];  // @A
}

__global__ void consume(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;  // @B
}

cudaKernelNodeParams node_of(void* kernel, void** arguments) {
  cudaKernelNodeParams node = {};
  node.func = kernel;
  node.gridDim = dim3(1);
  node.blockDim = dim3(threads);
  node.kernelParams = arguments;
  return node;
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int* out = zeros<int>(threads);
  void* produce_arguments[] = {&in, &data};
  void* consume_arguments[] = {&data, &out};
  cudaKernelNodeParams producer = node_of(reinterpret_cast<void*>(produce), produce_arguments);
  cudaKernelNodeParams consumer = node_of(reinterpret_cast<void*>(consume), consume_arguments);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t first, second;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &producer));
#ifdef RACY
  CHECK(cudaGraphAddKernelNode(&second, graph, nullptr, 0, &consumer));
#else
  CHECK(cudaGraphAddKernelNode(&second, graph, &first, 1, &consumer));
#endif
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, make_stream()));
  report(out, threads);
}
