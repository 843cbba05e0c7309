// Conditional nodes of graphs, for the programs that have them.
#pragma once

#include "check.h"

inline cudaGraphConditionalHandle handle_of(cudaGraph_t graph, unsigned value) {
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, value, cudaGraphCondAssignDefault));
  return handle;
}

struct Conditional {
  cudaGraphNode_t node;
  cudaGraph_t* bodies;
};

// Behind `after`, where it is not null.
inline Conditional add_conditional(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle handle,
                                   cudaGraphConditionalNodeType type, unsigned bodies = 1) {
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = bodies;
  Conditional made = {};
  CHECK(cudaGraphAddNode(&made.node, graph, &after, nullptr, after ? 1 : 0, &params));
  made.bodies = params.conditional.phGraph_out;
  return made;
}

// A node that launches the kernel with one block.
template <class... Parameters, class... Arguments>
cudaGraphNode_t add_kernel(cudaGraph_t graph, cudaGraphNode_t after, unsigned threads, void (*kernel)(Parameters...),
                           Arguments... arguments) {
  void* pointers[] = {&arguments...};
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = reinterpret_cast<void*>(kernel);
  params.kernel.gridDim = dim3(1);
  params.kernel.blockDim = dim3(threads);
  params.kernel.kernelParams = pointers;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, &after, nullptr, after ? 1 : 0, &params));
  return node;
}

inline cudaGraph_t make_graph() {
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  return graph;
}

inline void launch(cudaGraph_t graph, cudaStream_t stream) {
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, stream));
}
