// A child graph reads what another node of the graph writes; the edge between the two is missing. The graph is launched
// twice, into two streams: one executable graph's launches come one after the other.
#include "check.h"

constexpr int threads = 64;

__global__ void produce(const int* in, int* data) {
  unsigned t = threadIdx.x;
  data[t] = data[t] + 3 * in[t];  // @A
}

__global__ void consume(const int* data, int* out) {
  unsigned t = threadIdx.x;
  out[t] = data[t] + 1;  // @B
}

int main() {
  int* in = to_device(numbers(threads));
  int* data = zeros<int>(threads);
  int* out = zeros<int>(threads);
  void* produce_arguments[] = {&in, &data};
  void* consume_arguments[] = {&data, &out};
  cudaGraph_t graph, child;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphCreate(&child, 0));
  cudaKernelNodeParams kernel = {};
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(threads);
  cudaGraphNode_t produced, consumed, inside;
  kernel.func = reinterpret_cast<void*>(produce);
  kernel.kernelParams = produce_arguments;
  CHECK(cudaGraphAddKernelNode(&produced, graph, nullptr, 0, &kernel));
  kernel.func = reinterpret_cast<void*>(consume);
  kernel.kernelParams = consume_arguments;
  CHECK(cudaGraphAddKernelNode(&inside, child, nullptr, 0, &kernel));
#ifdef RACY
  CHECK(cudaGraphAddChildGraphNode(&consumed, graph, nullptr, 0, child));
#else
  CHECK(cudaGraphAddChildGraphNode(&consumed, graph, &produced, 1, child));
#endif
  cudaGraphExec_t ready;
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  CHECK(cudaGraphLaunch(ready, make_stream()));
  CHECK(cudaGraphLaunch(ready, make_stream()));
  report(out, threads);
}
