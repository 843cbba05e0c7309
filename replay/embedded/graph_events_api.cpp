// Event nodes, copies to and from symbols, attributes of kernel nodes, child graphs of executables (Runtime API, "Graph
// Management").
#include <algorithm>

#include "replay/embedded/graph_nodes.h"

namespace deadheat::embedded {

cudaError_t event_work(Call& call, cudaEvent_t event, bool waits, Work* work) {
  if (!call.event(event)) return cudaErrorInvalidResourceHandle;
  work->what = trace::Marker{};
  work->event = event;
  work->event_waits = waits;
  return cudaSuccess;
}

} // namespace deadheat::embedded

using namespace deadheat::embedded;

// ---- Events

namespace {

cudaError_t add_event(Call& call, cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                      cudaEvent_t event, bool waits) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = event_work(call, event, waits, &work);
  const cudaGraphNodeType type = waits ? cudaGraphNodeTypeWaitEvent : cudaGraphNodeTypeEventRecord;
  return status == cudaSuccess ? add_node(call, node, graph, after, count, type, std::move(work)) : status;
}

cudaError_t event_of(Call& call, cudaGraphNode_t handle, cudaGraphNodeType type, cudaEvent_t* event) {
  const GraphNode* node = node_of(call, handle);
  if (!node || node->type != type || !event) return cudaErrorInvalidValue;
  *event = node->work.event;
  return cudaSuccess;
}

} // namespace

DEADHEAT_API(cudaGraphAddEventRecordNode, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaEvent_t event),
             (node, graph, after, count, event)) {
  return add_event(call, node, graph, after, count, event, false);
}

DEADHEAT_API(cudaGraphAddEventWaitNode, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaEvent_t event),
             (node, graph, after, count, event)) {
  return add_event(call, node, graph, after, count, event, true);
}

DEADHEAT_API(cudaGraphEventRecordNodeGetEvent, device, (cudaGraphNode_t node, cudaEvent_t* event), (node, event)) {
  return event_of(call, node, cudaGraphNodeTypeEventRecord, event);
}

DEADHEAT_API(cudaGraphEventWaitNodeGetEvent, device, (cudaGraphNode_t node, cudaEvent_t* event), (node, event)) {
  return event_of(call, node, cudaGraphNodeTypeWaitEvent, event);
}

DEADHEAT_API(cudaGraphEventRecordNodeSetEvent, device, (cudaGraphNode_t node, cudaEvent_t event), (node, event)) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = event_work(call, event, false, &work);
  return status == cudaSuccess ? change_node(call, node, cudaGraphNodeTypeEventRecord, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphEventWaitNodeSetEvent, device, (cudaGraphNode_t node, cudaEvent_t event), (node, event)) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = event_work(call, event, true, &work);
  return status == cudaSuccess ? change_node(call, node, cudaGraphNodeTypeWaitEvent, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphExecEventRecordNodeSetEvent, device,
             (cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event), (executable, node, event)) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = event_work(call, event, false, &work);
  return status == cudaSuccess ? change_node(call, executable, node, cudaGraphNodeTypeEventRecord, std::move(work))
                               : status;
}

DEADHEAT_API(cudaGraphExecEventWaitNodeSetEvent, device,
             (cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event), (executable, node, event)) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = event_work(call, event, true, &work);
  return status == cudaSuccess ? change_node(call, executable, node, cudaGraphNodeTypeWaitEvent, std::move(work))
                               : status;
}

// ---- Copies to and from symbols: copy nodes like others once the symbol's address is known

namespace {

cudaError_t symbol_work(Call& call, void* to, const void* from, bool into_symbol, size_t bytes, size_t offset,
                        cudaMemcpyKind kind, Work* work) {
  CopyShape shape;
  cudaError_t status = into_symbol ? copy_to_symbol(call, to, from, bytes, offset, kind, &shape)
                                   : copy_from_symbol(call, to, from, bytes, offset, kind, &shape);
  if (status != cudaSuccess) return status;
  deadheat::trace::Copy copy;
  status = make_copy(call, shape, &copy);
  work->what = std::move(copy);
  return status;
}

} // namespace

DEADHEAT_API(cudaGraphAddMemcpyNodeToSymbol, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, const void* symbol,
              const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind),
             (node, graph, after, count, symbol, from, bytes, offset, kind)) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = symbol_work(call, const_cast<void*>(symbol), from, true, bytes, offset, kind, &work);
  return status == cudaSuccess ? add_node(call, node, graph, after, count, cudaGraphNodeTypeMemcpy, std::move(work))
                               : status;
}

DEADHEAT_API(cudaGraphAddMemcpyNodeFromSymbol, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* to,
              const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
             (node, graph, after, count, to, symbol, bytes, offset, kind)) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = symbol_work(call, to, symbol, false, bytes, offset, kind, &work);
  return status == cudaSuccess ? add_node(call, node, graph, after, count, cudaGraphNodeTypeMemcpy, std::move(work))
                               : status;
}

DEADHEAT_API(cudaGraphMemcpyNodeSetParamsToSymbol, device,
             (cudaGraphNode_t node, const void* symbol, const void* from, size_t bytes, size_t offset,
              cudaMemcpyKind kind),
             (node, symbol, from, bytes, offset, kind)) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = symbol_work(call, const_cast<void*>(symbol), from, true, bytes, offset, kind, &work);
  return status == cudaSuccess ? change_node(call, node, cudaGraphNodeTypeMemcpy, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphMemcpyNodeSetParamsFromSymbol, device,
             (cudaGraphNode_t node, void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
             (node, to, symbol, bytes, offset, kind)) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = symbol_work(call, to, symbol, false, bytes, offset, kind, &work);
  return status == cudaSuccess ? change_node(call, node, cudaGraphNodeTypeMemcpy, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphExecMemcpyNodeSetParamsToSymbol, device,
             (cudaGraphExec_t executable, cudaGraphNode_t node, const void* symbol, const void* from, size_t bytes,
              size_t offset, cudaMemcpyKind kind),
             (executable, node, symbol, from, bytes, offset, kind)) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = symbol_work(call, const_cast<void*>(symbol), from, true, bytes, offset, kind, &work);
  return status == cudaSuccess ? change_node(call, executable, node, cudaGraphNodeTypeMemcpy, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphExecMemcpyNodeSetParamsFromSymbol, device,
             (cudaGraphExec_t executable, cudaGraphNode_t node, void* to, const void* symbol, size_t bytes,
              size_t offset, cudaMemcpyKind kind),
             (executable, node, to, symbol, bytes, offset, kind)) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = symbol_work(call, to, symbol, false, bytes, offset, kind, &work);
  return status == cudaSuccess ? change_node(call, executable, node, cudaGraphNodeTypeMemcpy, std::move(work)) : status;
}

// ---- Attributes of kernel nodes: those that decide how the kernel is launched. Hints are taken and forgotten.

namespace {

deadheat::trace::Launch* launch_of(Call& call, cudaGraphNode_t handle) {
  GraphNode* node = node_of(call, handle);
  return node ? std::get_if<deadheat::trace::Launch>(&node->work.what) : nullptr;
}

} // namespace

DEADHEAT_API(cudaGraphKernelNodeGetAttribute, device,
             (cudaGraphNode_t node, cudaLaunchAttributeID attribute, cudaLaunchAttributeValue* value),
             (node, attribute, value)) {
  const deadheat::trace::Launch* launch = launch_of(call, node);
  if (!launch || !value) return cudaErrorInvalidValue;
  *value = {};
  switch (attribute) {
    case cudaLaunchAttributeCooperative: value->cooperative = launch->cooperative; break;
    case cudaLaunchAttributeProgrammaticStreamSerialization:
      value->programmaticStreamSerializationAllowed = launch->programmatic;
      break;
    case cudaLaunchAttributeClusterDimension:
      value->clusterDim.x = launch->cluster.x;
      value->clusterDim.y = launch->cluster.y;
      value->clusterDim.z = launch->cluster.z;
      break;
    case cudaLaunchAttributePriority:
    case cudaLaunchAttributeAccessPolicyWindow:
    case cudaLaunchAttributeMemSyncDomain:
    case cudaLaunchAttributeMemSyncDomainMap:
    case cudaLaunchAttributePreferredSharedMemoryCarveout: break;
    default: return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphKernelNodeSetAttribute, device,
             (cudaGraphNode_t node, cudaLaunchAttributeID attribute, const cudaLaunchAttributeValue* value),
             (node, attribute, value)) {
  deadheat::trace::Launch* launch = launch_of(call, node);
  if (!launch || !value) return cudaErrorInvalidValue;
  switch (attribute) {
    case cudaLaunchAttributeCooperative: launch->cooperative = value->cooperative != 0; return cudaSuccess;
    case cudaLaunchAttributePriority:
    case cudaLaunchAttributeAccessPolicyWindow:
    case cudaLaunchAttributeMemSyncDomain:
    case cudaLaunchAttributeMemSyncDomainMap:
    case cudaLaunchAttributePreferredSharedMemoryCarveout: return cudaSuccess;
    default: break;
  }
  say_once("cudaGraphKernelNodeSetAttribute: attribute " + std::to_string(attribute) +
           " is not supported by the embedded device");
  return cudaErrorNotSupported;
}

DEADHEAT_API(cudaGraphKernelNodeCopyAttributes, device, (cudaGraphNode_t to, cudaGraphNode_t from), (to, from)) {
  deadheat::trace::Launch* target = launch_of(call, to);
  const deadheat::trace::Launch* source = launch_of(call, from);
  if (!target || !source) return cudaErrorInvalidValue;
  target->cooperative = source->cooperative;
  target->programmatic = source->programmatic;
  target->cluster = source->cluster;
  return cudaSuccess;
}

// ---- The child graph of a node of an executable: new work for its steps, if it has the same shape.
DEADHEAT_API(cudaGraphExecChildGraphNodeSetParams, device,
             (cudaGraphExec_t handle, cudaGraphNode_t node_handle, cudaGraph_t child), (handle, node_handle, child)) {
  GraphExec* executable = executable_of(call, handle);
  const GraphNode* node = node_of(call, node_handle);
  const Graph* given = graph_of(call, child);
  if (!executable || !node || !node->child || !given) return cudaErrorInvalidValue;
  std::vector<GraphExec::Step> before, after;
  if (!unfold(*node->child, &before) || !unfold(*given, &after) || before.size() != after.size()) {
    return cudaErrorGraphExecUpdateFailure;
  }
  std::vector<GraphExec::Step*> steps;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].type != after[i].type || before[i].after != after[i].after) return cudaErrorGraphExecUpdateFailure;
    steps.push_back(executable->step(before[i].node));
    if (!steps.back()) return cudaErrorInvalidValue;
  }
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i]->work = after[i].work;
  return cudaSuccess;
}
