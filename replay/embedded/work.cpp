#include "replay/embedded/work.h"

#include <utility>

#include "replay/embedded/call_site.h"
#include "replay/embedded/graph.h"

namespace deadheat::embedded {

namespace {

void call_back(const std::function<void()>& function) {
  ThreadState& thread = thread_state();
  const bool within = std::exchange(thread.in_callback, true);
  function();
  thread.in_callback = within;
}

} // namespace

device::HostFunction as_callback(Runtime& runtime, const void* code, std::function<void()> function) {
  return {code, [&runtime, code, function = std::move(function)]() -> device::RunsOn {
            if (runtime.ended) return nullptr; // the program's objects are gone
            const std::uint64_t calls = runtime.calls;
            device::RunsOn runs_on = runtime.function_threads.run(
                runtime.lock, code, [function] { call_back(function); }, runtime.options.patience);
            if ((runs_on || runtime.calls != calls) && runtime.recording) runtime.recording->note_beside_function();
            return runs_on;
          }};
}

Work host_work(const Call& call, const cudaHostNodeParams& host) {
  return {trace::HostCallback{call.api}, [host] { host.fn(host.userData); }, host,
          reinterpret_cast<const void*>(host.fn)};
}

cudaError_t add_callback(Call& call, cudaStream_t handle, const void* code, std::function<void()> function) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!function) return cudaErrorInvalidValue;
  if (stream->capture) return refuse_capture(call, *stream, nullptr);
  return submit(call, *stream, {trace::HostCallback{call.api}, std::move(function), {}, code});
}

cudaError_t submit_now(Call& call, std::uint32_t stream, const Work& work, const trace::Operation& place,
                       std::uint32_t* operation) {
  trace::Operation request = place;
  request.stream = stream;
  request.host_thread = call.thread.number;
  request.what = work.what;
  request.call_site = work.call_site;
  if (work.callback) {
    ++call.runtime.host_functions;
    call.runtime.watch_host_memory();
    device::HostFunction function = as_callback(call.runtime, work.code, work.callback);
    function.run = [&runtime = call.runtime, run = std::move(function.run)] {
      --runtime.host_functions;
      return run();
    };
    call.device().next_callback(std::move(function));
  }
  ++call.runtime.submitted;
  Expected<std::uint32_t> id = call.device().submit(std::move(request));
  if (!id) {
    if (work.callback) --call.runtime.host_functions;
    say_once(std::string(call.api) + ": " + id.error().message());
    return cudaErrorInvalidValue;
  }
  if (operation) *operation = *id;
  return cudaSuccess;
}

void note_call_site(const Call& call, Work& work) {
  if (call.runtime.options.output.empty()) return;
  const auto* launch = std::get_if<trace::Launch>(&work.what);
  work.call_site = launch ? call_site(launch->kernel) : call_site();
}

cudaError_t submit(Call& call, Stream& stream, Work work, std::uint32_t* operation) {
  if (operation) *operation = 0;
  note_call_site(call, work);
  bool captured = false;
  const cudaError_t status = capture(call, stream, work, &captured);
  if (captured || status != cudaSuccess) return status;
  return submit_now(call, stream.id, work, {}, operation);
}

} // namespace deadheat::embedded
