// Streams, events, and what the host waits for.
#include "tracer/cupti/caller.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_writes.h"
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
  const std::string library = library_that_calls();
  std::lock_guard hold(call.session.lock);
  call.session.created(call.session.device_of(call.context), *handle, kind_of(flags), priority, library);
}

void waited(Call& call, Kind kind, std::uint32_t id, bool query) {
  call.session.host_waited(kind, id, query);
  if (Window* window = call.session.window()) window->waited(kind, id);
}

// On the way in: what other threads submit from here on is not waited for.
void begins_to_wait(Call& call, Kind kind, std::uint32_t id) {
  if (HostWrites* writes = call.session.host_writes()) writes->before_wait(kind, id);
  call.session.journal().push(trace::HostWaitBegin{kind, id, call.session.host_thread()});
}

// Around the whole of a call that waits: on the way out, host functions that were about to begin come first.
class Waits {
 public:
  explicit Waits(Call& call) : call_(call), writes_(call.session.host_writes()) {
    if (writes_) call.exit ? writes_->looks().let_functions_run() : writes_->looks().waiting.enters();
  }
  ~Waits() {
    if (writes_ && call_.exit) writes_->looks().waiting.leaves();
  }
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

 private:
  Call& call_;
  HostWrites* const writes_;
};

void record(Call& call, CUevent event, CUstream handle) {
  if (!call.done() || call.captured(handle)) return;
  std::lock_guard hold(call.session.lock);
  call.session.record_event(call.session.event(event), call.stream(handle));
}

// `context`: null: the current one.
void context_synchronized(Call& call, CUcontext context) {
  const Waits waits(call);
  if (call.exit && !call.done()) return;
  {
    std::lock_guard hold(call.session.lock);
    const std::uint32_t device = call.session.device_of(context) + 1;
    if (!call.exit) return begins_to_wait(call, Kind::device, device);
    waited(call, Kind::device, device, false);
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
  const Waits waits(call);
  if (call.exit && !call.done()) return;
  {
    std::lock_guard hold(call.session.lock);
    if (!call.exit) return begins_to_wait(call, Kind::stream, call.stream(p.hStream));
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
// Other processes may record it, and wait for it.
static void shared(Call& call, CUevent event) {
  std::lock_guard hold(call.session.lock);
  call.session.share(call.session.event(event));
  const std::string line = std::string(call.function) +
                           " was called; not recorded: what other processes do with the event. Who waits for it counts "
                           "as waiting for all that was recorded with such events before";
  if (Window* window = call.session.window()) window->spoil(line);
  call.session.incident("lost", line);
}
void share_event(Call& call, cuIpcGetEventHandle_params& p) {
  if (call.done()) shared(call, p.event);
}
void open_event(Call& call, cuIpcOpenEventHandle_params& p) {
  if (!call.done() || !p.phEvent) return;
  {
    std::lock_guard hold(call.session.lock);
    call.session.forget(*p.phEvent); // a handle may come again
  }
  shared(call, *p.phEvent);
}
void record_event(Call& call, cuEventRecord_params& p) { record(call, p.hEvent, p.hStream); }
void record_event_with_flags(Call& call, cuEventRecordWithFlags_params& p) { record(call, p.hEvent, p.hStream); }
void synchronize_event(Call& call, cuEventSynchronize_params& p) {
  const Waits waits(call);
  if (call.exit && !call.done()) return;
  {
    std::lock_guard hold(call.session.lock);
    const std::uint32_t event = call.session.event(p.hEvent);
    if (!call.exit) return begins_to_wait(call, Kind::event, event);
    waited(call, Kind::event, event, false);
  }
  call.session.recorder().caught_up();
}
void query_event(Call& call, cuEventQuery_params& p) {
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  waited(call, Kind::event, call.session.event(p.hEvent), true);
}
// It is told of events that are complete only.
void events_apart(Call& call, cuEventElapsedTime_v2_params& p) {
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  for (CUevent event : {p.hStart, p.hEnd}) waited(call, Kind::event, call.session.event(event), true);
}
void events_apart_first(Call& call, cuEventElapsedTime_params& p) {
  cuEventElapsedTime_v2_params same{p.pMilliseconds, p.hStart, p.hEnd};
  events_apart(call, same);
}
void synchronize_context(Call& call, cuCtxSynchronize_params&) { context_synchronized(call, nullptr); }
void synchronize_context_v2(Call& call, cuCtxSynchronize_v2_params& p) { context_synchronized(call, p.ctx); }

}  // namespace deadheat::cupti
