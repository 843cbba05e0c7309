// Conditional nodes of graphs: what runs, and what CUDA refuses. embedded_conditions.cpp knows what is printed.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#include "check.h"

#define SHOW(call) std::printf("%s\n", cudaGetErrorName(call))

__global__ void count(int* turns, int most, cudaGraphConditionalHandle again) {
  if (threadIdx.x == 0) cudaGraphSetConditional(again, ++*turns % most != 0);
}
__global__ void set(cudaGraphConditionalHandle handle, unsigned value) { cudaGraphSetConditional(handle, value); }
__global__ void add(int* to, int value) { atomicAdd(to, value); }

static cudaGraph_t make() {
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  return graph;
}
static cudaGraphConditionalHandle handle_of(cudaGraph_t graph, unsigned value, unsigned flags = cudaGraphCondAssignDefault) {
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, value, flags));
  return handle;
}
static cudaError_t condition(cudaGraphNode_t* node, cudaGraph_t graph, cudaGraphConditionalHandle handle, int type,
                             unsigned size, cudaGraph_t** bodies, cudaGraphNode_t after = nullptr) {
  cudaGraphNodeParams p = {};
  p.type = cudaGraphNodeTypeConditional;
  p.conditional.handle = handle;
  p.conditional.type = cudaGraphConditionalNodeType(type);
  p.conditional.size = size;
  const cudaError_t status = cudaGraphAddNode(node, graph, &after, nullptr, after ? 1 : 0, &p);
  *bodies = p.conditional.phGraph_out;
  return status;
}
template <class... Parameters, class... Arguments>
static cudaKernelNodeParams node_of(void** pointers, void (*kernel)(Parameters...), Arguments&... arguments) {
  void* all[] = {&arguments...};
  std::memcpy(pointers, all, sizeof all);
  cudaKernelNodeParams p = {};
  p.func = reinterpret_cast<void*>(kernel);
  p.gridDim = dim3(1);
  p.blockDim = dim3(1);
  p.kernelParams = pointers;
  return p;
}
template <class... Parameters, class... Arguments>
static cudaGraphNode_t add_kernel(cudaGraph_t graph, cudaGraphNode_t after, void (*kernel)(Parameters...),
                                  Arguments... arguments) {
  void* pointers[8];
  const cudaKernelNodeParams p = node_of(pointers, kernel, arguments...);
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, &after, after ? 1 : 0, &p));
  return node;
}
static int* numbers(int count) {
  int* made;
  CHECK(cudaMalloc(&made, count * sizeof(int)));
  CHECK(cudaMemset(made, 0, count * sizeof(int)));
  return made;
}
static int read(const int* pointer) {
  int value = 0;
  CHECK(cudaMemcpy(&value, pointer, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

static void refused() {
  cudaGraph_t graph = make(), other = make(), *bodies, copy;
  cudaGraphNode_t node, child;
  cudaGraphConditionalHandle handle = handle_of(graph, 1);
  SHOW(cudaGraphConditionalHandleCreate(&handle, nullptr, 0, 0));
  SHOW(cudaGraphConditionalHandleCreate(&handle, graph, 0, 2));
  SHOW(condition(&node, other, handle, cudaGraphCondTypeIf, 1, &bodies)); // of another graph
  SHOW(condition(&node, graph, handle, cudaGraphCondTypeIf, 3, &bodies));
  SHOW(condition(&node, graph, handle, cudaGraphCondTypeWhile, 2, &bodies));
  SHOW(condition(&node, graph, handle, cudaGraphCondTypeSwitch, 0, &bodies));
  SHOW(condition(&node, graph, handle, 3, 1, &bodies));
  cudaGraphExec_t executable;
  cudaGraphInstantiateParams how = {};
  SHOW(cudaGraphInstantiateWithParams(&executable, graph, &how)); // the handle has no node
  std::printf("%d\n", how.result_out == cudaGraphInstantiateConditionalHandleUnused);
  SHOW(condition(&node, graph, handle, cudaGraphCondTypeIf, 2, &bodies));
  SHOW(cudaGraphClone(&copy, graph));
  SHOW(cudaGraphAddChildGraphNode(&child, other, nullptr, 0, graph));
  cudaHostNodeParams host = {[](void*) {}, nullptr};
  CHECK(cudaGraphAddHostNode(&child, bodies[1], nullptr, 0, &host));
  SHOW(cudaGraphInstantiateWithParams(&executable, graph, &how));
  std::printf("%d\n", how.result_out == cudaGraphInstantiateInvalidStructure);
  CHECK(cudaGraphDestroyNode(child));
  SHOW(cudaGraphInstantiate(&executable, graph, 0));
  cudaGraphExec_t second;
  SHOW(cudaGraphInstantiate(&second, graph, 0)); // at the same time
  CHECK(cudaGraphExecDestroy(executable));
  SHOW(cudaGraphInstantiate(&second, graph, 0));
  SHOW(cudaGraphDestroy(bodies[0]));
}

// A loop of three turns, twice; its kernel is changed to make five, and to four by another graph.
static void loops() {
  int* turns = numbers(1);
  auto loop = [&](int most, cudaGraphNode_t* kernel) {
    cudaGraph_t graph = make(), *bodies;
    cudaGraphNode_t node;
    const cudaGraphConditionalHandle again = handle_of(graph, 1);
    CHECK(condition(&node, graph, again, cudaGraphCondTypeWhile, 1, &bodies));
    *kernel = add_kernel(bodies[0], nullptr, count, turns, most, again);
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(node, &type));
    std::printf("%d\n", type == cudaGraphNodeTypeConditional);
    return graph;
  };
  cudaGraphNode_t kernel, other_kernel;
  cudaGraph_t graph = loop(3, &kernel);
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(executable, 0));
  std::printf("%d turns\n", read(turns));
  CHECK(cudaMemset(turns, 0, sizeof(int)));
  cudaKernelNodeParams p;
  CHECK(cudaGraphKernelNodeGetParams(kernel, &p));
  int five = 5;
  p.kernelParams[1] = &five;
  CHECK(cudaGraphExecKernelNodeSetParams(executable, kernel, &p));
  CHECK(cudaGraphLaunch(executable, 0));
  std::printf("%d turns\n", read(turns));
  CHECK(cudaMemset(turns, 0, sizeof(int)));
  cudaGraphExecUpdateResultInfo info;
  SHOW(cudaGraphExecUpdate(executable, loop(4, &other_kernel), &info));
  CHECK(cudaGraphLaunch(executable, 0));
  std::printf("%d turns\n", read(turns));
}

// Bodies that run once, by value; a child graph in one of them; a handle without a default.
static void choices() {
  int* sums = numbers(4);
  for (unsigned value = 0; value < 3; ++value) {
    cudaGraph_t graph = make(), child = make(), *cases, *either, *unset;
    cudaGraphNode_t node;
    const cudaGraphConditionalHandle which = handle_of(graph, 7), yes = handle_of(graph, 1), never = handle_of(graph, 1, 0);
    const cudaGraphNode_t first = add_kernel(graph, nullptr, set, which, value);
    const cudaGraphNode_t second = add_kernel(graph, first, set, yes, value % 2);
    CHECK(condition(&node, graph, which, cudaGraphCondTypeSwitch, 2, &cases, second));
    add_kernel(child, nullptr, add, sums, 1);
    CHECK(cudaGraphAddChildGraphNode(&node, cases[0], nullptr, 0, child));
    add_kernel(cases[0], node, add, sums, 10);
    add_kernel(cases[1], nullptr, add, sums, 100);
    CHECK(condition(&node, graph, yes, cudaGraphCondTypeIf, 2, &either, second));
    add_kernel(either[0], nullptr, add, sums + 1, 1);
    add_kernel(either[1], nullptr, add, sums + 2, 1);
    CHECK(condition(&node, graph, never, cudaGraphCondTypeIf, 1, &unset));
    add_kernel(unset[0], nullptr, add, sums + 3, 1);
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, 0));
    std::printf("%d %d %d %d\n", read(sums), read(sums + 1), read(sums + 2), read(sums + 3));
  }
}

static void endless() {
  cudaGraph_t graph = make(), *bodies;
  cudaGraphNode_t node;
  CHECK(condition(&node, graph, handle_of(graph, 1), cudaGraphCondTypeWhile, 1, &bodies));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  SHOW(cudaGraphLaunch(executable, 0));
  SHOW(cudaDeviceSynchronize());
}

int main(int count, char** words) {
  struct { const char* name; void (*run)(); } const programs[] = {
      {"refused", refused}, {"loops", loops}, {"choices", choices}, {"endless", endless}};
  for (const auto& program : programs) {
    if (count > 1 && std::strcmp(words[1], program.name) == 0) {
      program.run();
      return 0;
    }
  }
  return 2;
}
