// Nodes of graphs (Driver API, "Graph Management").
#include "replay/embedded/graph_nodes.h"

#include "replay/embedded/driver/copies.h"
#include "replay/embedded/driver/driver.h"

using namespace deadheat::embedded;

static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == sizeof(cudaMemAllocNodeParams));
static_assert(sizeof(CUgraphEdgeData) == sizeof(cudaGraphEdgeData));
static_assert(sizeof(CUkernelNodeAttrValue) == sizeof(cudaLaunchAttributeValue));

namespace {

// ---- Work from parameters. `Params`: any version of them.

template <class Params>
const void* function_of(const Params& p) {
  if constexpr (requires { p.kern; }) {
    if (!p.func) return p.kern;
  }
  return p.func;
}

template <class Params>
cudaError_t kernel_work(Call& call, const Params* p, Work* work) {
  if (!p) return cudaErrorInvalidValue;
  const cudaKernelNodeParams same{const_cast<void*>(function_of(*p)),
                                  dim3(p->gridDimX, p->gridDimY, p->gridDimZ),
                                  dim3(p->blockDimX, p->blockDimY, p->blockDimZ),
                                  p->sharedMemBytes,
                                  p->kernelParams,
                                  p->extra};
  return kernel_work(call, &same, work);
}

cudaError_t copy_work(Call& call, const CUDA_MEMCPY3D* p, Work* work) {
  CopyShape shape;
  cudaError_t status = shape_of(call, p, &shape);
  if (status != cudaSuccess) return status;
  deadheat::trace::Copy copy;
  status = make_copy(call, shape, &copy);
  work->what = std::move(copy);
  return status;
}

template <class Params>
cudaError_t elements_work(Call& call, const Params* p, Work* work) {
  if (!p) return cudaErrorInvalidValue;
  const cudaMemsetParams same{pointer_of(p->dst), p->pitch, p->value, p->elementSize, p->width, p->height};
  return set_work(call, &same, work);
}

template <class Params>
cudaError_t function_work(Call& call, const Params* p, Work* work) {
  if (!p || !p->fn) return cudaErrorInvalidValue;
  *work = host_work(call, {p->fn, p->userData});
  return cudaSuccess;
}

// The part of a node's work that is a `What`; null when the handle is bad or the node is of another type.
template <class What>
What* what_of(Call& call, CUgraphNode handle) {
  GraphNode* node = node_of(call, handle);
  return node ? std::get_if<What>(&node->work.what) : nullptr;
}

// Adds a node of what `make` gives for it.
template <class Make>
cudaError_t add(Call& call, CUgraphNode* result, CUgraph graph, const CUgraphNode* list, size_t count,
                cudaGraphNodeType type, Make&& make) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = make(&work);
  return status == cudaSuccess ? add_node(call, result, graph, list, count, type, std::move(work)) : status;
}
template <class Make>
cudaError_t change(Call& call, CUgraphNode node, cudaGraphNodeType type, Make&& make) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = make(&work);
  return status == cudaSuccess ? change_node(call, node, type, std::move(work)) : status;
}
template <class Make>
cudaError_t change(Call& call, CUgraphExec executable, CUgraphNode node, cudaGraphNodeType type, Make&& make) {
  Work work{deadheat::trace::Marker{}};
  const cudaError_t status = make(&work);
  return status == cudaSuccess ? change_node(call, executable, node, type, std::move(work)) : status;
}

} // namespace

// ---- Kernels

DEADHEAT_BODY(cudaGraphKernelNodeGetParams, (cudaGraphNode_t node, cudaKernelNodeParams* result));

template <class Params>
static cudaError_t kernel_parameters(Call& call, CUgraphNode node, Params* result) {
  cudaKernelNodeParams same;
  if (!result) return cudaErrorInvalidValue;
  const cudaError_t status = cudaGraphKernelNodeGetParams_body(call, node, &same);
  if (status != cudaSuccess) return status;
  *result = {};
  result->func = reinterpret_cast<CUfunction>(call.runtime.modules.function(same.func));
  result->gridDimX = same.gridDim.x;
  result->gridDimY = same.gridDim.y;
  result->gridDimZ = same.gridDim.z;
  result->blockDimX = same.blockDim.x;
  result->blockDimY = same.blockDim.y;
  result->blockDimZ = same.blockDim.z;
  result->sharedMemBytes = same.sharedMemBytes;
  result->kernelParams = same.kernelParams;
  return cudaSuccess;
}

#define DEADHEAT_KERNEL_NODES(suffix, type)                                                                         \
  DEADHEAT_DRIVER(cuGraphAddKernelNode##suffix, context,                                                            \
                  (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, size_t count, const type* p),        \
                  (node, graph, list, count, p)) {                                                                  \
    return add(call, node, graph, list, count, cudaGraphNodeTypeKernel,                                             \
               [&](Work* work) { return kernel_work(call, p, work); });                                             \
  }                                                                                                                 \
  DEADHEAT_DRIVER(cuGraphKernelNodeSetParams##suffix, context, (CUgraphNode node, const type* p), (node, p)) {      \
    return change(call, node, cudaGraphNodeTypeKernel, [&](Work* work) { return kernel_work(call, p, work); });     \
  }                                                                                                                 \
  DEADHEAT_DRIVER(cuGraphExecKernelNodeSetParams##suffix, context,                                                  \
                  (CUgraphExec executable, CUgraphNode node, const type* p), (executable, node, p)) {               \
    return change(call, executable, node, cudaGraphNodeTypeKernel,                                                  \
                  [&](Work* work) { return kernel_work(call, p, work); });                                          \
  }                                                                                                                 \
  DEADHEAT_DRIVER(cuGraphKernelNodeGetParams##suffix, context, (CUgraphNode node, type * result), (node, result)) { \
    return kernel_parameters(call, node, result);                                                                   \
  }
DEADHEAT_KERNEL_NODES(, CUDA_KERNEL_NODE_PARAMS_v1)
DEADHEAT_KERNEL_NODES(_v2, CUDA_KERNEL_NODE_PARAMS_v2)
#undef DEADHEAT_KERNEL_NODES

DEADHEAT_BODY(cudaGraphKernelNodeGetAttribute,
              (cudaGraphNode_t node, cudaLaunchAttributeID attribute, cudaLaunchAttributeValue* value));
DEADHEAT_DRIVER(cuGraphKernelNodeGetAttribute, context,
                (CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue* value),
                (node, attribute, value)) {
  return cudaGraphKernelNodeGetAttribute_body(call, node, cudaLaunchAttributeID(attribute),
                                              reinterpret_cast<cudaLaunchAttributeValue*>(value));
}
DEADHEAT_BODY(cudaGraphKernelNodeSetAttribute,
              (cudaGraphNode_t node, cudaLaunchAttributeID attribute, const cudaLaunchAttributeValue* value));
DEADHEAT_DRIVER(cuGraphKernelNodeSetAttribute, context,
                (CUgraphNode node, CUkernelNodeAttrID attribute, const CUkernelNodeAttrValue* value),
                (node, attribute, value)) {
  return cudaGraphKernelNodeSetAttribute_body(call, node, cudaLaunchAttributeID(attribute),
                                              reinterpret_cast<const cudaLaunchAttributeValue*>(value));
}
DEADHEAT_SAME(cuGraphKernelNodeCopyAttributes, cudaGraphKernelNodeCopyAttributes, (CUgraphNode to, CUgraphNode from),
              (to, from))

// ---- Copies and sets

DEADHEAT_DRIVER(cuGraphAddMemcpyNode, context,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, size_t count, const CUDA_MEMCPY3D* p,
                 CUcontext context),
                (node, graph, list, count, p, context)) {
  return add(call, node, graph, list, count, cudaGraphNodeTypeMemcpy,
             [&](Work* work) { return copy_work(call, p, work); });
}
DEADHEAT_DRIVER(cuGraphMemcpyNodeSetParams, context, (CUgraphNode node, const CUDA_MEMCPY3D* p), (node, p)) {
  return change(call, node, cudaGraphNodeTypeMemcpy, [&](Work* work) { return copy_work(call, p, work); });
}
DEADHEAT_DRIVER(cuGraphExecMemcpyNodeSetParams, context,
                (CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D* p, CUcontext context),
                (executable, node, p, context)) {
  return change(call, executable, node, cudaGraphNodeTypeMemcpy, [&](Work* work) { return copy_work(call, p, work); });
}
DEADHEAT_DRIVER(cuGraphMemcpyNodeGetParams, context, (CUgraphNode node, CUDA_MEMCPY3D* result), (node, result)) {
  using Direction = deadheat::trace::Copy::Direction;
  const auto* copy = what_of<deadheat::trace::Copy>(call, node);
  if (!copy || !result) return cudaErrorInvalidValue;
  *result = {};
  const bool from_host = copy->direction == Direction::h2h || copy->direction == Direction::h2d;
  const bool to_host = copy->direction == Direction::h2h || copy->direction == Direction::d2h;
  auto rows = [](const deadheat::trace::MemoryRange& range) { return range.pitch ? range.slice / range.pitch : 0; };
  result->srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  result->dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  if (from_host)
    result->srcHost = pointer_of(copy->source.address);
  else
    result->srcDevice = copy->source.address;
  if (to_host)
    result->dstHost = pointer_of(copy->destination.address);
  else
    result->dstDevice = copy->destination.address;
  result->srcPitch = copy->source.pitch;
  result->dstPitch = copy->destination.pitch;
  result->srcHeight = rows(copy->source);
  result->dstHeight = rows(copy->destination);
  result->WidthInBytes = copy->source.width;
  result->Height = copy->source.height;
  result->Depth = copy->source.depth;
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuGraphAddMemsetNode, context,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, size_t count,
                 const CUDA_MEMSET_NODE_PARAMS* p, CUcontext context),
                (node, graph, list, count, p, context)) {
  return add(call, node, graph, list, count, cudaGraphNodeTypeMemset,
             [&](Work* work) { return elements_work(call, p, work); });
}
DEADHEAT_DRIVER(cuGraphMemsetNodeSetParams, context, (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p), (node, p)) {
  return change(call, node, cudaGraphNodeTypeMemset, [&](Work* work) { return elements_work(call, p, work); });
}
DEADHEAT_DRIVER(cuGraphExecMemsetNodeSetParams, context,
                (CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext context),
                (executable, node, p, context)) {
  return change(call, executable, node, cudaGraphNodeTypeMemset,
                [&](Work* work) { return elements_work(call, p, work); });
}
DEADHEAT_DRIVER(cuGraphMemsetNodeGetParams, context, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* result),
                (node, result)) {
  const auto* set = what_of<deadheat::trace::Set>(call, node);
  if (!set || !result) return cudaErrorInvalidValue;
  *result = {set->destination.address,
             set->destination.pitch,
             set->value,
             set->element_bytes,
             set->destination.width / set->element_bytes,
             set->destination.height};
  return cudaSuccess;
}

// ---- Host functions, child graphs, empty nodes

DEADHEAT_DRIVER(cuGraphAddHostNode, context,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, size_t count,
                 const CUDA_HOST_NODE_PARAMS* p),
                (node, graph, list, count, p)) {
  return add(call, node, graph, list, count, cudaGraphNodeTypeHost,
             [&](Work* work) { return function_work(call, p, work); });
}
DEADHEAT_DRIVER(cuGraphHostNodeSetParams, context, (CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p), (node, p)) {
  return change(call, node, cudaGraphNodeTypeHost, [&](Work* work) { return function_work(call, p, work); });
}
DEADHEAT_DRIVER(cuGraphExecHostNodeSetParams, context,
                (CUgraphExec executable, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p), (executable, node, p)) {
  return change(call, executable, node, cudaGraphNodeTypeHost,
                [&](Work* work) { return function_work(call, p, work); });
}
DEADHEAT_DRIVER(cuGraphHostNodeGetParams, context, (CUgraphNode node, CUDA_HOST_NODE_PARAMS* result), (node, result)) {
  if (!what_of<deadheat::trace::HostCallback>(call, node) || !result) return cudaErrorInvalidValue;
  const cudaHostNodeParams& host = node_of(call, node)->work.host;
  *result = {host.fn, host.userData};
  return cudaSuccess;
}

DEADHEAT_SAME(cuGraphAddEmptyNode, cudaGraphAddEmptyNode,
              (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, size_t count), (node, graph, list, count))
DEADHEAT_SAME(cuGraphAddChildGraphNode, cudaGraphAddChildGraphNode,
              (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, size_t count, CUgraph child),
              (node, graph, list, count, child))
DEADHEAT_SAME(cuGraphExecChildGraphNodeSetParams, cudaGraphExecChildGraphNodeSetParams,
              (CUgraphExec executable, CUgraphNode node, CUgraph child), (executable, node, child))
DEADHEAT_SAME(cuGraphNodeSetEnabled, cudaGraphNodeSetEnabled,
              (CUgraphExec executable, CUgraphNode node, unsigned enabled), (executable, node, enabled))
DEADHEAT_SAME(cuGraphNodeGetEnabled, cudaGraphNodeGetEnabled,
              (CUgraphExec executable, CUgraphNode node, unsigned* enabled), (executable, node, enabled))

// ---- Events

DEADHEAT_SAME(cuGraphAddEventRecordNode, cudaGraphAddEventRecordNode,
              (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, size_t count, CUevent event),
              (node, graph, list, count, event))
DEADHEAT_SAME(cuGraphAddEventWaitNode, cudaGraphAddEventWaitNode,
              (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, size_t count, CUevent event),
              (node, graph, list, count, event))
DEADHEAT_SAME(cuGraphEventRecordNodeGetEvent, cudaGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent* event),
              (node, event))
DEADHEAT_SAME(cuGraphEventWaitNodeGetEvent, cudaGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent* event),
              (node, event))
DEADHEAT_SAME(cuGraphEventRecordNodeSetEvent, cudaGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event),
              (node, event))
DEADHEAT_SAME(cuGraphEventWaitNodeSetEvent, cudaGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event),
              (node, event))
DEADHEAT_SAME(cuGraphExecEventRecordNodeSetEvent, cudaGraphExecEventRecordNodeSetEvent,
              (CUgraphExec executable, CUgraphNode node, CUevent event), (executable, node, event))
DEADHEAT_SAME(cuGraphExecEventWaitNodeSetEvent, cudaGraphExecEventWaitNodeSetEvent,
              (CUgraphExec executable, CUgraphNode node, CUevent event), (executable, node, event))

// ---- Memory

DEADHEAT_DRIVER(cuGraphAddMemAllocNode, context,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, size_t count,
                 CUDA_MEM_ALLOC_NODE_PARAMS* p),
                (node, graph, list, count, p)) {
  return add_allocation(call, node, graph, list, count, reinterpret_cast<cudaMemAllocNodeParams*>(p));
}
DEADHEAT_BODY(cudaGraphMemAllocNodeGetParams, (cudaGraphNode_t node, cudaMemAllocNodeParams* result));
DEADHEAT_DRIVER(cuGraphMemAllocNodeGetParams, context, (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* result),
                (node, result)) {
  return cudaGraphMemAllocNodeGetParams_body(call, node, reinterpret_cast<cudaMemAllocNodeParams*>(result));
}
DEADHEAT_DRIVER(cuGraphAddMemFreeNode, context,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, size_t count, CUdeviceptr address),
                (node, graph, list, count, address)) {
  return add(call, node, graph, list, count, cudaGraphNodeTypeMemFree,
             [&](Work* work) { return free_work(call, pointer_of(address), work); });
}
DEADHEAT_BODY(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void* result));
DEADHEAT_DRIVER(cuGraphMemFreeNodeGetParams, context, (CUgraphNode node, CUdeviceptr* result), (node, result)) {
  return cudaGraphMemFreeNodeGetParams_body(call, node, result);
}

// ---- Nodes of any kind

DEADHEAT_BODY(cudaGraphConditionalHandleCreate,
              (cudaGraphConditionalHandle * result, cudaGraph_t graph, unsigned value, unsigned flags));
DEADHEAT_DRIVER(cuGraphConditionalHandleCreate, context,
                (CUgraphConditionalHandle * result, CUgraph graph, CUcontext context, unsigned value, unsigned flags),
                (result, graph, context, value, flags)) {
  cudaGraphConditionalHandle same = 0;
  if (!result) return cudaErrorInvalidValue;
  const cudaError_t status = cudaGraphConditionalHandleCreate_body(call, &same, graph, value, flags);
  if (status == cudaSuccess) *result = same;
  return status;
}

namespace {

cudaError_t any_work(Call& call, const CUgraphNodeParams* p, Work* work) {
  if (!p) return cudaErrorInvalidValue;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return kernel_work(call, &p->kernel, work);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return copy_work(call, &p->memcpy.copyParams, work);
    case CU_GRAPH_NODE_TYPE_MEMSET: return elements_work(call, &p->memset, work);
    case CU_GRAPH_NODE_TYPE_HOST: return function_work(call, &p->host, work);
    case CU_GRAPH_NODE_TYPE_EMPTY: return cudaSuccess;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return event_work(call, p->eventRecord.event, false, work);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return event_work(call, p->eventWait.event, true, work);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return free_work(call, pointer_of(p->free.dptr), work);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return cudaErrorInvalidValue; // "Changing node parameters is not supported."
    default: return refuse(call, ("a node of type " + std::to_string(p->type)).c_str());
  }
}

cudaError_t add_conditional(Call& call, CUgraphNode* node, CUgraph graph, const CUgraphNode* list, size_t count,
                            CUDA_CONDITIONAL_NODE_PARAMS* p) {
  cudaConditionalNodeParams same{};
  same.handle = p->handle;
  same.type = cudaGraphConditionalNodeType(p->type);
  same.size = p->size;
  const cudaError_t status = add_condition(call, node, graph, list, count, &same);
  if (status == cudaSuccess) p->phGraph_out = same.phGraph_out;
  return status;
}

} // namespace

DEADHEAT_BODY(cudaGraphAddChildGraphNode, (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* list,
                                           size_t count, cudaGraph_t child));

static cudaError_t add_any(Call& call, CUgraphNode* node, CUgraph graph, const CUgraphNode* list,
                           const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* p) {
  if (!p) return cudaErrorInvalidValue;
  cudaError_t status = cudaSuccess;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      status = add_allocation(call, node, graph, list, count, reinterpret_cast<cudaMemAllocNodeParamsV2*>(&p->alloc));
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      if (p->graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
        return refuse(call, "a child graph that is moved into its parent");
      status = cudaGraphAddChildGraphNode_body(call, node, graph, list, count, p->graph.graph);
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      status = add_conditional(call, node, graph, list, count, &p->conditional);
      break;
    default:
      status = add(call, node, graph, list, count, cudaGraphNodeType(p->type),
                   [&](Work* work) { return any_work(call, p, work); });
  }
  for (size_t i = 0; status == cudaSuccess && edges && i < count; ++i) {
    Graph::set_edge(*node_of(call, list[i]), *node_of(call, *node),
                    reinterpret_cast<const cudaGraphEdgeData*>(&edges[i]));
  }
  return status;
}

DEADHEAT_DRIVER(cuGraphAddNode, context,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, size_t count, CUgraphNodeParams* p),
                (node, graph, list, count, p)) {
  return add_any(call, node, graph, list, nullptr, count, p);
}
DEADHEAT_DRIVER(cuGraphAddNode_v2, context,
                (CUgraphNode * node, CUgraph graph, const CUgraphNode* list, const CUgraphEdgeData* edges, size_t count,
                 CUgraphNodeParams* p),
                (node, graph, list, edges, count, p)) {
  return add_any(call, node, graph, list, edges, count, p);
}
DEADHEAT_DRIVER(cuGraphNodeSetParams, context, (CUgraphNode node, CUgraphNodeParams* p), (node, p)) {
  if (!p) return cudaErrorInvalidValue;
  return change(call, node, cudaGraphNodeType(p->type), [&](Work* work) { return any_work(call, p, work); });
}
DEADHEAT_DRIVER(cuGraphExecNodeSetParams, context, (CUgraphExec executable, CUgraphNode node, CUgraphNodeParams* p),
                (executable, node, p)) {
  if (!p) return cudaErrorInvalidValue;
  return change(call, executable, node, cudaGraphNodeType(p->type),
                [&](Work* work) { return any_work(call, p, work); });
}
