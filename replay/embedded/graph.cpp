#include "replay/embedded/graph.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

namespace deadheat::embedded {

GraphNode* Graph::add(cudaGraphNodeType type, Work work, std::vector<GraphNode*> after) {
  auto made = std::make_unique<GraphNode>();
  made->graph = this;
  made->index = nodes.empty() ? 0 : nodes.back()->index + 1;
  made->type = type;
  made->work = std::move(work);
  for (GraphNode* node : after) {
    if (std::find(made->after.begin(), made->after.end(), node) == made->after.end()) made->after.push_back(node);
  }
  nodes.push_back(std::move(made));
  return nodes.back().get();
}

// Runtime API, cudaGraphEdgeData: programmatic edges lie between kernels; so do those from the port that activates
// "when all blocks of the kernel have begun execution", over which as little is known to be complete.
void Graph::set_edge(const GraphNode& before, GraphNode& node, const cudaGraphEdgeData* edge) {
  const bool kernels = before.type == cudaGraphNodeTypeKernel && node.type == cudaGraphNodeTypeKernel;
  const bool early = edge && (edge->type == cudaGraphDependencyTypeProgrammatic ||
                              edge->from_port == cudaGraphKernelNodePortLaunchCompletion);
  if (early && kernels)
    node.primary = &before;
  else if (node.primary == &before)
    node.primary = nullptr;
}

cudaGraphEdgeData Graph::edge(const GraphNode& before, const GraphNode& node) {
  cudaGraphEdgeData data{};
  if (node.primary == &before) {
    data.from_port = cudaGraphKernelNodePortProgrammatic;
    data.type = cudaGraphDependencyTypeProgrammatic;
  }
  return data;
}

bool Graph::has_conditions() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
    return !node->bodies.graphs.empty() || (node->child && node->child->has_conditions());
  });
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>(objects);
  copy->id = id;
  std::map<const GraphNode*, GraphNode*> twins;
  for (const auto& node : nodes) {
    GraphNode* twin = copy->add(node->type, node->work, {});
    twins[node.get()] = twin;
    twin->index = node->index;
    if (!node->child) continue;
    twin->child = node->child->clone();
    twin->child->owner = twin;
  }
  for (const auto& node : nodes) {
    for (GraphNode* before : node->after) twins[node.get()]->after.push_back(twins[before]);
    if (node->primary) twins[node.get()]->primary = twins[node->primary];
  }
  return copy;
}

std::vector<GraphNode*> Graph::in_order() const {
  std::map<const GraphNode*, std::size_t> waits;
  std::map<const GraphNode*, std::vector<GraphNode*>> followers;
  auto later = [](const GraphNode* a, const GraphNode* b) { return a->index > b->index; };
  std::priority_queue<GraphNode*, std::vector<GraphNode*>, decltype(later)> ready(later);
  for (const auto& node : nodes) {
    waits[node.get()] = node->after.size();
    for (GraphNode* before : node->after) followers[before].push_back(node.get());
    if (node->after.empty()) ready.push(node.get());
  }
  std::vector<GraphNode*> order;
  while (!ready.empty()) {
    GraphNode* node = ready.top();
    ready.pop();
    order.push_back(node);
    for (GraphNode* follower : followers[node]) {
      if (--waits[follower] == 0) ready.push(follower);
    }
  }
  if (order.size() != nodes.size()) order.clear();
  return order;
}

std::vector<std::pair<GraphNode*, GraphNode*>> Graph::edges() const {
  std::vector<std::pair<GraphNode*, GraphNode*>> list;
  for (const auto& node : nodes) {
    for (GraphNode* before : node->after) list.emplace_back(before, node.get());
  }
  return list;
}

static GraphExec::Step* find_step(std::vector<GraphExec::Step>& steps, const GraphNode* node) {
  for (GraphExec::Step& step : steps) {
    if (step.node == node) return &step;
    for (std::vector<GraphExec::Step>& body : step.bodies) {
      if (GraphExec::Step* inside = find_step(body, node)) return inside;
    }
  }
  return nullptr;
}

GraphExec::Step* GraphExec::step(const GraphNode* node) { return find_step(steps, node); }

// Appends the steps of `graph`, its roots behind `entry`; `exits` becomes what work after the whole graph waits for.
static bool unfold_into(const Graph& graph, const std::vector<std::uint32_t>& entry,
                        std::vector<GraphExec::Step>* steps, std::vector<std::uint32_t>* exits) {
  const std::vector<GraphNode*> order = graph.in_order();
  if (order.empty() && !graph.nodes.empty()) return false;
  std::map<const GraphNode*, std::vector<std::uint32_t>> ends; // what work behind a node waits for
  std::set<const GraphNode*> inner;                            // nodes that others wait for
  for (const GraphNode* node : order) {
    std::vector<std::uint32_t> after = node->after.empty() ? entry : std::vector<std::uint32_t>{};
    for (const GraphNode* before : node->after) {
      inner.insert(before);
      after.insert(after.end(), ends[before].begin(), ends[before].end());
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (node->child) {
      if (!unfold_into(*node->child, after, steps, &ends[node])) return false;
      if (node->child->nodes.empty()) ends[node] = after;
      continue;
    }
    ends[node] = {std::uint32_t(steps->size())};
    const bool programmatic = node->primary && node->after.size() == 1; // behind several: as if it were not
    GraphExec::Step& step = steps->emplace_back();
    step.node = node;
    step.type = node->type;
    step.work = node->work;
    step.after = std::move(after);
    step.programmatic = programmatic;
    step.handle = node->bodies.handle;
    step.condition = node->bodies.type;
    for (const std::unique_ptr<Graph>& body : node->bodies.graphs) {
      std::vector<std::uint32_t> last;
      if (!unfold_into(*body, {}, &step.bodies.emplace_back(), &last)) return false;
    }
  }
  exits->clear();
  for (const GraphNode* node : order) {
    if (!inner.count(node)) exits->insert(exits->end(), ends[node].begin(), ends[node].end());
  }
  return true;
}

// Nodes of bodies come behind those of the graph around them.
static void number(std::vector<GraphExec::Step>& steps, std::uint32_t& next) {
  for (GraphExec::Step& step : steps) step.number = next++;
  for (GraphExec::Step& step : steps) {
    for (std::vector<GraphExec::Step>& body : step.bodies) number(body, next);
  }
}

bool unfold(const Graph& graph, std::vector<GraphExec::Step>* steps) {
  std::vector<std::uint32_t> exits;
  std::uint32_t next = 0;
  if (!unfold_into(graph, {}, steps, &exits)) return false;
  number(*steps, next);
  return true;
}

// A child graph, or a body, belongs to its node.
static Graph* find_graph(Graph& graph, cudaGraph_t handle) {
  if (reinterpret_cast<cudaGraph_t>(&graph) == handle) return &graph;
  for (const auto& node : graph.nodes) {
    if (Graph* inside = node->child ? find_graph(*node->child, handle) : nullptr) return inside;
    for (const auto& body : node->bodies.graphs) {
      if (Graph* inside = find_graph(*body, handle)) return inside;
    }
  }
  return nullptr;
}

Graph* graph_of(Call& call, cudaGraph_t handle) {
  auto found = call.runtime.graphs.find(handle);
  if (found != call.runtime.graphs.end()) return found->second.get();
  for (const auto& open : call.runtime.captures) { // graphs under construction
    if (Graph* inside = find_graph(*open->graph, handle)) return inside;
  }
  for (const auto& [other, graph] : call.runtime.graphs) {
    if (Graph* inside = find_graph(*graph, handle)) return inside;
  }
  return nullptr;
}

static GraphNode* find_node(Graph& graph, cudaGraphNode_t handle) {
  for (const auto& node : graph.nodes) {
    if (reinterpret_cast<cudaGraphNode_t>(node.get()) == handle) return node.get();
    GraphNode* inside = node->child ? find_node(*node->child, handle) : nullptr;
    for (const auto& body : node->bodies.graphs) {
      if (!inside) inside = find_node(*body, handle);
    }
    if (inside) return inside;
  }
  return nullptr;
}

GraphNode* node_of(Call& call, cudaGraphNode_t handle) {
  for (const auto& [other, graph] : call.runtime.graphs) {
    if (GraphNode* node = find_node(*graph, handle)) return node;
  }
  for (const auto& open : call.runtime.captures) {
    if (GraphNode* node = find_node(*open->graph, handle)) return node;
  }
  return nullptr;
}

GraphExec* executable_of(Call& call, cudaGraphExec_t handle) {
  auto found = call.runtime.executables.find(handle);
  return found == call.runtime.executables.end() ? nullptr : found->second.get();
}

// What each conditional node reads has a place of its own: two launches may run at the same time.
static void place_decisions(std::deque<std::uint32_t>& decisions, std::vector<GraphExec::Step>& steps) {
  for (GraphExec::Step& step : steps) {
    if (step.handle) step.decision = &decisions.emplace_back();
    for (std::vector<GraphExec::Step>& body : step.bodies) place_decisions(decisions, body);
  }
}

cudaError_t instantiate(Call& call, cudaGraphExec_t* result, Graph* graph, unsigned long long flags,
                        cudaGraphInstantiateResult* why) {
  if (!result || !graph) return cudaErrorInvalidValue;
  if (flags & cudaGraphInstantiateFlagDeviceLaunch) {
    say_once("graphs launched from the device are not supported by the embedded device");
    return cudaErrorNotSupported;
  }
  auto made = std::make_unique<GraphExec>(*graph);
  cudaGraphInstantiateResult ignored;
  const cudaError_t status = check_conditions(*graph, &made->conditions, why ? why : &ignored);
  if (status != cudaSuccess) return status;
  if (!unfold(*graph, &made->steps)) return cudaErrorInvalidValue;
  const bool again =
      graph->has_conditions() && std::any_of(call.runtime.executables.begin(), call.runtime.executables.end(),
                                             [&](const auto& other) { return other.second->source == graph->id; });
  if (again) { // Runtime API, cudaGraphNodeTypeConditional
    say_once(std::string(call.api) + ": a graph with conditional nodes is instantiated already");
    return cudaErrorInvalidValue;
  }
  place_decisions(call.runtime.decisions, made->steps);
  made->source = graph->id;
  made->id = call.runtime.next_graph++;
  made->flags = flags;
  *result = reinterpret_cast<cudaGraphExec_t>(made.get());
  call.runtime.executables.emplace(*result, std::move(made));
  return cudaSuccess;
}

} // namespace deadheat::embedded
