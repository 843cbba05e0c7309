// Streams, events, host functions and capture (Driver API, "Stream Management", "Event Management").
#include "replay/embedded/driver/driver.h"
#include "replay/embedded/graph.h"
#include "replay/embedded/work.h"

using namespace deadheat::embedded;

static_assert(sizeof(CUgraphEdgeData) == sizeof(cudaGraphEdgeData));
static_assert(int(CU_STREAM_CAPTURE_MODE_RELAXED) == int(cudaStreamCaptureModeRelaxed) &&
              int(CU_STREAM_CAPTURE_STATUS_INVALIDATED) == int(cudaStreamCaptureStatusInvalidated));
static_assert(CU_STREAM_NON_BLOCKING == cudaStreamNonBlocking && CU_EVENT_INTERPROCESS == cudaEventInterprocess &&
              CU_EVENT_DISABLE_TIMING == cudaEventDisableTiming && CU_EVENT_RECORD_EXTERNAL == cudaEventRecordExternal);

// ---- Streams

DEADHEAT_SAME(cuStreamCreate, cudaStreamCreateWithFlags, (CUstream * stream, unsigned flags), (stream, flags))
DEADHEAT_SAME(cuStreamCreateWithPriority, cudaStreamCreateWithPriority,
              (CUstream * stream, unsigned flags, int priority), (stream, flags, priority))
DEADHEAT_BODY(cudaStreamDestroy, (cudaStream_t stream));
DEADHEAT_DRIVER(cuStreamDestroy_v2, context, (CUstream stream), (stream)) {
  return cudaStreamDestroy_body(call, stream);
}
DEADHEAT_STREAM_SAME(cuStreamSynchronize, _ptsz, cudaStreamSynchronize, (CUstream stream), (stream))
DEADHEAT_STREAM_SAME(cuStreamQuery, _ptsz, cudaStreamQuery, (CUstream stream), (stream))
DEADHEAT_STREAM_SAME(cuStreamGetFlags, _ptsz, cudaStreamGetFlags, (CUstream stream, unsigned* flags), (stream, flags))
DEADHEAT_STREAM_SAME(cuStreamGetPriority, _ptsz, cudaStreamGetPriority, (CUstream stream, int* priority),
                     (stream, priority))
DEADHEAT_STREAM_SAME(cuStreamGetId, _ptsz, cudaStreamGetId, (CUstream stream, unsigned long long* id), (stream, id))
DEADHEAT_STREAM_SAME(cuStreamGetDevice, _ptsz, cudaStreamGetDevice, (CUstream stream, CUdevice* device),
                     (stream, device))
DEADHEAT_STREAM_SAME(cuStreamCopyAttributes, _ptsz, cudaStreamCopyAttributes, (CUstream to, CUstream from), (to, from))

static cudaError_t context_of(Call& call, CUstream stream, CUcontext* context) {
  if (!call.stream(stream)) return cudaErrorInvalidResourceHandle;
  if (!context) return cudaErrorInvalidValue;
  *context = reinterpret_cast<CUcontext>(current_context(call));
  return cudaSuccess;
}
DEADHEAT_STREAM_DRIVER(cuStreamGetCtx, _ptsz, context, (CUstream stream, CUcontext* context), (stream, context)) {
  return context_of(call, stream, context);
}
DEADHEAT_STREAM_DRIVER(cuStreamGetCtx_v2, _ptsz, context, (CUstream stream, CUcontext* context, CUgreenCtx* green),
                       (stream, context, green)) {
  const cudaError_t status = context_of(call, stream, context);
  if (status == cudaSuccess && green) *green = nullptr;
  return status;
}

DEADHEAT_BODY(cudaStreamGetAttribute, (cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue* value));
DEADHEAT_BODY(cudaStreamSetAttribute,
              (cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue* value));
static_assert(sizeof(CUstreamAttrValue) == sizeof(cudaStreamAttrValue));
DEADHEAT_STREAM_DRIVER(cuStreamGetAttribute, _ptsz, context,
                       (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue* value),
                       (stream, attribute, value)) {
  return cudaStreamGetAttribute_body(call, stream, cudaStreamAttrID(attribute),
                                     reinterpret_cast<cudaStreamAttrValue*>(value));
}
DEADHEAT_STREAM_DRIVER(cuStreamSetAttribute, _ptsz, context,
                       (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue* value),
                       (stream, attribute, value)) {
  return cudaStreamSetAttribute_body(call, stream, cudaStreamAttrID(attribute),
                                     reinterpret_cast<const cudaStreamAttrValue*>(value));
}
DEADHEAT_BODY(cudaStreamAttachMemAsync, (cudaStream_t stream, void* pointer, size_t bytes, unsigned flags));
DEADHEAT_STREAM_DRIVER(cuStreamAttachMemAsync, _ptsz, context,
                       (CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags),
                       (stream, address, bytes, flags)) {
  return cudaStreamAttachMemAsync_body(call, stream, pointer_of(address), bytes, flags);
}

// ---- Host functions

DEADHEAT_STREAM_SAME(cuLaunchHostFunc, _ptsz, cudaLaunchHostFunc, (CUstream stream, CUhostFn function, void* data),
                     (stream, function, data))

DEADHEAT_STREAM_DRIVER(cuStreamAddCallback, _ptsz, context,
                       (CUstream handle, CUstreamCallback function, void* data, unsigned flags),
                       (handle, function, data, flags)) {
  if (flags) function = nullptr;
  return add_callback(call, handle, reinterpret_cast<const void*>(function),
                      function ? [=] { function(handle, CUDA_SUCCESS, data); } : std::function<void()>());
}

// ---- Events

DEADHEAT_SAME(cuEventCreate, cudaEventCreateWithFlags, (CUevent * event, unsigned flags), (event, flags))
DEADHEAT_SAME(cuEventSynchronize, cudaEventSynchronize, (CUevent event), (event))
DEADHEAT_SAME(cuEventQuery, cudaEventQuery, (CUevent event), (event))
DEADHEAT_BODY(cudaEventDestroy, (cudaEvent_t event));
DEADHEAT_DRIVER(cuEventDestroy_v2, context, (CUevent event), (event)) { return cudaEventDestroy_body(call, event); }
DEADHEAT_BODY(cudaEventElapsedTime, (float* milliseconds, cudaEvent_t begin, cudaEvent_t end));
DEADHEAT_DRIVER(cuEventElapsedTime, context, (float* milliseconds, CUevent begin, CUevent end),
                (milliseconds, begin, end)) {
  return cudaEventElapsedTime_body(call, milliseconds, begin, end);
}
DEADHEAT_DRIVER(cuEventElapsedTime_v2, context, (float* milliseconds, CUevent begin, CUevent end),
                (milliseconds, begin, end)) {
  return cudaEventElapsedTime_body(call, milliseconds, begin, end);
}
DEADHEAT_STREAM_SAME(cuEventRecord, _ptsz, cudaEventRecord, (CUevent event, CUstream stream), (event, stream))
DEADHEAT_STREAM_SAME(cuEventRecordWithFlags, _ptsz, cudaEventRecordWithFlags,
                     (CUevent event, CUstream stream, unsigned flags), (event, stream, flags))
DEADHEAT_STREAM_SAME(cuStreamWaitEvent, _ptsz, cudaStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
                     (stream, event, flags))

// ---- Capture

DEADHEAT_BODY(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode));
DEADHEAT_BODY(cudaStreamBeginCaptureToGraph,
              (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* list, const cudaGraphEdgeData* edges,
               size_t count, cudaStreamCaptureMode mode));
DEADHEAT_BODY(cudaStreamGetCaptureInfo,
              (cudaStream_t stream, cudaStreamCaptureStatus* result, unsigned long long* id, cudaGraph_t* graph,
               const cudaGraphNode_t** list, const cudaGraphEdgeData** edges, size_t* count));
DEADHEAT_BODY(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* result));
DEADHEAT_BODY(cudaStreamUpdateCaptureDependencies, (cudaStream_t stream, cudaGraphNode_t* list,
                                                    const cudaGraphEdgeData* edges, size_t count, unsigned flags));
DEADHEAT_BODY(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode));

DEADHEAT_STREAM_DRIVER(cuStreamBeginCapture, _ptsz, context, (CUstream stream), (stream)) { // CUDA 10.0
  return cudaStreamBeginCapture_body(call, stream, cudaStreamCaptureModeGlobal);
}
DEADHEAT_STREAM_DRIVER(cuStreamBeginCapture_v2, _ptsz, context, (CUstream stream, CUstreamCaptureMode mode),
                       (stream, mode)) {
  return cudaStreamBeginCapture_body(call, stream, cudaStreamCaptureMode(mode));
}
DEADHEAT_STREAM_DRIVER(cuStreamBeginCaptureToGraph, _ptsz, context,
                       (CUstream stream, CUgraph graph, const CUgraphNode* list, const CUgraphEdgeData* edges,
                        size_t count, CUstreamCaptureMode mode),
                       (stream, graph, list, edges, count, mode)) {
  return cudaStreamBeginCaptureToGraph_body(
      call, stream, graph, list, reinterpret_cast<const cudaGraphEdgeData*>(edges), count, cudaStreamCaptureMode(mode));
}
DEADHEAT_STREAM_SAME(cuStreamEndCapture, _ptsz, cudaStreamEndCapture, (CUstream stream, CUgraph* graph),
                     (stream, graph))
DEADHEAT_STREAM_DRIVER(cuStreamIsCapturing, _ptsz, context, (CUstream stream, CUstreamCaptureStatus* result),
                       (stream, result)) {
  return cudaStreamIsCapturing_body(call, stream, reinterpret_cast<cudaStreamCaptureStatus*>(result));
}

static cudaError_t capture_info(Call& call, CUstream stream, CUstreamCaptureStatus* result, cuuint64_t* id,
                                CUgraph* graph, const CUgraphNode** list, const CUgraphEdgeData** edges,
                                size_t* count) {
  unsigned long long number = 0;
  const cudaError_t status =
      cudaStreamGetCaptureInfo_body(call, stream, reinterpret_cast<cudaStreamCaptureStatus*>(result), &number, graph,
                                    list, reinterpret_cast<const cudaGraphEdgeData**>(edges), count);
  if (status == cudaSuccess && id && number) *id = number;
  return status;
}
DEADHEAT_STREAM_DRIVER(cuStreamGetCaptureInfo, _ptsz, context,
                       (CUstream stream, CUstreamCaptureStatus* result, cuuint64_t* id), (stream, result, id)) {
  return capture_info(call, stream, result, id, nullptr, nullptr, nullptr, nullptr);
}
DEADHEAT_STREAM_DRIVER(cuStreamGetCaptureInfo_v2, _ptsz, context,
                       (CUstream stream, CUstreamCaptureStatus* result, cuuint64_t* id, CUgraph* graph,
                        const CUgraphNode** list, size_t* count),
                       (stream, result, id, graph, list, count)) {
  return capture_info(call, stream, result, id, graph, list, nullptr, count);
}
DEADHEAT_STREAM_DRIVER(cuStreamGetCaptureInfo_v3, _ptsz, context,
                       (CUstream stream, CUstreamCaptureStatus* result, cuuint64_t* id, CUgraph* graph,
                        const CUgraphNode** list, const CUgraphEdgeData** edges, size_t* count),
                       (stream, result, id, graph, list, edges, count)) {
  return capture_info(call, stream, result, id, graph, list, edges, count);
}
DEADHEAT_STREAM_DRIVER(cuStreamUpdateCaptureDependencies, _ptsz, context,
                       (CUstream stream, CUgraphNode* list, size_t count, unsigned flags),
                       (stream, list, count, flags)) {
  return cudaStreamUpdateCaptureDependencies_body(call, stream, list, nullptr, count, flags);
}
DEADHEAT_STREAM_DRIVER(cuStreamUpdateCaptureDependencies_v2, _ptsz, context,
                       (CUstream stream, CUgraphNode* list, const CUgraphEdgeData* edges, size_t count, unsigned flags),
                       (stream, list, edges, count, flags)) {
  return cudaStreamUpdateCaptureDependencies_body(call, stream, list, reinterpret_cast<const cudaGraphEdgeData*>(edges),
                                                  count, flags);
}
DEADHEAT_DRIVER(cuThreadExchangeStreamCaptureMode, initialized, (CUstreamCaptureMode * mode), (mode)) {
  return cudaThreadExchangeStreamCaptureMode_body(call, reinterpret_cast<cudaStreamCaptureMode*>(mode));
}
