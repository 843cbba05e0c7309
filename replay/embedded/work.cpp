#include "replay/embedded/work.h"

#include <chrono>
#include <thread>

#include "replay/embedded/call_site.h"
#include "replay/embedded/graph.h"

namespace deadheat::embedded {

std::function<void()> as_callback(Runtime& runtime, std::function<void()> function) {
  return [&runtime, function = std::move(function)] {
    if (runtime.ended) return; // the program's objects are gone
    ThreadState& thread = thread_state();
    const unsigned depth = ++runtime.callbacks;
    const std::uint64_t calls = runtime.calls;
    thread.in_callback = true;
    runtime.lock.unlock();
    function();
    runtime.lock.lock();
    while (runtime.callbacks != depth) { // callbacks that others began meanwhile
      runtime.lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      runtime.lock.lock();
    }
    thread.in_callback = false;
    --runtime.callbacks;
    if (runtime.calls != calls) runtime.recording->note_unrepeatable(); // calls of others came in the midst
  };
}

Work host_work(const Call& call, const cudaHostNodeParams& host) {
  return {trace::HostCallback{call.api}, [host] { host.fn(host.userData); }, host};
}

cudaError_t add_callback(Call& call, cudaStream_t handle, std::function<void()> function) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!function) return cudaErrorInvalidValue;
  if (stream->capture) return refuse_capture(call, *stream, nullptr);
  return submit(call, *stream, {trace::HostCallback{call.api}, std::move(function), {}, {}});
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
    call.device().next_callback([&runtime = call.runtime, run = as_callback(call.runtime, work.callback)] {
      --runtime.host_functions;
      run();
    });
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

cudaError_t submit(Call& call, Stream& stream, Work work, std::uint32_t* operation) {
  if (operation) *operation = 0;
  if (!call.runtime.options.output.empty()) {
    const auto* launch = std::get_if<trace::Launch>(&work.what);
    work.call_site = launch ? call_site(launch->kernel) : call_site();
  }
  bool captured = false;
  const cudaError_t status = capture(call, stream, work, &captured);
  if (captured || status != cudaSuccess) return status;
  return submit_now(call, stream.id, work, {}, operation);
}

} // namespace deadheat::embedded
