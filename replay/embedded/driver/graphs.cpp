// Graphs as wholes, user objects, memory of graphs, logs (Driver API, "Graph Management", "Error Log Management").
#include "replay/embedded/driver/driver.h"
#include "replay/embedded/graph.h"

using namespace deadheat::embedded;

static_assert(sizeof(CUgraphEdgeData) == sizeof(cudaGraphEdgeData));
static_assert(sizeof(CUgraphExecUpdateResultInfo) == sizeof(cudaGraphExecUpdateResultInfo));
static_assert(int(CU_GRAPH_NODE_TYPE_CONDITIONAL) == int(cudaGraphNodeTypeConditional) &&
              int(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) == int(cudaGraphMemAttrReservedMemHigh));

namespace {

cudaGraphEdgeData* edges_of(CUgraphEdgeData* edges) { return reinterpret_cast<cudaGraphEdgeData*>(edges); }
const cudaGraphEdgeData* edges_of(const CUgraphEdgeData* edges) {
  return reinterpret_cast<const cudaGraphEdgeData*>(edges);
}

} // namespace

// ---- Graphs

DEADHEAT_SAME(cuGraphCreate, cudaGraphCreate, (CUgraph * result, unsigned flags), (result, flags))
DEADHEAT_SAME(cuGraphClone, cudaGraphClone, (CUgraph * result, CUgraph graph), (result, graph))
DEADHEAT_SAME(cuGraphNodeFindInClone, cudaGraphNodeFindInClone, (CUgraphNode * result, CUgraphNode node, CUgraph clone),
              (result, node, clone))
DEADHEAT_SAME(cuGraphDestroyNode, cudaGraphDestroyNode, (CUgraphNode node), (node))
DEADHEAT_SAME(cuGraphChildGraphNodeGetGraph, cudaGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph* graph),
              (node, graph))
DEADHEAT_SAME(cuGraphGetNodes, cudaGraphGetNodes, (CUgraph graph, CUgraphNode* list, size_t* count),
              (graph, list, count))
DEADHEAT_SAME(cuGraphGetRootNodes, cudaGraphGetRootNodes, (CUgraph graph, CUgraphNode* list, size_t* count),
              (graph, list, count))
DEADHEAT_SAME(cuGraphDebugDotPrint, cudaGraphDebugDotPrint, (CUgraph graph, const char* path, unsigned flags),
              (graph, path, flags))

DEADHEAT_BODY(cudaGraphDestroy, (cudaGraph_t graph));
DEADHEAT_DRIVER(cuGraphDestroy, initialized, (CUgraph graph), (graph)) { return cudaGraphDestroy_body(call, graph); }

DEADHEAT_BODY(cudaGraphNodeGetType, (cudaGraphNode_t node, cudaGraphNodeType* type));
DEADHEAT_DRIVER(cuGraphNodeGetType, context, (CUgraphNode node, CUgraphNodeType* type), (node, type)) {
  return cudaGraphNodeGetType_body(call, node, reinterpret_cast<cudaGraphNodeType*>(type));
}

// ---- Edges. Those without data are the calls from before CUDA 12.3.

DEADHEAT_BODY(cudaGraphGetEdges,
              (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data, size_t* count));
DEADHEAT_DRIVER(cuGraphGetEdges, context, (CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count),
                (graph, from, to, count)) {
  return cudaGraphGetEdges_body(call, graph, from, to, nullptr, count);
}
DEADHEAT_DRIVER(cuGraphGetEdges_v2, context,
                (CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count),
                (graph, from, to, data, count)) {
  return cudaGraphGetEdges_body(call, graph, from, to, edges_of(data), count);
}

DEADHEAT_BODY(cudaGraphNodeGetDependencies,
              (cudaGraphNode_t node, cudaGraphNode_t* list, cudaGraphEdgeData* data, size_t* count));
DEADHEAT_DRIVER(cuGraphNodeGetDependencies, context, (CUgraphNode node, CUgraphNode* list, size_t* count),
                (node, list, count)) {
  return cudaGraphNodeGetDependencies_body(call, node, list, nullptr, count);
}
DEADHEAT_DRIVER(cuGraphNodeGetDependencies_v2, context,
                (CUgraphNode node, CUgraphNode* list, CUgraphEdgeData* data, size_t* count),
                (node, list, data, count)) {
  return cudaGraphNodeGetDependencies_body(call, node, list, edges_of(data), count);
}

DEADHEAT_BODY(cudaGraphNodeGetDependentNodes,
              (cudaGraphNode_t node, cudaGraphNode_t* list, cudaGraphEdgeData* data, size_t* count));
DEADHEAT_DRIVER(cuGraphNodeGetDependentNodes, context, (CUgraphNode node, CUgraphNode* list, size_t* count),
                (node, list, count)) {
  return cudaGraphNodeGetDependentNodes_body(call, node, list, nullptr, count);
}
DEADHEAT_DRIVER(cuGraphNodeGetDependentNodes_v2, context,
                (CUgraphNode node, CUgraphNode* list, CUgraphEdgeData* data, size_t* count),
                (node, list, data, count)) {
  return cudaGraphNodeGetDependentNodes_body(call, node, list, edges_of(data), count);
}

DEADHEAT_BODY(cudaGraphAddDependencies, (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                         const cudaGraphEdgeData* data, size_t count));
DEADHEAT_DRIVER(cuGraphAddDependencies, context,
                (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count),
                (graph, from, to, count)) {
  return cudaGraphAddDependencies_body(call, graph, from, to, nullptr, count);
}
DEADHEAT_DRIVER(cuGraphAddDependencies_v2, context,
                (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                 size_t count),
                (graph, from, to, data, count)) {
  return cudaGraphAddDependencies_body(call, graph, from, to, edges_of(data), count);
}

DEADHEAT_BODY(cudaGraphRemoveDependencies, (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                            const cudaGraphEdgeData* data, size_t count));
DEADHEAT_DRIVER(cuGraphRemoveDependencies, context,
                (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count),
                (graph, from, to, count)) {
  return cudaGraphRemoveDependencies_body(call, graph, from, to, nullptr, count);
}
DEADHEAT_DRIVER(cuGraphRemoveDependencies_v2, context,
                (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                 size_t count),
                (graph, from, to, data, count)) {
  return cudaGraphRemoveDependencies_body(call, graph, from, to, edges_of(data), count);
}

// ---- Executable graphs

static cudaError_t instantiate_logged(Call& call, CUgraphExec* result, CUgraph graph, CUgraphNode* node, char* log,
                                      size_t bytes) {
  if (node) *node = nullptr;
  if (log && bytes) *log = 0;
  return instantiate(call, result, graph_of(call, graph), 0);
}
DEADHEAT_DRIVER(cuGraphInstantiate, context,
                (CUgraphExec * result, CUgraph graph, CUgraphNode* node, char* log, size_t bytes),
                (result, graph, node, log, bytes)) {
  return instantiate_logged(call, result, graph, node, log, bytes);
}
DEADHEAT_DRIVER(cuGraphInstantiate_v2, context,
                (CUgraphExec * result, CUgraph graph, CUgraphNode* node, char* log, size_t bytes),
                (result, graph, node, log, bytes)) {
  return instantiate_logged(call, result, graph, node, log, bytes);
}
DEADHEAT_SAME(cuGraphInstantiateWithFlags, cudaGraphInstantiateWithFlags,
              (CUgraphExec * result, CUgraph graph, unsigned long long flags), (result, graph, flags))

DEADHEAT_BODY(cudaGraphInstantiateWithParams,
              (cudaGraphExec_t * result, cudaGraph_t graph, cudaGraphInstantiateParams* parameters));
DEADHEAT_STREAM_DRIVER(cuGraphInstantiateWithParams, _ptsz, context,
                       (CUgraphExec * result, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters),
                       (result, graph, parameters)) {
  if (!parameters) return cudaErrorInvalidValue;
  cudaGraphInstantiateParams same{};
  same.flags = parameters->flags;
  same.uploadStream = parameters->hUploadStream;
  const cudaError_t status = cudaGraphInstantiateWithParams_body(call, result, graph, &same);
  parameters->hErrNode_out = same.errNode_out;
  parameters->result_out = CUgraphInstantiateResult(same.result_out);
  return status;
}

DEADHEAT_BODY(cudaGraphExecDestroy, (cudaGraphExec_t executable));
DEADHEAT_DRIVER(cuGraphExecDestroy, initialized, (CUgraphExec executable), (executable)) {
  return cudaGraphExecDestroy_body(call, executable);
}
DEADHEAT_BODY(cudaGraphExecGetFlags, (cudaGraphExec_t executable, unsigned long long* flags));
DEADHEAT_DRIVER(cuGraphExecGetFlags, context, (CUgraphExec executable, cuuint64_t* flags), (executable, flags)) {
  unsigned long long same = 0;
  const cudaError_t status = flags ? cudaGraphExecGetFlags_body(call, executable, &same) : cudaErrorInvalidValue;
  if (status == cudaSuccess) *flags = same;
  return status;
}
DEADHEAT_STREAM_SAME(cuGraphUpload, _ptsz, cudaGraphUpload, (CUgraphExec executable, CUstream stream),
                     (executable, stream))
DEADHEAT_STREAM_SAME(cuGraphLaunch, _ptsz, cudaGraphLaunch, (CUgraphExec executable, CUstream stream),
                     (executable, stream))

DEADHEAT_BODY(cudaGraphExecUpdate,
              (cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info));
DEADHEAT_DRIVER(cuGraphExecUpdate, context,
                (CUgraphExec executable, CUgraph graph, CUgraphNode* node, CUgraphExecUpdateResult* result),
                (executable, graph, node, result)) {
  cudaGraphExecUpdateResultInfo info{};
  const cudaError_t status = cudaGraphExecUpdate_body(call, executable, graph, &info);
  if (node) *node = info.errorNode;
  if (result) *result = CUgraphExecUpdateResult(info.result);
  return status;
}
DEADHEAT_DRIVER(cuGraphExecUpdate_v2, context,
                (CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* info), (executable, graph, info)) {
  return cudaGraphExecUpdate_body(call, executable, graph, reinterpret_cast<cudaGraphExecUpdateResultInfo*>(info));
}

// ---- User objects

DEADHEAT_BODY(cudaUserObjectCreate,
              (cudaUserObject_t * result, void* value, cudaHostFn_t destroy, unsigned references, unsigned flags));
DEADHEAT_DRIVER(cuUserObjectCreate, initialized,
                (CUuserObject * result, void* value, CUhostFn destroy, unsigned references, unsigned flags),
                (result, value, destroy, references, flags)) {
  return cudaUserObjectCreate_body(call, result, value, destroy, references, flags);
}
DEADHEAT_BODY(cudaUserObjectRetain, (cudaUserObject_t object, unsigned count));
DEADHEAT_DRIVER(cuUserObjectRetain, initialized, (CUuserObject object, unsigned count), (object, count)) {
  return cudaUserObjectRetain_body(call, object, count);
}
DEADHEAT_BODY(cudaUserObjectRelease, (cudaUserObject_t object, unsigned count));
DEADHEAT_DRIVER(cuUserObjectRelease, initialized, (CUuserObject object, unsigned count), (object, count)) {
  return cudaUserObjectRelease_body(call, object, count);
}
DEADHEAT_SAME(cuGraphRetainUserObject, cudaGraphRetainUserObject,
              (CUgraph graph, CUuserObject object, unsigned count, unsigned flags), (graph, object, count, flags))
DEADHEAT_SAME(cuGraphReleaseUserObject, cudaGraphReleaseUserObject,
              (CUgraph graph, CUuserObject object, unsigned count), (graph, object, count))

// ---- Memory of graphs

DEADHEAT_SAME(cuDeviceGraphMemTrim, cudaDeviceGraphMemTrim, (CUdevice device), (device))
DEADHEAT_BODY(cudaDeviceGetGraphMemAttribute, (int ordinal, cudaGraphMemAttributeType attribute, void* value));
DEADHEAT_DRIVER(cuDeviceGetGraphMemAttribute, initialized,
                (CUdevice device, CUgraphMem_attribute attribute, void* value), (device, attribute, value)) {
  return cudaDeviceGetGraphMemAttribute_body(call, device, cudaGraphMemAttributeType(attribute), value);
}
DEADHEAT_BODY(cudaDeviceSetGraphMemAttribute, (int ordinal, cudaGraphMemAttributeType attribute, void* value));
DEADHEAT_DRIVER(cuDeviceSetGraphMemAttribute, initialized,
                (CUdevice device, CUgraphMem_attribute attribute, void* value), (device, attribute, value)) {
  return cudaDeviceSetGraphMemAttribute_body(call, device, cudaGraphMemAttributeType(attribute), value);
}

// ---- Logs

DEADHEAT_BODY(cudaLogsRegisterCallback, (cudaLogsCallback_t function, void* data, cudaLogsCallbackHandle* result));
DEADHEAT_DRIVER(cuLogsRegisterCallback, nothing, (CUlogsCallback function, void* data, CUlogsCallbackHandle* result),
                (function, data, result)) {
  return cudaLogsRegisterCallback_body(call, reinterpret_cast<cudaLogsCallback_t>(function), data,
                                       reinterpret_cast<cudaLogsCallbackHandle*>(result));
}
DEADHEAT_BODY(cudaLogsUnregisterCallback, (cudaLogsCallbackHandle handle));
DEADHEAT_DRIVER(cuLogsUnregisterCallback, nothing, (CUlogsCallbackHandle handle), (handle)) {
  return cudaLogsUnregisterCallback_body(call, reinterpret_cast<cudaLogsCallbackHandle>(handle));
}
DEADHEAT_BODY(cudaLogsCurrent, (cudaLogIterator * iterator, unsigned flags));
DEADHEAT_DRIVER(cuLogsCurrent, nothing, (CUlogIterator * iterator, unsigned flags), (iterator, flags)) {
  return cudaLogsCurrent_body(call, iterator, flags);
}
DEADHEAT_BODY(cudaLogsDumpToFile, (cudaLogIterator * iterator, const char* path, unsigned flags));
DEADHEAT_DRIVER(cuLogsDumpToFile, nothing, (CUlogIterator * iterator, const char* path, unsigned flags),
                (iterator, path, flags)) {
  return cudaLogsDumpToFile_body(call, iterator, path, flags);
}
DEADHEAT_BODY(cudaLogsDumpToMemory, (cudaLogIterator * iterator, char* buffer, size_t* size, unsigned flags));
DEADHEAT_DRIVER(cuLogsDumpToMemory, nothing, (CUlogIterator * iterator, char* buffer, size_t* size, unsigned flags),
                (iterator, buffer, size, flags)) {
  return cudaLogsDumpToMemory_body(call, iterator, buffer, size, flags);
}
