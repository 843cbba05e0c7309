// CUDA graphs: what their nodes do is asked when they are instantiated or updated; each launch submits them.
#include <algorithm>
#include <unordered_map>

#include "tracer/cupti/handlers.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

void describe(Call& call, CUgraphNode node, GraphNode& to) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  driver().cuGraphNodeGetType(node, &type);
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      if (describe_kernel(call, node, to)) return;
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      CUDA_MEMCPY3D copy{};
      if (driver().cuGraphMemcpyNodeGetParams(node, &copy) != CUDA_SUCCESS) break;
      std::lock_guard hold(call.session.lock);
      to.what = copy_of(call.session, copy, "cudaMemcpyAsync");
      return;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS set{};
      if (driver().cuGraphMemsetNodeGetParams(node, &set) != CUDA_SUCCESS) break;
      to.what = set_of(set, "cudaMemsetAsync");
      return;
    }
    case CU_GRAPH_NODE_TYPE_HOST: to.what = trace::HostCallback{"cudaLaunchHostFunc"}; return;
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return;
    default: break;
  }
  call.session.incident("graph-node",
                        "a graph's node of a kind that is not followed (type " + std::to_string(type) + ")");
}

// Adds the nodes of `graph`; `entries`: what its roots come after. Returns the nodes that nothing follows.
std::vector<std::uint32_t> unfold(Call& call, CUgraph graph, const std::vector<std::uint32_t>& entries,
                                  std::vector<GraphNode>& nodes, int depth) {
  std::size_t count = 0, edges = 0;
  if (depth > 8 || driver().cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return entries;
  std::vector<CUgraphNode> handles(count);
  driver().cuGraphGetNodes(graph, handles.data(), &count);
  driver().cuGraphGetEdges_v2(graph, nullptr, nullptr, nullptr, &edges);
  std::vector<CUgraphNode> from(edges), to(edges);
  std::vector<CUgraphEdgeData> data(edges);
  if (edges) driver().cuGraphGetEdges_v2(graph, from.data(), to.data(), data.data(), &edges);
  std::unordered_map<CUgraphNode, std::vector<CUgraphNode>> before;
  std::unordered_map<CUgraphNode, std::size_t> after;
  for (std::size_t i = 0; i < edges; ++i) {
    before[to[i]].push_back(from[i]);
    ++after[from[i]];
  }
  std::unordered_map<CUgraphNode, std::vector<std::uint32_t>> ends;  // of nodes that are placed
  std::vector<std::uint32_t> sinks;
  for (std::size_t placed = 0; placed < count;) {
    const std::size_t at_start = placed;
    for (CUgraphNode handle : handles) {
      if (ends.count(handle)) continue;
      std::vector<std::uint32_t> dependencies;
      bool ready = true;
      for (CUgraphNode b : before[handle]) {
        auto found = ends.find(b);
        if (found == ends.end())
          ready = false;
        else
          dependencies.insert(dependencies.end(), found->second.begin(), found->second.end());
      }
      if (!ready) continue;
      if (before[handle].empty()) dependencies = entries;
      ++placed;
      CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
      driver().cuGraphNodeGetType(handle, &type);
      CUgraph child = nullptr;
      if (type == CU_GRAPH_NODE_TYPE_GRAPH && driver().cuGraphChildGraphNodeGetGraph(handle, &child) == CUDA_SUCCESS) {
        ends[handle] = unfold(call, child, dependencies, nodes, depth + 1);
      } else {
        GraphNode node;
        node.after = std::move(dependencies);
        node.handle = handle;
        describe(call, handle, node);
        ends[handle] = {std::uint32_t(nodes.size())};
        nodes.push_back(std::move(node));
      }
      if (!after.count(handle)) sinks.insert(sinks.end(), ends[handle].begin(), ends[handle].end());
    }
    if (placed == at_start) break;  // a cycle: the driver would not have taken it
  }
  return sinks;
}

// What a window must know of a graph's node.
void in_window(Window& window, const GraphNode& node) {
  if (const auto* copy = std::get_if<trace::Copy>(&node.what)) {
    using Direction = trace::Copy::Direction;
    if (copy->direction == Direction::h2d) window.spoil("a graph copies from the host");
    if (copy->direction != Direction::h2d) window.touch(copy->source);
    if (copy->direction != Direction::d2h) window.touch(copy->destination);
  } else if (const auto* set = std::get_if<trace::Set>(&node.what)) {
    window.touch(set->destination);
  } else if (std::holds_alternative<trace::Launch>(node.what) && !node.control) {
    window.spoil("a graph with opaque kernels was launched");
  }
}

void instantiated(Call& call, CUgraphExec* executable, CUgraph graph) {
  if (!call.done() || !executable) return;
  std::vector<GraphNode> nodes;
  unfold(call, graph, {}, nodes, 0);
  std::lock_guard hold(call.session.lock);
  Session::Executable made;
  made.id = call.session.next_graph++;
  made.nodes = std::move(nodes);
  call.session.executables[*executable] = std::move(made);
}

}  // namespace

void begin_capture(Call& call, cuStreamBeginCapture_v2_params&) {
  if (call.done()) ++call.session.captures();
}
void end_capture(Call& call, cuStreamEndCapture_params&) {
  if (call.exit && call.session.captures() > 0) --call.session.captures();
}

void instantiate(Call& call, cuGraphInstantiate_v2_params& p) { instantiated(call, p.phGraphExec, p.hGraph); }
void instantiate_with_flags(Call& call, cuGraphInstantiateWithFlags_params& p) {
  instantiated(call, p.phGraphExec, p.hGraph);
}
void instantiate_with_params(Call& call, cuGraphInstantiateWithParams_params& p) {
  instantiated(call, p.phGraphExec, p.hGraph);
}

void update_graph(Call& call, cuGraphExecUpdate_v2_params& p) {
  if (!call.done()) return;
  std::vector<GraphNode> nodes;
  unfold(call, p.hGraph, {}, nodes, 0);
  std::lock_guard hold(call.session.lock);
  auto found = call.session.executables.find(p.hGraphExec);
  if (found == call.session.executables.end()) return;
  // Later changes name nodes as the graph has them that it was instantiated from; what is off stays off.
  std::vector<GraphNode>& old = found->second.nodes;
  for (std::size_t i = 0; i < nodes.size() && nodes.size() == old.size(); ++i) {
    nodes[i].handle = old[i].handle;
    nodes[i].enabled = old[i].enabled;
  }
  old = std::move(nodes);
}

// Nodes of instantiated graphs, changed one at a time; kernels: launches.cpp.
void update_copy_node(Call& call, cuGraphExecMemcpyNodeSetParams_params& p) {
  if (!call.done() || !p.copyParams) return;
  std::lock_guard hold(call.session.lock);
  if (GraphNode* node = call.session.node_of(p.hGraphExec, p.hNode))
    node->what = copy_of(call.session, *p.copyParams, "cudaMemcpyAsync");
}
void update_set_node(Call& call, cuGraphExecMemsetNodeSetParams_params& p) {
  if (!call.done() || !p.memsetParams) return;
  std::lock_guard hold(call.session.lock);
  if (GraphNode* node = call.session.node_of(p.hGraphExec, p.hNode))
    node->what = set_of(*p.memsetParams, "cudaMemsetAsync");
}
void enable_node(Call& call, cuGraphNodeSetEnabled_params& p) {
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  if (GraphNode* node = call.session.node_of(p.hGraphExec, p.hNode)) node->enabled = p.isEnabled != 0;
}
void update_child_node(Call& call, cuGraphExecChildGraphNodeSetParams_params&) {
  if (call.done()) {
    call.session.incident("graph-update",
                          "a child graph of an instantiated graph was changed: its trace shows the old one");
  }
}
void update_any_node(Call& call, cuGraphExecNodeSetParams_params& p) {
  if (!call.done() || !p.nodeParams) return;
  const CUgraphNodeParams& params = *p.nodeParams;
  if (params.type == CU_GRAPH_NODE_TYPE_KERNEL) {
    const CUDA_KERNEL_NODE_PARAMS_v3& k = params.kernel;
    const CUDA_KERNEL_NODE_PARAMS kernel{k.func,         k.gridDimX,  k.gridDimY,  k.gridDimZ,
                                         k.blockDimX,    k.blockDimY, k.blockDimZ, k.sharedMemBytes,
                                         k.kernelParams, k.extra,     k.kern,      k.ctx};
    cuGraphExecKernelNodeSetParams_v2_params same{p.hGraphExec, p.hNode, &kernel};
    update_kernel_node(call, same);
  } else if (params.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    cuGraphExecMemcpyNodeSetParams_params same{p.hGraphExec, p.hNode, &params.memcpy.copyParams, params.memcpy.copyCtx};
    update_copy_node(call, same);
  } else if (params.type == CU_GRAPH_NODE_TYPE_MEMSET) {
    const CUDA_MEMSET_NODE_PARAMS_v2& m = params.memset;
    const CUDA_MEMSET_NODE_PARAMS set{m.dst, m.pitch, m.value, m.elementSize, m.width, m.height};
    cuGraphExecMemsetNodeSetParams_params same{p.hGraphExec, p.hNode, &set, m.ctx};
    update_set_node(call, same);
  } else if (params.type == CU_GRAPH_NODE_TYPE_GRAPH) {
    cuGraphExecChildGraphNodeSetParams_params same{};
    update_child_node(call, same);
  }
}

void destroy_graph(Call& call, cuGraphExecDestroy_params& p) {
  if (call.exit) return;
  std::lock_guard hold(call.session.lock);
  call.session.executables.erase(p.hGraphExec);
}

// On the way in, so that launches are known before their accesses come.
void launch_graph(Call& call, cuGraphLaunch_params& p) {
  if (call.exit || call.captured(p.hStream)) return;
  Session& session = call.session;
  std::lock_guard hold(session.lock);
  auto found = session.executables.find(p.hGraph);
  if (found == session.executables.end()) {
    return session.incident("graph", "a graph was launched whose instantiation was not seen");
  }
  Session::Executable& graph = found->second;
  const std::uint32_t stream = call.stream(p.hStream);
  if (graph.done && graph.last_stream != stream) session.wait_event(stream, graph.done);  // one launch at a time
  if (!graph.done) graph.done = session.event(reinterpret_cast<CUevent>(&graph));
  graph.last_stream = stream;
  const std::uint32_t launch = session.next_graph_launch();
  session.journal().push(trace::GraphLaunch{launch, graph.id, stream, session.host_thread()});
  std::vector<std::uint32_t> operations;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    trace::Operation operation;
    operation.stream = stream;
    operation.graph_launch = launch;
    operation.graph_node = std::uint32_t(i);
    for (std::uint32_t before : node.after) operation.node_dependencies.push_back(operations[before]);
    std::shared_ptr<RecordedLaunch> recorded;
    if (!node.enabled) { // a marker
      operations.push_back(session.submit(std::move(operation)));
      continue;
    }
    if (std::holds_alternative<trace::Launch>(node.what)) {
      operation.launch = session.next_launch();
      if (node.control)
        recorded = session.recorder().expect(node.control, graph_shape(session, node, operation.launch));
    }
    if (Window* window = session.window(); window && window->open()) in_window(*window, node);
    operation.what = node.what;
    operations.push_back(session.submit(std::move(operation), recorded));
  }
  session.journal().push(trace::GraphEnd{launch});
  session.record_event(graph.done, stream);
  if (Window* window = session.window()) {
    window->graph_launched(stream, session.recorded(graph.done), call.own_handle(p.hStream));
  }
}

}  // namespace deadheat::cupti
