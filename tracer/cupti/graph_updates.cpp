// Instantiated graphs, changed: as a whole, a child graph, or one node. Kernels: kernel_nodes.cpp.
//
// Of a graph that is changed before it is instantiated nothing need be known.
#include <algorithm>
#include <utility>

#include "tracer/cupti/graph_pieces.h"
#include "tracer/cupti/graphs.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_functions.h"

namespace deadheat::cupti {

namespace {

// What a node does, and not where it stands in its graph.
void exchange_work(GraphNode& a, GraphNode& b) {
  std::swap(a, b);
  std::swap(a.after, b.after);
  std::swap(a.handle, b.handle);
  std::swap(a.number, b.number);
  std::swap(a.enabled, b.enabled);
  std::swap(a.programmatic, b.programmatic);
}

bool alike(const std::vector<GraphNode>& a, const std::vector<GraphNode>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const GraphNode& x, const GraphNode& y) {
    return std::equal(x.bodies.begin(), x.bodies.end(), y.bodies.begin(), y.bodies.end(), alike);
  });
}

// Later changes name nodes as the graph has them that it was instantiated from; what is off stays off.
void keep_names(std::vector<GraphNode>& nodes, const std::vector<GraphNode>& old) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].handle = old[i].handle;
    nodes[i].enabled = old[i].enabled;
    for (std::size_t body = 0; body < nodes[i].bodies.size(); ++body)
      keep_names(nodes[i].bodies[body], old[i].bodies[body]);
  }
}

bool is_known(Call& call, CUgraphExec executable) {
  std::lock_guard hold(call.session.lock);
  return call.session.executables.count(executable) > 0;
}

void way_in(Call& call, CUgraphExec executable, CUgraph graph) {
  if (is_known(call, executable))
    put_host_functions(call, graph);
  else
    call.carried<HostNodes>() = nullptr;
}

// It may have been changed in part.
void failed(Call& call, HostNodes* hosts, CUgraph graph) {
  if (hosts) hosts->keep();
  if (call.exit) keep_controls(call, graph);
}

void update(Call& call, CUgraphExec executable, CUgraph graph) {
  if (!call.exit) return way_in(call, executable, graph);
  const std::unique_ptr<HostNodes> hosts = host_functions(call);
  if (!call.done()) return failed(call, hosts.get(), graph);
  Executable made = nodes_of(call, graph, hosts.get());
  std::lock_guard hold(call.session.lock);
  const auto found = call.session.executables.find(executable);
  if (found == call.session.executables.end()) return retire(call.session, made);
  Executable& old = found->second;
  each_node(made.nodes, [&](const GraphNode& node) { made_of(call.session, old, node, node.handle); });
  if (alike(made.nodes, old.nodes))
    keep_names(made.nodes, old.nodes);
  else
    old.children.clear();
  std::swap(old.nodes, made.nodes);
  old.decides = made.decides;
  retire(call.session, made);
}

template <typename Change>
void change(Call& call, CUgraphExec executable, CUgraphNode handle, Change&& change) {
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  if (GraphNode* node = call.session.node_of(executable, handle))
    change(*node);
  else
    changed_unseen(call.session, executable);
}

// Of a node that is changed, where one is kept; the old one goes without the lock.
template <typename Make>
std::shared_ptr<NodeAlone> alone_again(Call& call, CUgraphExec executable, CUgraphNode handle, Make&& make) {
  bool kept = false;
  if (call.done()) {
    std::lock_guard hold(call.session.lock);
    const GraphNode* node = call.session.node_of(executable, handle);
    kept = node && node->alone;
  }
  return kept ? make() : nullptr;
}

void change_event(Call& call, CUgraphExec executable, CUgraphNode handle, CUevent event) {
  change(call, executable, handle, [&](GraphNode& node) { node.event = event; });
}

// `params`: of any version. The node is given a function of the library.
template <typename Params>
void change_host(Call& call, CUgraphExec executable, CUgraphNode handle, const Params*& params, Params& given) {
  if (!call.exit) {
    call.carried<HostNode>() = nullptr;
    if (!params || !params->fn || !is_known(call, executable)) return;
    auto* host = new HostNode(call.session, HostNode::program({params->fn, params->userData}));
    given = {host->given().fn, host->given().userData};
    params = &given;
    call.carried<HostNode>() = host;
    return;
  }
  HostNode* host = std::exchange(call.carried<HostNode>(), nullptr);
  if (host && !call.done()) host->keep();
  change(call, executable, handle, [&](GraphNode& node) { std::swap(node.host, host); });
  if (host) host->retire(); // the one before, or the new one
}

} // namespace

void changed_unseen(Session& session, CUgraphExec executable) {
  if (session.executables.count(executable))
    session.incident("lost",
                     "a node of an instantiated graph was changed that is not known: the trace shows the old one");
}

void update_graph(Call& call, cuGraphExecUpdate_v2_params& p) { update(call, p.hGraphExec, p.hGraph); }
void update_graph_first(Call& call, cuGraphExecUpdate_params& p) { update(call, p.hGraphExec, p.hGraph); }

void update_child_node(Call& call, cuGraphExecChildGraphNodeSetParams_params& p) {
  if (!call.exit) return way_in(call, p.hGraphExec, p.childGraph);
  const std::unique_ptr<HostNodes> hosts = host_functions(call);
  if (!call.done()) return failed(call, hosts.get(), p.childGraph);
  Executable made = nodes_of(call, p.childGraph, hosts.get());
  std::lock_guard hold(call.session.lock);
  const auto found = call.session.executables.find(p.hGraphExec);
  if (found == call.session.executables.end()) return retire(call.session, made);
  Executable& graph = found->second;
  const auto child = graph.children.find(p.hNode);
  const Executable::Part part = child == graph.children.end() ? Executable::Part{} : child->second;
  if (child == graph.children.end() || part.end - part.begin != made.nodes.size()) {
    call.session.incident("lost", "a child graph of an instantiated graph was changed: the trace shows the old one");
  } else {
    for (std::size_t i = 0; i < made.nodes.size(); ++i) {
      const CUgraphNode handle = made.nodes[i].handle;
      exchange_work(graph.nodes[part.begin + i], made.nodes[i]);
      made_of(call.session, graph, graph.nodes[part.begin + i], handle);
    }
  }
  retire(call.session, made);
}

void update_copy_node(Call& call, cuGraphExecMemcpyNodeSetParams_params& p) {
  if (!p.copyParams) return;
  auto alone = alone_again(call, p.hGraphExec, p.hNode, [&] { return NodeAlone::copy(*p.copyParams, p.ctx); });
  change(call, p.hGraphExec, p.hNode, [&](GraphNode& node) {
    node.what = copy_of(call.session, *p.copyParams, "cudaMemcpyAsync");
    std::swap(node.alone, alone);
  });
}
void update_set_node(Call& call, cuGraphExecMemsetNodeSetParams_params& p) {
  if (!p.memsetParams) return;
  auto alone = alone_again(call, p.hGraphExec, p.hNode, [&] { return NodeAlone::set(*p.memsetParams, p.ctx); });
  change(call, p.hGraphExec, p.hNode, [&](GraphNode& node) {
    node.what = set_of(*p.memsetParams, "cudaMemsetAsync");
    std::swap(node.alone, alone);
  });
}
void update_host_node(Call& call, cuGraphExecHostNodeSetParams_params& p) {
  static thread_local CUDA_HOST_NODE_PARAMS given;
  change_host(call, p.hGraphExec, p.hNode, p.nodeParams, given);
}
void update_recording_node(Call& call, cuGraphExecEventRecordNodeSetEvent_params& p) {
  change_event(call, p.hGraphExec, p.hNode, p.event);
}
void update_waiting_node(Call& call, cuGraphExecEventWaitNodeSetEvent_params& p) {
  change_event(call, p.hGraphExec, p.hNode, p.event);
}
void enable_node(Call& call, cuGraphNodeSetEnabled_params& p) {
  change(call, p.hGraphExec, p.hNode, [&](GraphNode& node) { node.enabled = p.isEnabled != 0; });
}

void update_any_node(Call& call, cuGraphExecNodeSetParams_params& p) {
  static thread_local CUgraphNodeParams given;
  if (!p.nodeParams) return;
  const CUgraphNodeParams& params = *p.nodeParams;
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return update_any_kernel_node(call, p);
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      cuGraphExecMemcpyNodeSetParams_params same{p.hGraphExec, p.hNode, &params.memcpy.copyParams,
                                                 params.memcpy.copyCtx};
      return update_copy_node(call, same);
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS_v2& m = params.memset;
      const CUDA_MEMSET_NODE_PARAMS set{m.dst, m.pitch, m.value, m.elementSize, m.width, m.height};
      cuGraphExecMemsetNodeSetParams_params same{p.hGraphExec, p.hNode, &set, m.ctx};
      return update_set_node(call, same);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS_v2* host = &params.host;
      if (!call.exit) given = params;
      change_host(call, p.hGraphExec, p.hNode, host, given.host);
      if (!call.exit && host == &given.host) p.nodeParams = &given;
      return;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      cuGraphExecChildGraphNodeSetParams_params same{p.hGraphExec, p.hNode, params.graph.graph};
      return update_child_node(call, same);
    }
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return change_event(call, p.hGraphExec, p.hNode, params.eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return change_event(call, p.hGraphExec, p.hNode, params.eventWait.event);
    default: break;
  }
}

} // namespace deadheat::cupti
