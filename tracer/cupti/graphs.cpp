// CUDA graphs: what their nodes do is asked when they are instantiated.
#include "tracer/cupti/graphs.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tracer/cupti/graph_pieces.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_functions.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/recorder.h"

namespace deadheat::cupti {

namespace {

const char* name_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return "a kernel whose parameters the driver does not tell";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: return "external semaphores";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return "stream memory operations";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return "a condition";
    default: return "a kind that is not known";
  }
}

void describe(Call& call, CUgraphNode node, HostNodes* hosts, GraphNode& to) {
  const Driver& d = driver();
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  d.cuGraphNodeGetType(node, &type);
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      if (describe_kernel(call, node, to)) return;
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      CUDA_MEMCPY3D copy{};
      if (d.cuGraphMemcpyNodeGetParams(node, &copy) != CUDA_SUCCESS) break;
      std::lock_guard hold(call.session.lock);
      to.what = copy_of(call.session, copy, "cudaMemcpyAsync");
      return;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS set{};
      if (d.cuGraphMemsetNodeGetParams(node, &set) != CUDA_SUCCESS) break;
      to.what = set_of(set, "cudaMemsetAsync");
      return;
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      to.what = trace::HostCallback{"cudaLaunchHostFunc"};
      to.host = hosts ? hosts->take(node) : nullptr;
      if (!to.host) call.session.incident("lost", "what a graph's host function tells other threads is not known");
      if (HostWrites* writes = call.session.host_writes(); writes && !to.host) writes->stop();
      return;
    case CU_GRAPH_NODE_TYPE_EMPTY: return;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: {
      to.event_waits = type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;
      const auto ask = to.event_waits ? d.cuGraphEventWaitNodeGetEvent : d.cuGraphEventRecordNodeGetEvent;
      if (ask && ask(node, &to.event) == CUDA_SUCCESS) return;
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS memory{};
      if (!d.cuGraphMemAllocNodeGetParams || d.cuGraphMemAllocNodeGetParams(node, &memory) != CUDA_SUCCESS) break;
      to.address = memory.dptr;
      to.bytes = memory.bytesize;
      to.what = trace::PoolOperation{};
      return;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE: {
      CUdeviceptr memory = 0;
      if (!d.cuGraphMemFreeNodeGetParams || d.cuGraphMemFreeNodeGetParams(node, &memory) != CUDA_SUCCESS) break;
      to.address = memory;
      to.what = trace::PoolOperation{true, 0};
      return;
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      if (describe_condition(call, node, to)) return;
      break;
    default: break;
  }
  to.unknown = true;
  if (HostWrites* writes = call.session.host_writes()) writes->stop();
  call.session.incident(
      "lost", std::string("a graph's node is not followed: ") + name_of(type) + " (type " + std::to_string(type) + ")");
}

// Drivers before 12.3 know no edges but full ones.
void edges_of(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, std::size_t& count) {
  if (driver().cuGraphGetEdges_v2)
    driver().cuGraphGetEdges_v2(graph, from, to, data, &count);
  else if (driver().cuGraphGetEdges)
    driver().cuGraphGetEdges(graph, from, to, &count);
}

// Adds the nodes of `graph`; `entries`: what its roots come after. Returns the nodes that nothing follows.
std::vector<std::uint32_t> unfold(Call& call, CUgraph graph, const std::vector<std::uint32_t>& entries,
                                  HostNodes* hosts, Executable& into, int depth) {
  std::vector<GraphNode>& nodes = into.nodes;
  std::size_t count = 0, edges = 0;
  if (depth > deepest_graph || driver().cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) {
    call.session.incident("lost", "the nodes of a graph are not known");
    return entries;
  }
  std::vector<CUgraphNode> handles(count);
  driver().cuGraphGetNodes(graph, handles.data(), &count);
  edges_of(graph, nullptr, nullptr, nullptr, edges);
  std::vector<CUgraphNode> from(edges), to(edges);
  std::vector<CUgraphEdgeData> data(edges);
  if (edges) edges_of(graph, from.data(), to.data(), data.data(), edges);
  std::unordered_map<CUgraphNode, std::vector<CUgraphNode>> before;
  std::unordered_map<CUgraphNode, std::size_t> after;
  std::unordered_set<CUgraphNode> programmatic; // behind a kernel alone
  for (std::size_t i = 0; i < edges; ++i) {
    before[to[i]].push_back(from[i]);
    ++after[from[i]];
    if (before[to[i]].size() > 1)
      programmatic.erase(to[i]);
    else if (data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC ||
             data[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) // once the kernel's blocks have begun
      programmatic.insert(to[i]);
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
        const auto begin = std::uint32_t(nodes.size());
        ends[handle] = unfold(call, child, dependencies, hosts, into, depth + 1);
        into.children[handle] = {begin, std::uint32_t(nodes.size())};
      } else {
        GraphNode node;
        node.after = std::move(dependencies);
        node.handle = handle;
        node.programmatic = programmatic.count(handle) > 0;
        describe(call, handle, hosts, node);
        ends[handle] = {std::uint32_t(nodes.size())};
        nodes.push_back(std::move(node));
      }
      if (!after.count(handle)) sinks.insert(sinks.end(), ends[handle].begin(), ends[handle].end());
    }
    if (placed == at_start) break;  // a cycle: the driver would not have taken it
  }
  return sinks;
}

} // namespace

namespace {

// Those in bodies behind those of the graph around them.
void number(std::vector<GraphNode>& nodes, std::uint32_t& next) {
  for (GraphNode& node : nodes) node.number = next++;
  for (GraphNode& node : nodes) {
    for (std::vector<GraphNode>& body : node.bodies) number(body, next);
  }
}

} // namespace

Executable nodes_of(Call& call, CUgraph graph, HostNodes* hosts) {
  Executable made;
  std::uint32_t next = 0;
  unfold(call, graph, {}, hosts, made, 0);
  number(made.nodes, next);
  made.decides =
      std::any_of(made.nodes.begin(), made.nodes.end(), [](const GraphNode& n) { return !n.bodies.empty(); });
  keep_alone(call, made);
  each_node(made.nodes, [&](const GraphNode& node) {
    if (node.control) call.session.recorder().also_has(node.control);
  });
  return made;
}

std::vector<GraphNode> nodes_of_body(Call& call, CUgraph body) {
  Executable made;
  unfold(call, body, {}, nullptr, made, 0);
  return std::move(made.nodes);
}

void made_of(Session& session, const Executable& graph, const GraphNode& made, CUgraphNode node) {
  if (!made.kernel || made.control) return;
  session.journal().push(Journal::GraphKernel{graph.id, made.number, node, made.hash});
}

void put_host_functions(Call& call, CUgraph graph) {
  call.carried<HostNodes>() = nullptr;
  auto hosts = std::make_unique<HostNodes>(call.session, graph);
  if (!hosts->empty()) call.carried<HostNodes>() = hosts.release();
}

std::unique_ptr<HostNodes> host_functions(Call& call) {
  return std::unique_ptr<HostNodes>(std::exchange(call.carried<HostNodes>(), nullptr));
}

void retire(Session& session, Executable& graph) {
  each_node(graph.nodes, [&](GraphNode& node) {
    if (node.control) session.recorder().no_longer_has(node.control);
    if (HostNode* host = std::exchange(node.host, nullptr)) host->retire();
  });
}

namespace {

// `again`: makes the call once more.
template <typename Again>
void instantiated(Call& call, CUgraphExec* executable, CUgraph graph, std::uint64_t flags, Again&& again) {
  if (!call.exit) return put_host_functions(call, graph);
  const std::unique_ptr<HostNodes> hosts = host_functions(call);
  bool refused = false;
  if (const CUresult why = call.result; why != CUDA_SUCCESS && put_originals(call, graph)) {
    refused = true;
    call.return_instead(again());
    if (call.done()) not_taken(call, why);
  }
  if (!call.done() || !executable) return;
  Executable made = nodes_of(call, graph, hosts.get());
  if (refused) made.exchangeable = false;
  made.frees_on_launch = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
    call.session.incident("lost", "a graph can be launched by kernels: such launches are not followed");
    keep_controls(call, graph);
  }
  std::lock_guard hold(call.session.lock);
  made.id = call.session.next_graph++;
  Executable& place = call.session.executables[*executable];
  retire(call.session, place); // a handle may come again
  std::swap(place, made); // what was there goes without the lock
  each_node(place.nodes, [&](const GraphNode& node) { made_of(call.session, place, node, node.handle); });
}

} // namespace

bool Call::is_captured(CUstream handle) const {
  if (!handle) handle = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver().cuStreamIsCapturing(handle, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

namespace {

struct Capture {
  CUgraph graph = nullptr;
  CUgraphNode last = nullptr; // null: none, or several
};

Capture capture_of(CUstream handle) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  Capture found;
  const CUgraphNode* last = nullptr; // what the next node comes after
  const CUgraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  const Driver& d = driver();
  if (d.cuStreamGetCaptureInfo_v3)
    d.cuStreamGetCaptureInfo_v3(handle, &status, nullptr, &found.graph, &last, &edges, &count);
  else if (d.cuStreamGetCaptureInfo_v2)
    d.cuStreamGetCaptureInfo_v2(handle, &status, nullptr, &found.graph, &last, &count);
  if (count == 1 && last) found.last = *last;
  return found;
}

} // namespace

CUgraphNode Call::captured_node(CUstream handle) const {
  if (!handle) handle = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  return capture_of(handle).last;
}

void begin_capture(Call& call, cuStreamBeginCapture_v2_params&) {
  if (call.done()) ++call.session.captures();
}
void begin_capture_once(Call& call, cuStreamBeginCapture_params&) {
  if (call.done()) ++call.session.captures();
}
void begin_capture_to_graph(Call& call, cuStreamBeginCaptureToGraph_params&) {
  if (call.done()) ++call.session.captures();
}
// One that is of another thread, or of none, ends nothing.
void end_capture(Call& call, cuStreamEndCapture_params&) {
  const bool ended = call.done() || call.result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
                     call.result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (call.exit && ended && call.session.captures() > 0) --call.session.captures();
}

void instantiate(Call& call, cuGraphInstantiate_v2_params& p) {
  instantiated(call, p.phGraphExec, p.hGraph, 0,
               [&] { return driver().cuGraphInstantiateWithFlags(p.phGraphExec, p.hGraph, 0); });
}
void instantiate_with_flags(Call& call, cuGraphInstantiateWithFlags_params& p) {
  instantiated(call, p.phGraphExec, p.hGraph, p.flags,
               [&] { return driver().cuGraphInstantiateWithFlags(p.phGraphExec, p.hGraph, p.flags); });
}
void instantiate_with_params(Call& call, cuGraphInstantiateWithParams_params& p) {
  if (!p.instantiateParams) return;
  instantiated(call, p.phGraphExec, p.hGraph, p.instantiateParams->flags,
               [&] { return driver().cuGraphInstantiateWithParams(p.phGraphExec, p.hGraph, p.instantiateParams); });
}

void destroy_graph(Call& call, cuGraphExecDestroy_params& p) {
  if (call.exit) return;
  Executable going; // without the lock
  std::lock_guard hold(call.session.lock);
  const auto found = call.session.executables.find(p.hGraphExec);
  if (found == call.session.executables.end()) return;
  retire(call.session, found->second);
  std::swap(going, found->second);
  call.session.journal().push(Journal::ExecutableGone{going.id});
  call.session.executables.erase(found);
}

namespace {

void gone(Call& call, CUgraph graph, int depth) {
  const Driver& d = driver();
  std::size_t count = 0;
  if (depth > deepest_graph || d.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return;
  std::vector<CUgraphNode> nodes(count);
  if (count && d.cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return;
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUgraph child = nullptr;
    d.cuGraphNodeGetType(node, &type);
    if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      for (const CUgraph body : call.session.bodies_of(node)) gone(call, body, depth + 1);
      call.session.no_condition(node);
    }
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) call.session.journal().push(Journal::CapturedGone{node});
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && d.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
      gone(call, child, depth + 1);
  }
}

} // namespace

void destroy_captured(Call& call, cuGraphDestroy_params& p) {
  if (call.exit) return;
  release_controls(call, p.hGraph);
  gone(call, p.hGraph, 0);
}

} // namespace deadheat::cupti
