// Graphs of the stand-in for libcuda.so.1 on the embedded device: a graph's launch submits its nodes to the
// stream one after the other, in the order in which they were added. Host functions run in a thread of their own, once
// what the launch submitted before them is complete. Conditions are read when what comes before them is complete: their
// graph's launch returns behind the last one, or, with EMBEDDED_LATE_GRAPHS, at once: the graph runs in a thread of its
// own, behind the last such.
//
// Thread-safety: embedded_cuda.h.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "tests/embedded_operations.h"
#include "tests/tracer/callbacks.h"
#include "tests/tracer/embedded_cuda.h"

namespace {

using namespace deadheat;
using embedded::lock;
using embedded::the_device;

struct Graph;
struct Node {
  explicit Node(CUgraphNodeType type_) : type(type_) {}
  CUgraphNodeType type;
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS set{};
  CUDA_HOST_NODE_PARAMS host{};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  std::vector<std::uint8_t> arguments; // of the kernel
  std::vector<void*> parameters; // which the driver tells: into `arguments`
  std::shared_ptr<Graph> child;
  std::vector<std::shared_ptr<Graph>> bodies; // of a condition
  std::vector<CUgraph> told; // of these
  CUgraphConditionalHandle condition = 0;
  CUgraphConditionalNodeType decides = CU_GRAPH_COND_TYPE_IF;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
  std::size_t bytes = 0;
  std::vector<Node*> after;
  CUgraphEdgeData edge{}; // from each of them
};
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  std::map<CUgraphConditionalHandle, unsigned> values; // that conditions have when a launch begins
};
struct Executable {
  std::shared_ptr<Graph> graph;
  std::map<CUgraphNode, Node*> of; // by the node that it was made from
};
std::map<CUstream, Graph*>& captures = *new std::map<CUstream, Graph*>;

Node* of(CUgraphNode node) { return reinterpret_cast<Node*>(node); }
Graph* of(CUgraph graph) { return reinterpret_cast<Graph*>(graph); }
Executable* of(CUgraphExec executable) { return reinterpret_cast<Executable*>(executable); }

const engine::KernelInfo& info_of(CUfunction f) {
  const auto& kernel = *reinterpret_cast<const test::EmbeddedKernel*>(f);
  return *the_device->module(kernel.module)->kernel(kernel.name);
}

void set_kernel(Node& node, const CUDA_KERNEL_NODE_PARAMS& p) {
  node.kernel = p;
  node.arguments = embedded::arguments_of(p.func, p.kernelParams);
  node.parameters.clear();
  for (const auto& parameter : info_of(p.func).parameters) {
    node.parameters.push_back(node.arguments.data() + parameter.offset);
  }
  node.kernel.kernelParams = node.parameters.data();
}

std::shared_ptr<Graph> clone(const Graph& graph, std::map<CUgraphNode, Node*>* made_of = nullptr) {
  auto copy = std::make_shared<Graph>();
  copy->values = graph.values;
  std::map<const Node*, Node*> made;
  for (const auto& node : graph.nodes) {
    auto next = std::make_unique<Node>(*node);
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) set_kernel(*next, node->kernel);
    if (node->child) next->child = clone(*node->child, made_of);
    for (std::shared_ptr<Graph>& body : next->bodies) body = clone(*body, made_of);
    for (Node*& before : next->after) before = made.at(before);
    made[node.get()] = next.get();
    if (made_of) (*made_of)[reinterpret_cast<CUgraphNode>(node.get())] = next.get();
    copy->nodes.push_back(std::move(next));
  }
  return copy;
}

CUresult add(Node node, CUgraph graph, const CUgraphNode* after, std::size_t count, CUgraphNode* handle) {
  for (std::size_t i = 0; i < count; ++i) node.after.push_back(of(after[i]));
  auto made = std::make_unique<Node>(std::move(node));
  if (made->type == CU_GRAPH_NODE_TYPE_KERNEL) set_kernel(*made, made->kernel);
  *handle = reinterpret_cast<CUgraphNode>(made.get());
  of(graph)->nodes.push_back(std::move(made));
  return CUDA_SUCCESS;
}

unsigned value_of(CUgraphConditionalHandle condition, CUstream stream) {
  static unsigned value; // of one launch at a time
  std::uint32_t read = 0;
  {
    std::lock_guard hold(lock);
    trace::Operation operation;
    operation.stream = embedded::stream_of(stream);
    operation.what = test::copy_of(reinterpret_cast<std::uint64_t>(&value), condition, sizeof value);
    read = *the_device->submit(std::move(operation));
  }
  embedded::wait(trace::HostWait::Kind::operation, read);
  return value;
}

std::atomic<unsigned> turns{0}; // of all conditions' bodies

void run(const Node& node, CUstream stream);
void run_condition(const Node& node, CUstream stream) {
  const bool loops = node.decides == CU_GRAPH_COND_TYPE_WHILE;
  do {
    const unsigned value = value_of(node.condition, stream);
    const std::size_t body = node.decides == CU_GRAPH_COND_TYPE_SWITCH ? value : value ? 0 : 1;
    if (body >= node.bodies.size()) return;
    for (const auto& inner : node.bodies[body]->nodes) run(*inner, stream);
    ++turns;
  } while (loops);
}

void run(const Node& node, CUstream stream) {
  const auto submit = [&](auto what) { embedded::submit(stream, std::move(what)); };
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY: embedded::copy(node.copy, stream); break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      submit(test::set_of(node.set.dst, node.set.value, node.set.width, node.set.elementSize));
      break;
    case CU_GRAPH_NODE_TYPE_KERNEL:
      embedded::launch(node.kernel.func, {node.kernel.gridDimX, node.kernel.gridDimY, node.kernel.gridDimZ},
                       {node.kernel.blockDimX, node.kernel.blockDimY, node.kernel.blockDimZ},
                       node.kernel.sharedMemBytes, node.arguments, stream);
      break;
    case CU_GRAPH_NODE_TYPE_HOST: embedded::run_function(stream, node.host); break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      for (const auto& inner : node.child->nodes) run(*inner, stream);
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: run_condition(node, stream); break;
    default: break; // what orders streams, and memory, which stays
  }
}

// Of the node's counterpart in an executable.
Node* counterpart(CUgraphExec executable, CUgraphNode node) {
  const auto found = of(executable)->of.find(node);
  return found == of(executable)->of.end() ? nullptr : found->second;
}

} // namespace

bool embedded::is_captured(CUstream stream) {
  std::lock_guard hold(lock);
  return captures.count(stream) > 0;
}

CUgraph embedded::captured_graph(CUstream stream) {
  std::lock_guard hold(lock);
  const auto found = captures.find(stream);
  return found == captures.end() ? nullptr : reinterpret_cast<CUgraph>(found->second);
}

bool embedded::captured(CUstream stream, const CapturedWork& work) {
  std::lock_guard hold(lock);
  const auto found = captures.find(stream);
  if (found == captures.end()) return false;
  Node node(work.type);
  node.copy = work.copy;
  node.host = work.host;
  node.event = work.event;
  std::vector<std::unique_ptr<Node>>& nodes = found->second->nodes;
  if (!nodes.empty()) node.after.push_back(nodes.back().get());
  nodes.push_back(std::make_unique<Node>(std::move(node)));
  if (work.type == CU_GRAPH_NODE_TYPE_KERNEL) set_kernel(*nodes.back(), work.kernel);
  return true;
}

// ---- making graphs

EXPORT CUresult cuGraphCreate(CUgraph* graph, unsigned) {
  *graph = reinterpret_cast<CUgraph>(new Graph);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  cuGraphDestroy_params p{graph};
  return CALL(cuGraphDestroy, nullptr, p, {
    delete of(p.hGraph);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphClone(CUgraph* copy, CUgraph graph) {
  *copy = reinterpret_cast<CUgraph>(new Graph);
  **reinterpret_cast<Graph**>(copy) = std::move(*clone(*of(graph)));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count) {
  return add(Node(CU_GRAPH_NODE_TYPE_EMPTY), graph, after, count, node);
}
EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS* kernel) {
  cuGraphAddKernelNode_v2_params p{node, graph, after, count, kernel};
  return CALL(cuGraphAddKernelNode_v2, nullptr, p, {
    Node made(CU_GRAPH_NODE_TYPE_KERNEL);
    made.kernel = *p.nodeParams;
    return add(std::move(made), p.hGraph, p.dependencies, p.numDependencies, p.phGraphNode);
  });
}
EXPORT CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode, CUgraphNode) { return CUDA_SUCCESS; }
EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                     const CUDA_MEMCPY3D* copy, CUcontext) {
  Node made(CU_GRAPH_NODE_TYPE_MEMCPY);
  made.copy = *copy;
  return add(std::move(made), graph, after, count, node);
}
EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                     const CUDA_MEMSET_NODE_PARAMS* set, CUcontext) {
  Node made(CU_GRAPH_NODE_TYPE_MEMSET);
  made.set = *set;
  return add(std::move(made), graph, after, count, node);
}
EXPORT CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                   const CUDA_HOST_NODE_PARAMS* host) {
  Node made(CU_GRAPH_NODE_TYPE_HOST);
  made.host = *host;
  return add(std::move(made), graph, after, count, node);
}
EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                         CUgraph child) {
  Node made(CU_GRAPH_NODE_TYPE_GRAPH);
  made.child = clone(*of(child));
  return add(std::move(made), graph, after, count, node);
}
EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                          CUevent event) {
  Node made(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  made.event = event;
  return add(std::move(made), graph, after, count, node);
}
EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                        CUevent event) {
  Node made(CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  made.event = event;
  return add(std::move(made), graph, after, count, node);
}
EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                       CUDA_MEM_ALLOC_NODE_PARAMS* memory) {
  std::lock_guard hold(lock);
  Node made(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  made.memory = memory->dptr = the_device->allocate(trace::Allocate::Kind::device, memory->bytesize, 0)->address;
  made.bytes = memory->bytesize;
  return add(std::move(made), graph, after, count, node);
}
EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                      CUdeviceptr memory) {
  Node made(CU_GRAPH_NODE_TYPE_MEM_FREE);
  made.memory = memory;
  return add(std::move(made), graph, after, count, node);
}
EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                  const CUgraphEdgeData* edges, std::size_t count, CUgraphNodeParams* params) {
  cuGraphAddNode_v2_params p{node, graph, after, edges, count, params};
  return CALL(cuGraphAddNode_v2, nullptr, p, {
    if (p.nodeParams->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      CUDA_CONDITIONAL_NODE_PARAMS& condition = p.nodeParams->conditional;
      Node made(CU_GRAPH_NODE_TYPE_CONDITIONAL);
      made.condition = condition.handle;
      made.decides = condition.type;
      for (unsigned i = 0; i < condition.size; ++i) {
        made.bodies.push_back(std::make_shared<Graph>());
        made.told.push_back(reinterpret_cast<CUgraph>(made.bodies.back().get()));
      }
      const CUresult result = add(std::move(made), p.hGraph, p.dependencies, p.numDependencies, p.phGraphNode);
      condition.phGraph_out = of(*p.phGraphNode)->told.data();
      return result;
    }
    if (p.nodeParams->type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_NOT_SUPPORTED;
    const CUDA_KERNEL_NODE_PARAMS_v3& k = p.nodeParams->kernel;
    if (embedded::refuses("nodes") && embedded::is_clone(k.func)) return CUDA_ERROR_INVALID_VALUE;
    Node made(CU_GRAPH_NODE_TYPE_KERNEL);
    made.kernel = {k.func,      k.gridDimX,       k.gridDimY,     k.gridDimZ, k.blockDimX, k.blockDimY,
                   k.blockDimZ, k.sharedMemBytes, k.kernelParams, k.extra,    k.kern,      k.ctx};
    if (p.dependencyData) made.edge = *p.dependencyData;
    return add(std::move(made), p.hGraph, p.dependencies, p.numDependencies, p.phGraphNode);
  });
}
EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext,
                                               unsigned value, unsigned flags) {
  std::lock_guard hold(lock);
  *handle = the_device->place_conditions(sizeof value)->address;
  if (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) of(graph)->values[*handle] = value;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* after,
                                            const CUgraphEdgeData* edges, std::size_t count, CUstreamCaptureMode mode) {
  cuStreamBeginCaptureToGraph_params p{stream, graph, after, edges, count, mode};
  return CALL(cuStreamBeginCaptureToGraph, nullptr, p, {
    std::lock_guard hold(lock);
    captures[p.hStream] = of(p.hGraph);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  cuStreamEndCapture_params p{stream, graph};
  return CALL(cuStreamEndCapture, nullptr, p, {
    std::lock_guard hold(lock);
    const auto found = captures.find(p.hStream);
    if (found == captures.end()) return CUDA_ERROR_ILLEGAL_STATE;
    *p.phGraph = reinterpret_cast<CUgraph>(found->second);
    captures.erase(found);
    return CUDA_SUCCESS;
  });
}

// ---- what graphs have

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  const auto& all = of(graph)->nodes;
  for (std::size_t i = 0; nodes && i < all.size(); ++i) nodes[i] = reinterpret_cast<CUgraphNode>(all[i].get());
  *count = all.size();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                   std::size_t* count) {
  std::size_t edges = 0;
  for (const auto& node : of(graph)->nodes) {
    for (Node* before : node->after) {
      if (from) from[edges] = reinterpret_cast<CUgraphNode>(before);
      if (to) to[edges] = reinterpret_cast<CUgraphNode>(node.get());
      if (data) data[edges] = node->edge;
      ++edges;
    }
  }
  *count = edges;
  return CUDA_SUCCESS;
}
// Of drivers that know no other edges than full ones.
EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  std::vector<CUgraphEdgeData> edges(from ? *count : 0);
  return cuGraphGetEdges_v2(graph, from, to, from ? edges.data() : nullptr, count);
}
EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return *type = of(node)->type, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* copy) {
  return *copy = of(node)->copy, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* set) {
  return *set = of(node)->set, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* host) {
  return *host = of(node)->host, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* host) {
  return of(node)->host = *host, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* kernel) {
  cuGraphKernelNodeGetParams_v2_params p{node, kernel};
  return CALL(cuGraphKernelNodeGetParams_v2, nullptr, p, { return *p.nodeParams = of(p.hNode)->kernel, CUDA_SUCCESS; });
}
EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* kernel) {
  cuGraphKernelNodeSetParams_v2_params p{node, kernel};
  return CALL(cuGraphKernelNodeSetParams_v2, nullptr, p, {
    if (embedded::refuses("nodes") && embedded::is_clone(p.nodeParams->func)) return CUDA_ERROR_INVALID_VALUE;
    return set_kernel(*of(p.hNode), *p.nodeParams), CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return *graph = reinterpret_cast<CUgraph>(of(node)->child.get()), CUDA_SUCCESS;
}
EXPORT CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return *event = of(node)->event, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return *event = of(node)->event, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* memory) {
  memory->dptr = of(node)->memory;
  memory->bytesize = of(node)->bytes;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* memory) {
  return *memory = of(node)->memory, CUDA_SUCCESS;
}

EXPORT unsigned embedded_turns() { return turns; }

// ---- executables

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  cuGraphInstantiateWithFlags_params p{executable, graph, flags};
  return CALL(cuGraphInstantiateWithFlags, nullptr, p, {
    for (const auto& node : of(p.hGraph)->nodes) {
      if (node->type == CU_GRAPH_NODE_TYPE_KERNEL && embedded::refuses("graphs") &&
          embedded::is_clone(node->kernel.func))
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    auto* made = new Executable;
    made->graph = clone(*of(p.hGraph), &made->of);
    *p.phGraphExec = reinterpret_cast<CUgraphExec>(made);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  cuGraphExecUpdate_v2_params p{executable, graph, info};
  return CALL(cuGraphExecUpdate_v2, nullptr, p, {
    of(p.hGraphExec)->graph = clone(*of(p.hGraph));
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS* kernel) {
  cuGraphExecKernelNodeSetParams_v2_params p{executable, node, kernel};
  return CALL(cuGraphExecKernelNodeSetParams_v2, nullptr, p,
              { return set_kernel(*counterpart(p.hGraphExec, p.hNode), *p.nodeParams), CUDA_SUCCESS; });
}
EXPORT CUresult cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                             const CUDA_HOST_NODE_PARAMS* host) {
  cuGraphExecHostNodeSetParams_params p{executable, node, host};
  return CALL(cuGraphExecHostNodeSetParams, nullptr, p,
              { return counterpart(p.hGraphExec, p.hNode)->host = *p.nodeParams, CUDA_SUCCESS; });
}
EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraphNodeParams* params) {
  cuGraphExecNodeSetParams_params p{executable, node, params};
  return CALL(cuGraphExecNodeSetParams, nullptr, p, {
    if (p.nodeParams->type != CU_GRAPH_NODE_TYPE_HOST) return CUDA_ERROR_NOT_SUPPORTED;
    counterpart(p.hGraphExec, p.hNode)->host = {p.nodeParams->host.fn, p.nodeParams->host.userData};
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraph child) {
  cuGraphExecChildGraphNodeSetParams_params p{executable, node, child};
  return CALL(cuGraphExecChildGraphNodeSetParams, nullptr, p,
              { return counterpart(p.hGraphExec, p.hNode)->child = clone(*of(p.childGraph)), CUDA_SUCCESS; });
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec executable) {
  cuGraphExecDestroy_params p{executable};
  return CALL(cuGraphExecDestroy, nullptr, p, {
    delete of(p.hGraphExec);
    return CUDA_SUCCESS;
  });
}
// Into CU_STREAM_LEGACY it fails; captured, it becomes a child graph. EMBEDDED_OWN_GRAPHS: it launches what it was
// called with, whatever that was changed to.
EXPORT CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  cuGraphLaunch_params p{executable, stream};
  return CALL(cuGraphLaunch, nullptr, p, {
    if (p.hStream == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
    const Graph& graph = *of(std::getenv("EMBEDDED_OWN_GRAPHS") ? executable : p.hGraph)->graph;
    const bool decides = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                     [](const auto& node) { return node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL; });
    std::unique_lock hold(lock);
    const auto run_all = [graph = of(p.hGraph)->graph, stream = p.hStream] {
      for (const auto& [handle, value] : graph->values) embedded::submit(stream, test::set_of(handle, value, 1, 4));
      for (const auto& node : graph->nodes) run(*node, stream);
    };
    if (decides && std::getenv("EMBEDDED_LATE_GRAPHS")) {
      std::shared_future<void>& last = embedded::late_graph(p.hStream);
      last = std::async(std::launch::async, [before = last, run_all, stream = p.hStream] {
        if (before.valid()) before.wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        run_all();
        embedded::wait(trace::HostWait::Kind::stream, embedded::stream_of(stream));
      });
      return CUDA_SUCCESS;
    }
    if (decides) {
      hold.unlock(); // what is waited for may wait for another thread
      run_all();
      return CUDA_SUCCESS;
    }
    if (const auto capture = captures.find(p.hStream); capture != captures.end()) {
      auto node = std::make_unique<Node>(CU_GRAPH_NODE_TYPE_GRAPH);
      node->child = clone(graph);
      capture->second->nodes.push_back(std::move(node));
      return CUDA_SUCCESS;
    }
    for (const auto& node : graph.nodes) run(*node, p.hStream);
    return CUDA_SUCCESS;
  });
}
