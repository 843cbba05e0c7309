// Streams and host functions in them (Runtime API, "Stream Management", "Execution Control").
#include "replay/embedded/graph.h"
#include "replay/embedded/work.h"

using namespace deadheat::embedded;
using deadheat::trace::HostWait;

namespace {

constexpr int greatest_priority = -5, least_priority = 0; // what an H200 gives

cudaError_t create(Call& call, cudaStream_t* stream, unsigned flags, int priority) {
  if (!stream || (flags & ~unsigned(cudaStreamNonBlocking))) return cudaErrorInvalidValue;
  const auto kind = flags & cudaStreamNonBlocking ? deadheat::trace::StreamCreate::Kind::non_blocking
                                                  : deadheat::trace::StreamCreate::Kind::blocking;
  priority = std::max(greatest_priority, std::min(least_priority, priority));
  *stream = call.runtime.add_stream(kind, flags, priority, call.thread.number);
  return cudaSuccess;
}

} // namespace

DEADHEAT_API(cudaStreamCreate, device, (cudaStream_t * stream), (stream)) {
  return create(call, stream, cudaStreamDefault, 0);
}

DEADHEAT_API(cudaStreamCreateWithFlags, device, (cudaStream_t * stream, unsigned flags), (stream, flags)) {
  return create(call, stream, flags, 0);
}

DEADHEAT_API(cudaStreamCreateWithPriority, device, (cudaStream_t * stream, unsigned flags, int priority),
             (stream, flags, priority)) {
  return create(call, stream, flags, priority);
}

DEADHEAT_API(cudaDeviceGetStreamPriorityRange, nothing, (int* least, int* greatest), (least, greatest)) {
  if (least) *least = least_priority;
  if (greatest) *greatest = greatest_priority;
  return cudaSuccess;
}

// Its work goes on; the handle is gone at once.
DEADHEAT_API(cudaStreamDestroy, device, (cudaStream_t handle), (handle)) {
  auto found = call.runtime.streams.find(handle);
  if (found == call.runtime.streams.end()) return cudaErrorInvalidResourceHandle;
  if (found->second->capture) leave_capture(call, *found->second);
  call.device().destroy_stream(found->second->id, call.thread.number);
  call.runtime.streams.erase(found);
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaStreamSynchronize, _ptsz, device, (cudaStream_t handle), (handle)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  const cudaError_t status = forbid_on(call, *stream);
  return status == cudaSuccess ? call.wait(HostWait::Kind::stream, stream->id) : status;
}

DEADHEAT_STREAM_API(cudaStreamQuery, _ptsz, device, (cudaStream_t handle), (handle)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  const cudaError_t status = forbid_on(call, *stream);
  return status == cudaSuccess ? call.query(HostWait::Kind::stream, stream->id) : status;
}

DEADHEAT_STREAM_API(cudaStreamGetFlags, _ptsz, device, (cudaStream_t handle, unsigned* flags), (handle, flags)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!flags) return cudaErrorInvalidValue;
  *flags = stream->flags;
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaStreamGetPriority, _ptsz, device, (cudaStream_t handle, int* priority), (handle, priority)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!priority) return cudaErrorInvalidValue;
  *priority = stream->priority;
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaStreamGetId, _ptsz, device, (cudaStream_t handle, unsigned long long* id), (handle, id)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!id) return cudaErrorInvalidValue;
  *id = stream->id;
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaStreamGetDevice, _ptsz, device, (cudaStream_t handle, int* ordinal), (handle, ordinal)) {
  if (!call.stream(handle)) return cudaErrorInvalidResourceHandle;
  if (!ordinal) return cudaErrorInvalidValue;
  *ordinal = 0;
  return cudaSuccess;
}

// Stream attributes are hints about caches and scheduling.
DEADHEAT_STREAM_API(cudaStreamGetAttribute, _ptsz, device,
                    (cudaStream_t handle, cudaStreamAttrID attribute, cudaStreamAttrValue* value),
                    (handle, attribute, value)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!value) return cudaErrorInvalidValue;
  *value = {};
  if (attribute == cudaLaunchAttributePriority) value->priority = stream->priority;
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaStreamSetAttribute, _ptsz, device,
                    (cudaStream_t handle, cudaStreamAttrID attribute, const cudaStreamAttrValue* value),
                    (handle, attribute, value)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!value) return cudaErrorInvalidValue;
  if (attribute == cudaLaunchAttributePriority) stream->priority = value->priority;
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaStreamCopyAttributes, _ptsz, device, (cudaStream_t to, cudaStream_t from), (to, from)) {
  return call.stream(to) && call.stream(from) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

DEADHEAT_STREAM_API(cudaLaunchHostFunc, _ptsz, device, (cudaStream_t handle, cudaHostFn_t function, void* data),
                    (handle, function, data)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!function) return cudaErrorInvalidValue;
  return submit(call, *stream, host_work(call, {function, data}));
}

DEADHEAT_STREAM_API(cudaStreamAddCallback, _ptsz, device,
                    (cudaStream_t handle, cudaStreamCallback_t function, void* data, unsigned flags),
                    (handle, function, data, flags)) {
  if (flags) function = nullptr;
  return add_callback(call, handle, reinterpret_cast<const void*>(function),
                      function ? [=] { function(handle, cudaSuccess, data); } : std::function<void()>());
}
