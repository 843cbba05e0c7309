// Graphs of the stand-in for libcuda.so.1 that does nothing: kernels that are captured become nodes, one after the
// other.
//
// Thread-safety: none.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/tracer/callbacks.h"

namespace {

struct Graph;
struct Node {
  std::unique_ptr<Graph> child; // null: a kernel
  CUDA_KERNEL_NODE_PARAMS kernel{};
  std::uint64_t pointer = 0; // its first argument
  int number = 0; // and its second
  void* parameters[2] = {&pointer, &number};

  void set(const CUDA_KERNEL_NODE_PARAMS& params) {
    kernel = params;
    pointer = *static_cast<std::uint64_t*>(params.kernelParams[0]);
    kernel.kernelParams = parameters;
  }
};
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;

  Node& add() { return *nodes.emplace_back(std::make_unique<Node>()); }
};

Graph* captured = nullptr; // into which the stream is captured
CUstream captured_stream = nullptr;
CUgraphNode last = nullptr;

} // namespace

void fake::capture(const cuLaunchKernel_params& p) {
  if (!captured || p.hStream != captured_stream) return;
  auto node = std::make_unique<Node>();
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = p.f;
  kernel.gridDimX = p.gridDimX;
  kernel.gridDimY = p.gridDimY;
  kernel.gridDimZ = p.gridDimZ;
  kernel.blockDimX = p.blockDimX;
  kernel.blockDimY = p.blockDimY;
  kernel.blockDimZ = p.blockDimZ;
  kernel.kernelParams = p.kernelParams;
  node->set(kernel);
  last = reinterpret_cast<CUgraphNode>(node.get());
  captured->nodes.push_back(std::move(node));
}

bool fake::capturing() { return captured != nullptr; }

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  cuStreamBeginCapture_v2_params p{stream, mode};
  return CALL(cuStreamBeginCapture_v2, nullptr, p, {
    captured = new Graph;
    captured_stream = stream;
    return (void)p, CUDA_SUCCESS;
  });
}
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  cuStreamEndCapture_params p{stream, graph};
  return CALL(cuStreamEndCapture, nullptr, p, {
    *graph = reinterpret_cast<CUgraph>(std::exchange(captured, nullptr));
    return (void)p, CUDA_SUCCESS;
  });
}
EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  const bool active = captured && stream == captured_stream;
  *status = active ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph* graph,
                                          const CUgraphNode** dependencies, const CUgraphEdgeData**,
                                          std::size_t* count) {
  *graph = reinterpret_cast<CUgraph>(captured);
  *dependencies = &last;
  *count = last ? 1 : 0;
  return cuStreamIsCapturing(stream, status);
}
EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  const Graph& from = *reinterpret_cast<Graph*>(graph);
  for (std::size_t i = 0; nodes && i < from.nodes.size(); ++i) {
    nodes[i] = reinterpret_cast<CUgraphNode>(from.nodes[i].get());
  }
  return *count = from.nodes.size(), CUDA_SUCCESS;
}
EXPORT CUresult cuGraphGetEdges_v2(CUgraph, CUgraphNode*, CUgraphNode*, CUgraphEdgeData*, std::size_t* count) {
  return *count = 0, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  *type = reinterpret_cast<Node*>(node)->child ? CU_GRAPH_NODE_TYPE_GRAPH : CU_GRAPH_NODE_TYPE_KERNEL;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return *graph = reinterpret_cast<CUgraph>(reinterpret_cast<Node*>(node)->child.get()), CUDA_SUCCESS;
}
EXPORT CUresult cuGraphCreate(CUgraph* graph, unsigned) {
  return *graph = reinterpret_cast<CUgraph>(new Graph), CUDA_SUCCESS;
}
EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, std::size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS* params) {
  cuGraphAddKernelNode_v2_params p{node, graph, before, count, params};
  return CALL(cuGraphAddKernelNode_v2, nullptr, p, {
    Node& made = reinterpret_cast<Graph*>(p.hGraph)->add();
    made.set(*p.nodeParams);
    *p.phGraphNode = reinterpret_cast<CUgraphNode>(&made);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, std::size_t count,
                                         CUgraph child) {
  cuGraphAddChildGraphNode_params p{node, graph, before, count, child};
  return CALL(cuGraphAddChildGraphNode, nullptr, p, {
    Node& made = reinterpret_cast<Graph*>(p.hGraph)->add();
    made.child = std::make_unique<Graph>();
    for (const auto& other : reinterpret_cast<Graph*>(p.childGraph)->nodes) made.child->add().set(other->kernel);
    *p.phGraphNode = reinterpret_cast<CUgraphNode>(&made);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS* params) {
  cuGraphExecKernelNodeSetParams_v2_params p{executable, node, params};
  return CALL(cuGraphExecKernelNodeSetParams_v2, nullptr, p, { return (void)p, CUDA_SUCCESS; });
}
EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  return *params = reinterpret_cast<Node*>(node)->kernel, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  cuGraphKernelNodeSetParams_v2_params p{node, params};
  return CALL(cuGraphKernelNodeSetParams_v2, nullptr, p,
              { return reinterpret_cast<Node*>(p.hNode)->set(*p.nodeParams), CUDA_SUCCESS; });
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  cuGraphInstantiateWithFlags_params p{executable, graph, flags};
  return CALL(cuGraphInstantiateWithFlags, nullptr, p, {
    *executable = reinterpret_cast<CUgraphExec>(new char);
    return (void)p, CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  cuGraphDestroy_params p{graph};
  return CALL(cuGraphDestroy, nullptr, p, {
    delete reinterpret_cast<Graph*>(graph);
    return (void)p, CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  cuGraphLaunch_params p{executable, stream};
  return CALL(cuGraphLaunch, nullptr, p, { return (void)p, CUDA_SUCCESS; });
}
