// Nodes of graphs: adding them, and reading and changing their parameters in graphs and in executable graphs (Runtime
// API, "Graph Management").
#include <algorithm>

#include "replay/embedded/arrays.h"
#include "replay/embedded/graph_nodes.h"

using namespace deadheat::embedded;

// ---- From parameters to work

cudaError_t deadheat::embedded::kernel_work(Call& call, const cudaKernelNodeParams* given, Work* work) {
  if (!given) return cudaErrorInvalidValue;
  Kernel kernel;
  cudaError_t status = find_kernel(call, given->func, &kernel);
  if (status != cudaSuccess) return status;
  if (given->kernelParams && given->extra) return cudaErrorInvalidValue;
  std::vector<void*> arguments;
  if (given->extra) status = find_arguments(call, given->func, given->extra, &arguments);
  if (status != cudaSuccess) return status;
  deadheat::trace::Launch launch;
  status = make_launch(call, kernel, {given->gridDim, given->blockDim, given->sharedMemBytes, nullptr}, {},
                       given->extra ? arguments.data() : given->kernelParams, &launch);
  work->what = std::move(launch);
  return status;
}

template <class Params> // cudaMemsetParams or its second version
cudaError_t deadheat::embedded::set_work(Call& call, const Params* given, Work* work) {
  if (!given) return cudaErrorInvalidValue;
  if (given->elementSize != 1 && given->elementSize != 2 && given->elementSize != 4) return cudaErrorInvalidValue;
  SetShape shape;
  shape.destination = given->dst;
  shape.width = given->width * given->elementSize;
  shape.pitch = given->height > 1 ? given->pitch : shape.width;
  shape.rows = given->height;
  shape.slice = shape.pitch * shape.rows;
  shape.value = given->value;
  shape.element_bytes = std::uint8_t(given->elementSize);
  deadheat::trace::Set set;
  const cudaError_t status = make_set(call, shape, &set);
  work->what = std::move(set);
  return status;
}
template cudaError_t deadheat::embedded::set_work(Call&, const cudaMemsetParams*, Work*);
template cudaError_t deadheat::embedded::set_work(Call&, const cudaMemsetParamsV2*, Work*);

namespace {

cudaError_t copy_work(Call& call, const cudaMemcpy3DParms* given, Work* work) {
  CopyShape shape;
  cudaError_t status = volume(given, &shape);
  if (status != cudaSuccess) return status;
  deadheat::trace::Copy copy;
  status = make_copy(call, shape, &copy);
  work->what = std::move(copy);
  return status;
}

cudaError_t line_work(Call& call, void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Work* work) {
  deadheat::trace::Copy copy;
  const cudaError_t status = make_copy(call, line(to, from, bytes, kind), &copy);
  work->what = std::move(copy);
  return status;
}

cudaError_t function_work(Call& call, const cudaHostNodeParams* given, Work* work) {
  if (!given || !given->fn) return cudaErrorInvalidValue;
  *work = host_work(call, *given);
  return cudaSuccess;
}

// ---- From work to parameters

void* pointer_to(std::uint64_t address) { return reinterpret_cast<void*>(address); }

cudaMemcpy3DParms parameters_of(const deadheat::trace::Copy& copy) {
  cudaMemcpy3DParms result = {};
  auto side = [](const deadheat::trace::MemoryRange& range) {
    return cudaPitchedPtr{pointer_to(range.address), range.pitch, range.width,
                          range.pitch ? range.slice / range.pitch : range.height};
  };
  result.extent = {copy.source.width, copy.source.height, copy.source.depth};
  if (const Array* array = array_at(copy.destination.address, &result.dstPos)) {
    result.dstArray = handle_of(array);
    result.extent.width = copy.source.width / array->layout.format.bytes();
  } else {
    result.dstPtr = side(copy.destination);
  }
  if (const Array* array = array_at(copy.source.address, &result.srcPos)) {
    result.srcArray = handle_of(array);
    result.extent.width = copy.source.width / array->layout.format.bytes();
  } else {
    result.srcPtr = side(copy.source);
  }
  switch (copy.direction) {
    case deadheat::trace::Copy::Direction::h2h: result.kind = cudaMemcpyHostToHost; break;
    case deadheat::trace::Copy::Direction::h2d: result.kind = cudaMemcpyHostToDevice; break;
    case deadheat::trace::Copy::Direction::d2h: result.kind = cudaMemcpyDeviceToHost; break;
    case deadheat::trace::Copy::Direction::d2d: result.kind = cudaMemcpyDeviceToDevice; break;
  }
  return result;
}

// The part of a node's work that is a `What`; null when the handle is bad or the node is of another type.
template <class What>
What* what_of(Call& call, cudaGraphNode_t handle, GraphNode** node) {
  *node = node_of(call, handle);
  return *node ? std::get_if<What>(&(*node)->work.what) : nullptr;
}

} // namespace

// ---- Adding and changing

static cudaError_t dependencies_of(Call& call, Graph& graph, const cudaGraphNode_t* list, size_t count,
                                   std::vector<GraphNode*>* after) {
  if (count && !list) return cudaErrorInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = node_of(call, list[i]);
    if (!graph.holds(node)) return cudaErrorInvalidValue;
    after->push_back(node);
  }
  return cudaSuccess;
}

cudaError_t deadheat::embedded::add_node(Call& call, cudaGraphNode_t* result, cudaGraph_t handle,
                                         const cudaGraphNode_t* list, size_t count, cudaGraphNodeType type, Work work,
                                         const Graph* child) {
  Graph* graph = graph_of(call, handle);
  if (!graph || !result) return cudaErrorInvalidValue;
  std::vector<GraphNode*> after;
  const cudaError_t status = dependencies_of(call, *graph, list, count, &after);
  if (status != cudaSuccess) return status;
  note_call_site(call, work);
  GraphNode* node = graph->add(type, std::move(work), std::move(after));
  if (child) {
    node->child = child->clone();
    node->child->owner = node;
  }
  *result = reinterpret_cast<cudaGraphNode_t>(node);
  return cudaSuccess;
}

cudaError_t deadheat::embedded::change_node(Call& call, cudaGraphNode_t handle, cudaGraphNodeType type, Work work) {
  GraphNode* node = node_of(call, handle);
  if (!node || node->type != type) return cudaErrorInvalidValue;
  note_call_site(call, work);
  node->work = std::move(work);
  return cudaSuccess;
}

cudaError_t deadheat::embedded::change_node(Call& call, cudaGraphExec_t executable, cudaGraphNode_t handle,
                                            cudaGraphNodeType type, Work work) {
  GraphExec* found = executable_of(call, executable);
  GraphExec::Step* step = found ? found->step(reinterpret_cast<GraphNode*>(handle)) : nullptr;
  if (!step || step->type != type) return cudaErrorInvalidValue;
  note_call_site(call, work);
  step->work = std::move(work);
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphAddKernelNode, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
              const cudaKernelNodeParams* parameters),
             (node, graph, after, count, parameters)) {
  Work work;
  const cudaError_t status = kernel_work(call, parameters, &work);
  return status == cudaSuccess ? add_node(call, node, graph, after, count, cudaGraphNodeTypeKernel, std::move(work))
                               : status;
}

DEADHEAT_API(cudaGraphAddMemcpyNode, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
              const cudaMemcpy3DParms* parameters),
             (node, graph, after, count, parameters)) {
  Work work;
  const cudaError_t status = copy_work(call, parameters, &work);
  return status == cudaSuccess ? add_node(call, node, graph, after, count, cudaGraphNodeTypeMemcpy, std::move(work))
                               : status;
}

DEADHEAT_API(cudaGraphAddMemcpyNode1D, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* to,
              const void* from, size_t bytes, cudaMemcpyKind kind),
             (node, graph, after, count, to, from, bytes, kind)) {
  Work work;
  const cudaError_t status = line_work(call, to, from, bytes, kind, &work);
  return status == cudaSuccess ? add_node(call, node, graph, after, count, cudaGraphNodeTypeMemcpy, std::move(work))
                               : status;
}

DEADHEAT_API(cudaGraphAddMemsetNode, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
              const cudaMemsetParams* parameters),
             (node, graph, after, count, parameters)) {
  Work work;
  const cudaError_t status = set_work(call, parameters, &work);
  return status == cudaSuccess ? add_node(call, node, graph, after, count, cudaGraphNodeTypeMemset, std::move(work))
                               : status;
}

DEADHEAT_API(cudaGraphAddHostNode, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
              const cudaHostNodeParams* parameters),
             (node, graph, after, count, parameters)) {
  Work work;
  const cudaError_t status = function_work(call, parameters, &work);
  return status == cudaSuccess ? add_node(call, node, graph, after, count, cudaGraphNodeTypeHost, std::move(work))
                               : status;
}

DEADHEAT_API(cudaGraphAddEmptyNode, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count),
             (node, graph, after, count)) {
  return add_node(call, node, graph, after, count, cudaGraphNodeTypeEmpty, {deadheat::trace::Marker{}});
}

DEADHEAT_API(cudaGraphAddChildGraphNode, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaGraph_t child),
             (node, graph, after, count, child)) {
  const Graph* inner = graph_of(call, child);
  if (!inner || inner->has_conditions()) return cudaErrorInvalidValue;
  return add_node(call, node, graph, after, count, cudaGraphNodeTypeGraph, {deadheat::trace::Marker{}}, inner);
}

// Work of a node described by the union of all kinds.
static cudaError_t any_work(Call& call, const cudaGraphNodeParams* given, Work* work) {
  if (!given) return cudaErrorInvalidValue;
  switch (given->type) {
    case cudaGraphNodeTypeKernel: {
      const cudaKernelNodeParamsV2& k = given->kernel;
      const cudaKernelNodeParams plain{k.func, k.gridDim, k.blockDim, k.sharedMemBytes, k.kernelParams, k.extra};
      return kernel_work(call, &plain, work);
    }
    case cudaGraphNodeTypeMemcpy: return copy_work(call, &given->memcpy.copyParams, work);
    case cudaGraphNodeTypeMemset: return set_work(call, &given->memset, work);
    case cudaGraphNodeTypeHost: {
      const cudaHostNodeParams plain{given->host.fn, given->host.userData};
      return function_work(call, &plain, work);
    }
    case cudaGraphNodeTypeEmpty: work->what = deadheat::trace::Marker{}; return cudaSuccess;
    case cudaGraphNodeTypeEventRecord: return event_work(call, given->eventRecord.event, false, work);
    case cudaGraphNodeTypeWaitEvent: return event_work(call, given->eventWait.event, true, work);
    case cudaGraphNodeTypeMemFree: return free_work(call, given->free.dptr, work);
    // "Changing node parameters is not supported."
    case cudaGraphNodeTypeConditional: return cudaErrorInvalidValue;
    default: break;
  }
  say_once(std::string(call.api) + ": nodes of type " + std::to_string(given->type) +
           " are not supported by the embedded device");
  return cudaErrorNotSupported;
}

DEADHEAT_API(cudaGraphAddNode, device,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, const cudaGraphEdgeData* edges,
              size_t count, cudaGraphNodeParams* parameters),
             (node, graph, after, edges, count, parameters)) {
  if (parameters && parameters->type == cudaGraphNodeTypeMemAlloc) {
    return add_allocation(call, node, graph, after, count, &parameters->alloc);
  }
  if (parameters && parameters->type == cudaGraphNodeTypeGraph) {
    return cudaGraphAddChildGraphNode_body(call, node, graph, after, count, parameters->graph.graph);
  }
  Work work;
  const bool decides = parameters && parameters->type == cudaGraphNodeTypeConditional;
  const cudaError_t status = decides ? cudaSuccess : any_work(call, parameters, &work);
  if (status != cudaSuccess) return status;
  const cudaError_t added = decides ? add_condition(call, node, graph, after, count, &parameters->conditional)
                                    : add_node(call, node, graph, after, count, parameters->type, std::move(work));
  for (size_t i = 0; added == cudaSuccess && edges && i < count; ++i) {
    Graph::set_edge(*node_of(call, after[i]), *node_of(call, *node), &edges[i]);
  }
  return added;
}

DEADHEAT_API(cudaGraphNodeSetParams, device, (cudaGraphNode_t node, cudaGraphNodeParams* parameters),
             (node, parameters)) {
  Work work;
  const cudaError_t status = any_work(call, parameters, &work);
  return status == cudaSuccess ? change_node(call, node, parameters->type, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphExecNodeSetParams, device,
             (cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraphNodeParams* parameters),
             (executable, node, parameters)) {
  Work work;
  const cudaError_t status = any_work(call, parameters, &work);
  return status == cudaSuccess ? change_node(call, executable, node, parameters->type, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphKernelNodeSetParams, device, (cudaGraphNode_t node, const cudaKernelNodeParams* parameters),
             (node, parameters)) {
  Work work;
  const cudaError_t status = kernel_work(call, parameters, &work);
  return status == cudaSuccess ? change_node(call, node, cudaGraphNodeTypeKernel, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphExecKernelNodeSetParams, device,
             (cudaGraphExec_t executable, cudaGraphNode_t node, const cudaKernelNodeParams* parameters),
             (executable, node, parameters)) {
  Work work;
  const cudaError_t status = kernel_work(call, parameters, &work);
  return status == cudaSuccess ? change_node(call, executable, node, cudaGraphNodeTypeKernel, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphMemcpyNodeSetParams, device, (cudaGraphNode_t node, const cudaMemcpy3DParms* parameters),
             (node, parameters)) {
  Work work;
  const cudaError_t status = copy_work(call, parameters, &work);
  return status == cudaSuccess ? change_node(call, node, cudaGraphNodeTypeMemcpy, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphExecMemcpyNodeSetParams, device,
             (cudaGraphExec_t executable, cudaGraphNode_t node, const cudaMemcpy3DParms* parameters),
             (executable, node, parameters)) {
  Work work;
  const cudaError_t status = copy_work(call, parameters, &work);
  return status == cudaSuccess ? change_node(call, executable, node, cudaGraphNodeTypeMemcpy, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphMemcpyNodeSetParams1D, device,
             (cudaGraphNode_t node, void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
             (node, to, from, bytes, kind)) {
  Work work;
  const cudaError_t status = line_work(call, to, from, bytes, kind, &work);
  return status == cudaSuccess ? change_node(call, node, cudaGraphNodeTypeMemcpy, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphExecMemcpyNodeSetParams1D, device,
             (cudaGraphExec_t executable, cudaGraphNode_t node, void* to, const void* from, size_t bytes,
              cudaMemcpyKind kind),
             (executable, node, to, from, bytes, kind)) {
  Work work;
  const cudaError_t status = line_work(call, to, from, bytes, kind, &work);
  return status == cudaSuccess ? change_node(call, executable, node, cudaGraphNodeTypeMemcpy, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphMemsetNodeSetParams, device, (cudaGraphNode_t node, const cudaMemsetParams* parameters),
             (node, parameters)) {
  Work work;
  const cudaError_t status = set_work(call, parameters, &work);
  return status == cudaSuccess ? change_node(call, node, cudaGraphNodeTypeMemset, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphExecMemsetNodeSetParams, device,
             (cudaGraphExec_t executable, cudaGraphNode_t node, const cudaMemsetParams* parameters),
             (executable, node, parameters)) {
  Work work;
  const cudaError_t status = set_work(call, parameters, &work);
  return status == cudaSuccess ? change_node(call, executable, node, cudaGraphNodeTypeMemset, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphHostNodeSetParams, device, (cudaGraphNode_t node, const cudaHostNodeParams* parameters),
             (node, parameters)) {
  Work work;
  const cudaError_t status = function_work(call, parameters, &work);
  return status == cudaSuccess ? change_node(call, node, cudaGraphNodeTypeHost, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphExecHostNodeSetParams, device,
             (cudaGraphExec_t executable, cudaGraphNode_t node, const cudaHostNodeParams* parameters),
             (executable, node, parameters)) {
  Work work;
  const cudaError_t status = function_work(call, parameters, &work);
  return status == cudaSuccess ? change_node(call, executable, node, cudaGraphNodeTypeHost, std::move(work)) : status;
}

DEADHEAT_API(cudaGraphKernelNodeGetParams, device, (cudaGraphNode_t handle, cudaKernelNodeParams* result),
             (handle, result)) {
  GraphNode* node = nullptr;
  auto* launch = what_of<deadheat::trace::Launch>(call, handle, &node);
  if (!launch || !result) return cudaErrorInvalidValue;
  Function* function = call.runtime.modules.function(launch->module, launch->kernel);
  Kernel kernel;
  const cudaError_t status = find_kernel(call, function, &kernel);
  if (status != cudaSuccess) return status;
  node->arguments.clear();
  for (const auto& parameter : kernel.info->parameters) {
    node->arguments.push_back(launch->arguments.inlined.data() + parameter.offset);
  }
  *result = {};
  result->func = function->host ? const_cast<void*>(function->host) : function; // of a library: its handle
  result->gridDim = dim3(launch->grid.x, launch->grid.y, launch->grid.z);
  result->blockDim = dim3(launch->block.x, launch->block.y, launch->block.z);
  result->sharedMemBytes = launch->dynamic_shared;
  result->kernelParams = node->arguments.data();
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphMemcpyNodeGetParams, device, (cudaGraphNode_t handle, cudaMemcpy3DParms* result),
             (handle, result)) {
  GraphNode* node = nullptr;
  const auto* copy = what_of<deadheat::trace::Copy>(call, handle, &node);
  if (!copy || !result) return cudaErrorInvalidValue;
  *result = parameters_of(*copy);
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphMemsetNodeGetParams, device, (cudaGraphNode_t handle, cudaMemsetParams* result),
             (handle, result)) {
  GraphNode* node = nullptr;
  const auto* set = what_of<deadheat::trace::Set>(call, handle, &node);
  if (!set || !result) return cudaErrorInvalidValue;
  *result = {pointer_to(set->destination.address),        set->destination.pitch, set->value, set->element_bytes,
             set->destination.width / set->element_bytes, set->destination.height};
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphHostNodeGetParams, device, (cudaGraphNode_t handle, cudaHostNodeParams* result),
             (handle, result)) {
  GraphNode* node = nullptr;
  if (!what_of<deadheat::trace::HostCallback>(call, handle, &node) || !result) return cudaErrorInvalidValue;
  *result = node->work.host;
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphNodeSetEnabled, device, (cudaGraphExec_t executable, cudaGraphNode_t node, unsigned enabled),
             (executable, node, enabled)) {
  GraphExec* found = executable_of(call, executable);
  GraphExec::Step* step = found ? found->step(reinterpret_cast<GraphNode*>(node)) : nullptr;
  if (!step) return cudaErrorInvalidValue;
  step->enabled = enabled != 0;
  return cudaSuccess;
}

DEADHEAT_API(cudaGraphNodeGetEnabled, device, (cudaGraphExec_t executable, cudaGraphNode_t node, unsigned* enabled),
             (executable, node, enabled)) {
  GraphExec* found = executable_of(call, executable);
  GraphExec::Step* step = found ? found->step(reinterpret_cast<GraphNode*>(node)) : nullptr;
  if (!step || !enabled) return cudaErrorInvalidValue;
  *enabled = step->enabled;
  return cudaSuccess;
}
