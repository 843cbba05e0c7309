// Streams, events, and what the host waits for.
#include <atomic>
#include <utility>

#include "tracer/cupti/handlers.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

using Kind = trace::HostWait::Kind;

trace::StreamCreate::Kind kind_of(unsigned flags) {
  return flags & CU_STREAM_NON_BLOCKING ? trace::StreamCreate::Kind::non_blocking : trace::StreamCreate::Kind::blocking;
}

void stream_made(Call& call, CUstream* handle, unsigned flags, int priority) {
  if (!call.done() || !handle) return;
  std::lock_guard hold(call.session.lock);
  call.session.created(call.session.device_of(call.context), *handle, kind_of(flags), priority);
}

void waited(Call& call, Kind kind, std::uint32_t id, bool query) {
  call.session.host_waited(kind, id, query);
  if (Window* window = call.session.window()) window->waited(kind, id);
}

void record(Call& call, CUevent event, CUstream handle) {
  if (!call.done() || call.captured(handle)) return;
  std::lock_guard hold(call.session.lock);
  call.session.record_event(call.session.event(event), call.stream(handle));
}

// A host function, or a stream's callback, from the way in until it runs. What comes before it in its stream is
// complete when it begins, and it can tell any host thread so in ways that are not seen: the host has waited for it
// then.
struct HostFunction {
  Session& session;
  void* data = nullptr; // the program's own
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;
  std::uint32_t operation = 0;
  std::atomic<bool> met{false}; // it has begun, or its operation is known: whoever comes second says so, and frees it

  void meet() {
    if (!met.exchange(true)) return;
    session.journal().push(trace::HostWait{trace::HostWait::Kind::operation, operation, 0, false, 0});
    delete this;
  }
};

void CUDA_CB run_function(void* of) {
  auto* host = static_cast<HostFunction*>(of);
  const CUhostFn function = host->function;
  void* const data = host->data;
  host->meet();
  function(data);
}

void CUDA_CB run_callback(CUstream stream, CUresult status, void* of) {
  auto* host = static_cast<HostFunction*>(of);
  const CUstreamCallback callback = host->callback;
  void* const data = host->data;
  host->meet();
  callback(stream, status, data);
}

HostFunction*& function_of(Call& call) {
  static_assert(sizeof(HostFunction*) == sizeof *call.correlation);
  return reinterpret_cast<HostFunction*&>(*call.correlation);
}

// The way in: `own` calls the program's function, with `data`. A captured one becomes a graph's node, which may run
// often.
template <typename Function>
void wrap(Call& call, CUstream handle, Function HostFunction::* which, Function& function, Function own, void*& data) {
  function_of(call) = nullptr;
  if (!function || call.captured(handle)) return;
  auto* host = new HostFunction{call.session, data};
  host->*which = std::exchange(function, own);
  data = host;
  function_of(call) = host;
}

// The way out.
void callback(Call& call, CUstream handle) {
  HostFunction* const host = std::exchange(function_of(call), nullptr);
  if (!call.done()) {
    delete host; // it will not run
    return;
  }
  if (!host && call.captured(handle)) return;
  trace::Operation operation;
  operation.what = trace::HostCallback{call.api()};
  std::lock_guard hold(call.session.lock);
  operation.stream = call.stream(handle);
  const std::uint32_t id = call.session.submit(std::move(operation));
  if (!host) return;
  host->operation = id;
  host->meet();
}

// `context`: null: the current one.
void context_synchronized(Call& call, CUcontext context) {
  if (!call.done()) return;
  {
    std::lock_guard hold(call.session.lock);
    waited(call, Kind::device, call.session.device_of(context) + 1, false);
  }
  call.session.recorder().caught_up();
}

}  // namespace

void create_stream(Call& call, cuStreamCreate_params& p) { stream_made(call, p.phStream, p.Flags, 0); }
void create_stream_with_priority(Call& call, cuStreamCreateWithPriority_params& p) {
  stream_made(call, p.phStream, p.flags, p.priority);
}
void destroy_stream(Call& call, cuStreamDestroy_v2_params& p) {
  if (call.exit) return;
  std::lock_guard hold(call.session.lock);
  call.session.destroyed(p.hStream);
}

void stream_waits(Call& call, cuStreamWaitEvent_params& p) {
  if (!call.done() || call.captured(p.hStream)) return;
  std::lock_guard hold(call.session.lock);
  call.session.wait_event(call.stream(p.hStream), call.session.event(p.hEvent));
}

void synchronize_stream(Call& call, cuStreamSynchronize_params& p) {
  if (!call.done()) return;
  {
    std::lock_guard hold(call.session.lock);
    waited(call, Kind::stream, call.stream(p.hStream), false);
  }
  call.session.recorder().caught_up();
}
void query_stream(Call& call, cuStreamQuery_params& p) {
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  waited(call, Kind::stream, call.stream(p.hStream), true);
}

void create_event(Call& call, cuEventCreate_params& p) {
  if (!call.done() || !p.phEvent) return;
  std::lock_guard hold(call.session.lock);
  call.session.forget(*p.phEvent);  // a handle may come again
  call.session.event(*p.phEvent);
}
void destroy_event(Call& call, cuEventDestroy_v2_params& p) {
  if (call.exit) return;
  std::lock_guard hold(call.session.lock);
  call.session.forget(p.hEvent);
}
void record_event(Call& call, cuEventRecord_params& p) { record(call, p.hEvent, p.hStream); }
void record_event_with_flags(Call& call, cuEventRecordWithFlags_params& p) { record(call, p.hEvent, p.hStream); }
void synchronize_event(Call& call, cuEventSynchronize_params& p) {
  if (!call.done()) return;
  {
    std::lock_guard hold(call.session.lock);
    waited(call, Kind::event, call.session.event(p.hEvent), false);
  }
  call.session.recorder().caught_up();
}
void query_event(Call& call, cuEventQuery_params& p) {
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  waited(call, Kind::event, call.session.event(p.hEvent), true);
}
void synchronize_context(Call& call, cuCtxSynchronize_params&) { context_synchronized(call, nullptr); }
void synchronize_context_v2(Call& call, cuCtxSynchronize_v2_params& p) { context_synchronized(call, p.ctx); }

void host_function(Call& call, cuLaunchHostFunc_params& p) {
  if (!call.exit)
    wrap(call, p.hStream, &HostFunction::function, p.fn, CUhostFn(run_function), p.userData);
  else
    callback(call, p.hStream);
}
void stream_callback(Call& call, cuStreamAddCallback_params& p) {
  if (!call.exit)
    wrap(call, p.hStream, &HostFunction::callback, p.callback, CUstreamCallback(run_callback), p.userData);
  else
    callback(call, p.hStream);
}

}  // namespace deadheat::cupti
