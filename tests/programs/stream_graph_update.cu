// A graph's kernel node is given other arguments once it is instantiated: in the racy twin memory that a kernel of
// another stream reads. A second node, of a set, is switched off and given that memory, too.
#include "check.h"

constexpr int threads = 64;

__global__ void fill(int* data, int value) {
  unsigned t = threadIdx.x;
  data[t] = value + int(t);  // @A
}

__global__ void consume(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;  // @B
}

int main() {
  int* data = to_device(numbers(threads));
  int* other = zeros<int>(threads);
  int* unused = zeros<int>(threads);
  int* out = zeros<int>(threads);
  int value = 5;
  cudaKernelNodeParams kernel = {};
  void* arguments[] = {&unused, &value};
  kernel.func = reinterpret_cast<void*>(fill);
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(threads);
  kernel.kernelParams = arguments;
  cudaMemsetParams set = {};
  set.dst = unused;
  set.elementSize = 4;
  set.width = threads;
  set.height = 1;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t filling, setting;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddMemsetNode(&setting, graph, nullptr, 0, &set));
  CHECK(cudaGraphAddKernelNode(&filling, graph, &setting, 1, &kernel));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaDeviceSynchronize());

#ifdef RACY
  arguments[0] = &data;
#else
  arguments[0] = &other;
#endif
  value = 7;
  CHECK(cudaGraphExecKernelNodeSetParams(executable, filling, &kernel));
  set.dst = data;
  CHECK(cudaGraphExecMemsetNodeSetParams(executable, setting, &set));
  CHECK(cudaGraphNodeSetEnabled(executable, setting, 0));
  CHECK(cudaGraphLaunch(executable, make_stream()));
  consume<<<1, threads, 0, make_stream()>>>(data, out);
  report(out, threads);
}
