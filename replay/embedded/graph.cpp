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

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>(objects);
  copy->id = id;
  std::map<const GraphNode*, GraphNode*> twins;
  for (const auto& node : nodes) {
    GraphNode* twin = copy->add(node->type, node->work, {});
    twins[node.get()] = twin;
    twin->index = node->index;
    if (node->child) twin->child = node->child->clone();
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

GraphExec::Step* GraphExec::step(const GraphNode* node) {
  for (Step& step : steps) {
    if (step.node == node) return &step;
  }
  return nullptr;
}

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
    steps->push_back({node, node->type, node->work, std::move(after), true, programmatic});
  }
  exits->clear();
  for (const GraphNode* node : order) {
    if (!inner.count(node)) exits->insert(exits->end(), ends[node].begin(), ends[node].end());
  }
  return true;
}

bool unfold(const Graph& graph, std::vector<GraphExec::Step>* steps) {
  std::vector<std::uint32_t> exits;
  return unfold_into(graph, {}, steps, &exits);
}

Graph* graph_of(Call& call, cudaGraph_t handle) {
  auto found = call.runtime.graphs.find(handle);
  if (found != call.runtime.graphs.end()) return found->second.get();
  // A child graph belongs to its node; a graph under construction to its capture.
  for (const auto& open : call.runtime.captures) {
    if (reinterpret_cast<cudaGraph_t>(open->graph) == handle) return open->graph;
  }
  for (const auto& [other, graph] : call.runtime.graphs) {
    for (const auto& node : graph->nodes) {
      if (node->child && reinterpret_cast<cudaGraph_t>(node->child.get()) == handle) return node->child.get();
    }
  }
  return nullptr;
}

static GraphNode* find_node(Graph& graph, cudaGraphNode_t handle) {
  for (const auto& node : graph.nodes) {
    if (reinterpret_cast<cudaGraphNode_t>(node.get()) == handle) return node.get();
    GraphNode* inside = node->child ? find_node(*node->child, handle) : nullptr;
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

cudaError_t instantiate(Call& call, cudaGraphExec_t* result, Graph* graph, unsigned long long flags) {
  if (!result || !graph) return cudaErrorInvalidValue;
  if (flags & cudaGraphInstantiateFlagDeviceLaunch) {
    say_once("graphs launched from the device are not supported by the embedded device");
    return cudaErrorNotSupported;
  }
  auto made = std::make_unique<GraphExec>(*graph);
  if (!unfold(*graph, &made->steps)) return cudaErrorInvalidValue;
  made->id = call.runtime.next_graph++;
  made->flags = flags;
  *result = reinterpret_cast<cudaGraphExec_t>(made.get());
  call.runtime.executables.emplace(*result, std::move(made));
  return cudaSuccess;
}

cudaError_t launch_graph(Call& call, GraphExec& executable, Stream& stream) {
  if (stream.capture) {
    stream.capture->invalidated = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  if (const cudaError_t status = plan_graph_memory(call, executable); status != cudaSuccess) return status;
  device::Device& device = call.device();
  if (executable.done == 0) {
    executable.done = device.create_event();
  } else if (executable.last_stream != stream.id) {
    device.stream_wait(stream.id, executable.done, call.thread.number);
  }
  const std::uint32_t launch = device.begin_graph(executable.id, stream.id, call.thread.number);
  std::vector<std::uint32_t> operations;
  cudaError_t status = cudaSuccess;
  for (std::size_t i = 0; i < executable.steps.size() && status == cudaSuccess; ++i) {
    const GraphExec::Step& step = executable.steps[i];
    trace::Operation place;
    place.graph_launch = launch;
    place.graph_node = std::uint32_t(i);
    for (std::uint32_t before : step.after) place.node_dependencies.push_back(operations[before]);
    operations.push_back(0);
    const Work nothing{trace::Marker{}};
    Event* event = step.enabled && step.work.event ? call.event(step.work.event) : nullptr;
    if (event && step.work.event_waits && event->recorded) {
      if (place.node_dependencies.empty()) { // it waits for what precedes the graph, too
        status = submit_now(call, stream.id, nothing, place, &operations.back());
        place.node_dependencies = {operations.back()};
      }
      place.node_dependencies.push_back(device.event_operation(event->id));
    }
    if (status != cudaSuccess) break;
    Work work = step.enabled ? step.work : nothing;
    if (auto* kernel = std::get_if<trace::Launch>(&work.what)) kernel->programmatic = step.programmatic;
    status = submit_now(call, stream.id, work, place, &operations.back());
    if (event && !step.work.event_waits && status == cudaSuccess) {
      event->position = call.runtime.submitted;
      event->recorded = true;
      event->capture = nullptr;
      event->nodes.clear();
      device.event_recorded(event->id, stream.id, operations.back(), call.thread.number);
    }
  }
  device.end_graph(launch);
  device.record_event(executable.done, stream.id, call.thread.number);
  executable.last_stream = stream.id;
  return status;
}

} // namespace deadheat::embedded
