// Events (Runtime API, "Event Management"). Elapsed time is counted in submitted operations, not in clock ticks: the
// same program and seed give the same numbers.
#include "replay/embedded/graph.h"
#include "replay/embedded/work.h"

using namespace deadheat::embedded;
using deadheat::trace::HostWait;

namespace {

constexpr float milliseconds_an_operation = 0.01f;

cudaError_t create(Call& call, cudaEvent_t* event, unsigned flags) {
  const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (!event || (flags & ~known)) return cudaErrorInvalidValue;
  if (flags & cudaEventInterprocess) {
    say_once("events shared between processes are not supported by the embedded device");
    return cudaErrorNotSupported;
  }
  auto made = std::make_unique<Event>();
  made->flags = flags;
  made->id = call.device().create_event();
  *event = reinterpret_cast<cudaEvent_t>(made.get());
  call.runtime.events.emplace(*event, std::move(made));
  return cudaSuccess;
}

} // namespace

cudaError_t deadheat::embedded::record_event(Call& call, cudaEvent_t handle, cudaStream_t stream_handle,
                                             unsigned flags) {
  Event* event = call.event(handle);
  Stream* stream = call.stream(stream_handle);
  if (!event || !stream) return cudaErrorInvalidResourceHandle;
  if (flags & ~unsigned(cudaEventRecordExternal)) return cudaErrorInvalidValue;
  bool captured = false;
  const cudaError_t status = capture_record(call, handle, *stream, flags & cudaEventRecordExternal, &captured);
  if (captured || status != cudaSuccess) return status;
  if (flags & cudaEventRecordExternal) return cudaErrorIllegalState;
  event->position = ++call.runtime.submitted;
  event->recorded = true;
  event->capture = nullptr;
  event->nodes.clear();
  call.device().record_event(event->id, stream->id, call.thread.number);
  return cudaSuccess;
}

DEADHEAT_API(cudaEventCreate, device, (cudaEvent_t * event), (event)) { return create(call, event, cudaEventDefault); }

DEADHEAT_API(cudaEventCreateWithFlags, device, (cudaEvent_t * event, unsigned flags), (event, flags)) {
  return create(call, event, flags);
}

DEADHEAT_API(cudaEventDestroy, device, (cudaEvent_t handle), (handle)) {
  return call.runtime.events.erase(handle) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

DEADHEAT_STREAM_API(cudaEventRecord, _ptsz, device, (cudaEvent_t event, cudaStream_t stream), (event, stream)) {
  return record_event(call, event, stream, 0);
}

DEADHEAT_STREAM_API(cudaEventRecordWithFlags, _ptsz, device, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
                    (event, stream, flags)) {
  return record_event(call, event, stream, flags);
}

DEADHEAT_STREAM_API(cudaStreamWaitEvent, _ptsz, device,
                    (cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags), (stream_handle, handle, flags)) {
  Event* event = call.event(handle);
  Stream* stream = call.stream(stream_handle);
  if (!event || !stream) return cudaErrorInvalidResourceHandle;
  if (flags & ~unsigned(cudaEventWaitExternal)) return cudaErrorInvalidValue;
  bool captured = false;
  const cudaError_t status = capture_wait(call, handle, *stream, flags & cudaEventWaitExternal, &captured);
  if (captured || status != cudaSuccess) return status;
  // Of an event never recorded: it waits for nothing, and reports say so.
  call.device().stream_wait(stream->id, event->id, call.thread.number);
  return cudaSuccess;
}

DEADHEAT_API(cudaEventSynchronize, device, (cudaEvent_t handle), (handle)) {
  Event* event = call.event(handle);
  if (!event) return cudaErrorInvalidResourceHandle;
  const cudaError_t status = forbid_on(call, *event);
  if (status != cudaSuccess || !event->recorded) return status;
  return call.wait(HostWait::Kind::event, event->id);
}

DEADHEAT_API(cudaEventQuery, device, (cudaEvent_t handle), (handle)) {
  Event* event = call.event(handle);
  if (!event) return cudaErrorInvalidResourceHandle;
  const cudaError_t status = forbid_on(call, *event);
  if (status != cudaSuccess || !event->recorded) return status;
  return call.query(HostWait::Kind::event, event->id);
}

DEADHEAT_API(cudaEventElapsedTime, device, (float* milliseconds, cudaEvent_t begin_handle, cudaEvent_t end_handle),
             (milliseconds, begin_handle, end_handle)) {
  Event* begin = call.event(begin_handle);
  Event* end = call.event(end_handle);
  if (!milliseconds) return cudaErrorInvalidValue;
  if (!begin || !end) return cudaErrorInvalidResourceHandle;
  for (Event* event : {begin, end}) {
    const cudaError_t status = forbid_on(call, *event);
    if (status != cudaSuccess) return status;
  }
  if (!begin->recorded || !end->recorded) return cudaErrorInvalidResourceHandle;
  if ((begin->flags | end->flags) & cudaEventDisableTiming) return cudaErrorInvalidResourceHandle;
  for (Event* event : {begin, end}) {
    const cudaError_t status = call.query(HostWait::Kind::event, event->id);
    if (status != cudaSuccess) return status;
  }
  *milliseconds = float(std::int64_t(end->position - begin->position)) * milliseconds_an_operation;
  return cudaSuccess;
}
