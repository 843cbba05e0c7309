// Graphs as wholes: making, copying, reading, instantiating, launching (Runtime API, "Graph Management").
#include <algorithm>
#include <cstdio>

#include "replay/embedded/graph_nodes.h"

using namespace deadheat::embedded;

DEADHEAT_API(cudaGraphCreate, device, (cudaGraph_t * result, unsigned flags), (result, flags)) {
  if (!result || flags) return cudaErrorInvalidValue;
  auto made = std::make_unique<Graph>();
  made->id = call.runtime.next_graph++;
  *result = reinterpret_cast<cudaGraph_t>(made.get());
  call.runtime.graphs.emplace(*result, std::move(made));
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphDestroy, nothing, (cudaGraph_t graph), (graph)) {
  const bool known = call.runtime.graphs.erase(graph) != 0;
  collect_graph_memory(call);
  return known ? cudaSuccess : cudaErrorInvalidValue;
}

DEADHEAT_API(cudaGraphClone, device, (cudaGraph_t * result, cudaGraph_t handle), (result, handle)) {
  const Graph* graph = graph_of(call, handle);
  if (!result || !graph) return cudaErrorInvalidValue;
  if (graph->has_conditions()) { // "Cloning is not supported for graphs which contain … conditional nodes."
    say_once("cudaGraphClone: graphs with conditional nodes cannot be cloned");
    return cudaErrorInvalidValue;
  }
  auto made = graph->clone();
  made->id = call.runtime.next_graph++;
  *result = reinterpret_cast<cudaGraph_t>(made.get());
  call.runtime.graphs.emplace(*result, std::move(made));
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphNodeFindInClone, device, (cudaGraphNode_t * result, cudaGraphNode_t handle, cudaGraph_t clone),
             (result, handle, clone)) {
  const GraphNode* node = node_of(call, handle);
  const Graph* graph = graph_of(call, clone);
  if (!result || !node || !graph) return cudaErrorInvalidValue;
  for (const auto& twin : graph->nodes) { // clones keep their nodes' numbers
    if (twin->index == node->index && twin->type == node->type) {
      *result = reinterpret_cast<cudaGraphNode_t>(twin.get());
      return cudaSuccess;
    }
  }
  return cudaErrorInvalidValue;
}

DEADHEAT_API(cudaGraphNodeGetType, device, (cudaGraphNode_t handle, cudaGraphNodeType* type), (handle, type)) {
  const GraphNode* node = node_of(call, handle);
  if (!node || !type) return cudaErrorInvalidValue;
  *type = node->type;
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphChildGraphNodeGetGraph, device, (cudaGraphNode_t handle, cudaGraph_t* graph), (handle, graph)) {
  const GraphNode* node = node_of(call, handle);
  if (!node || !node->child || !graph) return cudaErrorInvalidValue;
  *graph = reinterpret_cast<cudaGraph_t>(node->child.get());
  return cudaSuccess;
}

// Lists come as CUDA gives them: with a null array the count is returned, else up to *count entries, the rest null.
static cudaError_t give(const std::vector<GraphNode*>& nodes, cudaGraphNode_t* list, size_t* count) {
  if (!count) return cudaErrorInvalidValue;
  if (list) {
    for (size_t i = 0; i < *count; ++i) {
      list[i] = i < nodes.size() ? reinterpret_cast<cudaGraphNode_t>(nodes[i]) : nullptr;
    }
    *count = std::min(*count, nodes.size());
  } else {
    *count = nodes.size();
  }
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphGetNodes, device, (cudaGraph_t handle, cudaGraphNode_t* list, size_t* count),
             (handle, list, count)) {
  const Graph* graph = graph_of(call, handle);
  if (!graph) return cudaErrorInvalidValue;
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph->nodes) nodes.push_back(node.get());
  return give(nodes, list, count);
}

DEADHEAT_API(cudaGraphGetRootNodes, device, (cudaGraph_t handle, cudaGraphNode_t* list, size_t* count),
             (handle, list, count)) {
  const Graph* graph = graph_of(call, handle);
  if (!graph) return cudaErrorInvalidValue;
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph->nodes) {
    if (node->after.empty()) nodes.push_back(node.get());
  }
  return give(nodes, list, count);
}

DEADHEAT_API(cudaGraphGetEdges, device,
             (cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data, size_t* count),
             (handle, from, to, data, count)) {
  const Graph* graph = graph_of(call, handle);
  if (!graph || !count || !from != !to) return cudaErrorInvalidValue;
  std::vector<GraphNode*> sources, targets;
  for (const auto& [source, target] : graph->edges()) {
    if (data && sources.size() < *count) data[sources.size()] = Graph::edge(*source, *target);
    sources.push_back(source);
    targets.push_back(target);
  }
  size_t same = *count;
  give(sources, from, &same);
  return give(targets, to, count);
}

DEADHEAT_API(cudaGraphNodeGetDependencies, device,
             (cudaGraphNode_t handle, cudaGraphNode_t* list, cudaGraphEdgeData* data, size_t* count),
             (handle, list, data, count)) {
  const GraphNode* node = node_of(call, handle);
  if (!node || !count) return cudaErrorInvalidValue;
  for (size_t i = 0; data && i < std::min(*count, node->after.size()); ++i) {
    data[i] = Graph::edge(*node->after[i], *node);
  }
  return give(node->after, list, count);
}

DEADHEAT_API(cudaGraphNodeGetDependentNodes, device,
             (cudaGraphNode_t handle, cudaGraphNode_t* list, cudaGraphEdgeData* data, size_t* count),
             (handle, list, data, count)) {
  const GraphNode* node = node_of(call, handle);
  if (!node || !count) return cudaErrorInvalidValue;
  std::vector<GraphNode*> followers;
  for (const auto& [source, target] : node->graph->edges()) {
    if (source != node) continue;
    if (data && followers.size() < *count) data[followers.size()] = Graph::edge(*source, *target);
    followers.push_back(target);
  }
  return give(followers, list, count);
}

DEADHEAT_API(cudaGraphAddDependencies, device,
             (cudaGraph_t handle, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData* data,
              size_t count),
             (handle, from, to, data, count)) {
  Graph* graph = graph_of(call, handle);
  if (!graph || (count && (!from || !to))) return cudaErrorInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* source = node_of(call, from[i]);
    GraphNode* target = node_of(call, to[i]);
    if (!graph->holds(source) || !graph->holds(target) || source == target) return cudaErrorInvalidValue;
    if (std::find(target->after.begin(), target->after.end(), source) == target->after.end()) {
      target->after.push_back(source);
    }
    Graph::set_edge(*source, *target, data ? &data[i] : nullptr);
  }
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphRemoveDependencies, device,
             (cudaGraph_t handle, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData* data,
              size_t count),
             (handle, from, to, data, count)) {
  Graph* graph = graph_of(call, handle);
  if (!graph || (count && (!from || !to))) return cudaErrorInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* source = node_of(call, from[i]);
    GraphNode* target = node_of(call, to[i]);
    if (!graph->holds(source) || !graph->holds(target)) return cudaErrorInvalidValue;
    if (std::erase(target->after, source) == 0) return cudaErrorInvalidValue;
    Graph::set_edge(*source, *target, nullptr);
  }
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphDestroyNode, device, (cudaGraphNode_t handle), (handle)) {
  GraphNode* node = node_of(call, handle);
  if (!node) return cudaErrorInvalidValue;
  Graph& graph = *node->graph;
  for (const auto& other : graph.nodes) {
    std::erase(other->after, node);
    Graph::set_edge(*node, *other, nullptr);
  }
  std::erase_if(graph.nodes, [&](const auto& other) { return other.get() == node; });
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphDebugDotPrint, device, (cudaGraph_t handle, const char* path, unsigned flags),
             (handle, path, flags)) {
  const Graph* graph = graph_of(call, handle);
  if (!graph || !path) return cudaErrorInvalidValue;
  std::FILE* file = std::fopen(path, "w");
  if (!file) return cudaErrorOperatingSystem;
  std::fprintf(file, "digraph graph_%u {\n", graph->id);
  for (const auto& node : graph->nodes) {
    const auto* launch = std::get_if<deadheat::trace::Launch>(&node->work.what);
    std::fprintf(file, "  n%u [label=\"%u: %s\"];\n", node->index, node->index,
                 launch ? launch->kernel.c_str() : ("type " + std::to_string(node->type)).c_str());
  }
  for (const auto& [from, to] : graph->edges()) std::fprintf(file, "  n%u -> n%u;\n", from->index, to->index);
  std::fprintf(file, "}\n");
  return std::fclose(file) == 0 ? cudaSuccess : cudaErrorOperatingSystem;
}

// ---- Executable graphs

DEADHEAT_API(cudaGraphInstantiate, device, (cudaGraphExec_t * result, cudaGraph_t graph, unsigned long long flags),
             (result, graph, flags)) {
  return instantiate(call, result, graph_of(call, graph), flags);
}

DEADHEAT_API(cudaGraphInstantiateWithFlags, device,
             (cudaGraphExec_t * result, cudaGraph_t graph, unsigned long long flags), (result, graph, flags)) {
  return instantiate(call, result, graph_of(call, graph), flags);
}

DEADHEAT_STREAM_API(cudaGraphInstantiateWithParams, _ptsz, device,
                    (cudaGraphExec_t * result, cudaGraph_t graph, cudaGraphInstantiateParams* parameters),
                    (result, graph, parameters)) {
  if (!parameters) return cudaErrorInvalidValue;
  parameters->errNode_out = nullptr;
  parameters->result_out = cudaGraphInstantiateError;
  const cudaError_t status =
      instantiate(call, result, graph_of(call, graph), parameters->flags, &parameters->result_out);
  if (status == cudaSuccess) parameters->result_out = cudaGraphInstantiateSuccess;
  return status;
}

DEADHEAT_API(cudaGraphExecDestroy, nothing, (cudaGraphExec_t executable), (executable)) {
  const bool known = call.runtime.executables.erase(executable) != 0;
  collect_graph_memory(call);
  return known ? cudaSuccess : cudaErrorInvalidValue;
}

DEADHEAT_API(cudaGraphExecGetFlags, nothing, (cudaGraphExec_t handle, unsigned long long* flags), (handle, flags)) {
  const GraphExec* executable = executable_of(call, handle);
  if (!executable || !flags) return cudaErrorInvalidValue;
  *flags = executable->flags;
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaGraphUpload, _ptsz, device, (cudaGraphExec_t executable, cudaStream_t stream),
                    (executable, stream)) {
  if (!call.stream(stream)) return cudaErrorInvalidResourceHandle;
  return executable_of(call, executable) ? cudaSuccess : cudaErrorInvalidValue;
}

DEADHEAT_STREAM_API(cudaGraphLaunch, _ptsz, device, (cudaGraphExec_t handle, cudaStream_t stream_handle),
                    (handle, stream_handle)) {
  Stream* stream = call.stream(stream_handle);
  return stream ? launch_graph(call, handle, *stream) : cudaErrorInvalidResourceHandle;
}

static cudaGraphExecUpdateResult compare(const std::vector<GraphExec::Step>& now,
                                         const std::vector<GraphExec::Step>& then) {
  if (now.size() != then.size()) return cudaGraphExecUpdateErrorTopologyChanged;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].after != then[i].after) return cudaGraphExecUpdateErrorTopologyChanged;
    if (now[i].type != then[i].type) return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (now[i].condition != then[i].condition || now[i].bodies.size() != then[i].bodies.size())
      return cudaGraphExecUpdateErrorParametersChanged;
    for (size_t body = 0; body < now[i].bodies.size(); ++body) {
      const cudaGraphExecUpdateResult result = compare(now[i].bodies[body], then[i].bodies[body]);
      if (result != cudaGraphExecUpdateSuccess) return result;
    }
  }
  return cudaGraphExecUpdateSuccess;
}

// Nodes keep the names that they were instantiated under.
static void take(std::vector<GraphExec::Step>& from, std::vector<GraphExec::Step>& to) {
  for (size_t i = 0; i < from.size(); ++i) {
    to[i].work = std::move(from[i].work);
    to[i].handle = from[i].handle;
    for (size_t body = 0; body < from[i].bodies.size(); ++body) take(from[i].bodies[body], to[i].bodies[body]);
  }
}

// New parameters for every node, if the graphs are alike.
DEADHEAT_API(cudaGraphExecUpdate, device,
             (cudaGraphExec_t handle, cudaGraph_t graph_handle, cudaGraphExecUpdateResultInfo* info),
             (handle, graph_handle, info)) {
  GraphExec* executable = executable_of(call, handle);
  const Graph* graph = graph_of(call, graph_handle);
  if (!executable || !graph) return cudaErrorInvalidValue;
  std::vector<GraphExec::Step> steps;
  cudaGraphExecUpdateResult result = cudaGraphExecUpdateSuccess;
  std::vector<Condition> conditions;
  cudaGraphInstantiateResult why;
  if (check_conditions(*graph, &conditions, &why) != cudaSuccess) {
    result = cudaGraphExecUpdateError;
  } else {
    result = unfold(*graph, &steps) ? compare(executable->steps, steps) : cudaGraphExecUpdateErrorTopologyChanged;
  }
  if (info) *info = {result, nullptr, nullptr};
  if (result != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
  take(steps, executable->steps);
  executable->conditions = std::move(conditions);
  return cudaSuccess;
}
