// Conditional nodes: handles, nodes with their bodies, and what may be in these (Runtime API,
// cudaGraphConditionalHandleCreate, cudaConditionalNodeParams, cudaGraphNodeTypeConditional).
#include <algorithm>
#include <set>

#include "deadheat/conditions.h"
#include "replay/embedded/graph_nodes.h"

namespace deadheat::embedded {

namespace {

constexpr std::uint64_t most_handles_placed = 1024; // at once

// Handles cannot be destroyed: one is never used again.
Expected<cudaGraphConditionalHandle> next_handle(Call& call) {
  Runtime& runtime = call.runtime;
  if (runtime.next_condition == runtime.conditions_end) {
    Expected<trace::Allocate> made = call.device().place_conditions(most_handles_placed * sizeof(unsigned));
    if (!made) return made.error();
    runtime.next_condition = made->address;
    runtime.conditions_end = made->address + made->bytes;
  }
  const cudaGraphConditionalHandle handle = runtime.next_condition;
  runtime.next_condition += sizeof(unsigned);
  return handle;
}

// "The conditional handle must be associated with a conditional node in this graph or one of its children."
bool has_handle(const Graph& graph, cudaGraphConditionalHandle handle) {
  for (const Graph* at = &graph; at; at = at->owner ? at->owner->graph : nullptr) {
    for (const Condition& condition : at->conditions) {
      if (condition.handle == handle) return true;
    }
  }
  return false;
}

bool fits(const cudaConditionalNodeParams& given) {
  switch (given.type) {
    case cudaGraphCondTypeIf: return given.size == 1 || given.size == 2;
    case cudaGraphCondTypeWhile: return given.size == 1;
    case cudaGraphCondTypeSwitch: return given.size > 0;
  }
  return false;
}

bool may_be_in_a_body(cudaGraphNodeType type) {
  return type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeEmpty || type == cudaGraphNodeTypeGraph ||
         type == cudaGraphNodeTypeMemset || type == cudaGraphNodeTypeMemcpy || type == cudaGraphNodeTypeConditional;
}

// What a graph and all inside it have of conditions.
struct Survey {
  std::vector<Condition> conditions;
  std::set<cudaGraphConditionalHandle> used;
  const GraphNode* misplaced = nullptr; // in a body, where its type may not be

  void add(const Graph& graph, bool in_body) {
    conditions.insert(conditions.end(), graph.conditions.begin(), graph.conditions.end());
    for (const auto& node : graph.nodes) {
      if (in_body && !may_be_in_a_body(node->type)) misplaced = node.get();
      if (node->child) add(*node->child, in_body);
      if (node->bodies.handle) used.insert(node->bodies.handle);
      for (const auto& body : node->bodies.graphs) add(*body, true);
    }
  }
};

} // namespace

cudaError_t check_conditions(const Graph& graph, std::vector<Condition>* conditions, cudaGraphInstantiateResult* why) {
  *why = cudaGraphInstantiateError;
  Survey survey;
  survey.add(graph, false);
  if (survey.misplaced) {
    say_once("the body of a conditional node has a node of type " + std::to_string(survey.misplaced->type) +
             ": it may have kernels, copies, sets, empty nodes, child graphs and conditional nodes");
    *why = cudaGraphInstantiateInvalidStructure;
    return cudaErrorInvalidValue;
  }
  for (const Condition& condition : survey.conditions) {
    if (survey.used.count(condition.handle)) continue;
    say_once("a graph's conditional handle belongs to no conditional node");
    *why = cudaGraphInstantiateConditionalHandleUnused;
    return cudaErrorInvalidValue;
  }
  *conditions = std::move(survey.conditions);
  return cudaSuccess;
}

cudaError_t add_condition(Call& call, cudaGraphNode_t* result, cudaGraph_t handle, const cudaGraphNode_t* after,
                          size_t count, cudaConditionalNodeParams* parameters) {
  const Graph* graph = graph_of(call, handle);
  if (!graph || !fits(*parameters) || !has_handle(*graph, parameters->handle)) return cudaErrorInvalidValue;
  const cudaError_t status =
      add_node(call, result, handle, after, count, cudaGraphNodeTypeConditional, {trace::Marker{}});
  if (status != cudaSuccess) return status;
  GraphNode& node = *node_of(call, *result);
  node.bodies.handle = parameters->handle;
  node.bodies.type = parameters->type;
  for (unsigned i = 0; i < parameters->size; ++i) {
    auto body = std::make_unique<Graph>();
    body->id = call.runtime.next_graph++;
    body->owner = &node;
    node.bodies.handles.push_back(reinterpret_cast<cudaGraph_t>(body.get()));
    node.bodies.graphs.push_back(std::move(body));
  }
  parameters->phGraph_out = node.bodies.handles.data();
  return cudaSuccess;
}

} // namespace deadheat::embedded

using namespace deadheat::embedded;

DEADHEAT_API(cudaGraphConditionalHandleCreate, device,
             (cudaGraphConditionalHandle * result, cudaGraph_t handle, unsigned value, unsigned flags),
             (result, handle, value, flags)) {
  Graph* graph = graph_of(call, handle);
  if (!result || !graph || (flags & ~unsigned(cudaGraphCondAssignDefault))) return cudaErrorInvalidValue;
  deadheat::Expected<cudaGraphConditionalHandle> made = next_handle(call);
  if (!made) {
    say_once(std::string(call.api) + ": " + made.error().message());
    return cudaErrorMemoryAllocation;
  }
  graph->conditions.push_back({*made, value, (flags & cudaGraphCondAssignDefault) != 0});
  *result = *made;
  return cudaSuccess;
}
