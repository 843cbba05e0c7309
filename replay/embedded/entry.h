// How an API call gets at the runtime's state, and how entry points are defined.
//
// Thread-safety: enter() takes Runtime::lock for the whole call, so the calls of all host threads form one order, the
// order of the trace.
//
// Invariants: no exception leaves enter(). A host function runs on a thread of FunctionThreads, and may not call CUDA
// (cudaErrorNotPermitted, as in CUDA). The child of a fork has no device
// where its parent had one by then.
#pragma once

#include "replay/embedded/runtime.h"

namespace deadheat::embedded {

// One API call in progress.
class Call {
 public:
  Call(const char* name, DefaultStream stream) : api(name), null_stream(stream) {}
  const char* const api;
  const DefaultStream null_stream;
  Runtime& runtime = embedded::runtime();
  ThreadState& thread = thread_state();
  bool of_driver = false; // who calls gets each call's status, and there is no last error
  device::Device& device() { return *runtime.device; }

  // The stream that a handle means, 0 and the special handles included; null for a bad handle.
  Stream* stream(cudaStream_t handle);
  Event* event(cudaEvent_t handle);
  // What a drive of the device came to; stuck devices are described once.
  cudaError_t result(device::Progress progress);
  cudaError_t wait(trace::HostWait::Kind kind, std::uint32_t id = 0);
  cudaError_t query(trace::HostWait::Kind kind, std::uint32_t id = 0);
  cudaError_t wait_operation(std::uint32_t operation);
  // The host goes on when it is complete, or when all is, and may not rely on that: the trace does not have it.
  cudaError_t complete(std::uint32_t operation);
  cudaError_t complete_all();
  void refused(); // the trace says so
  bool refusal_noted = false;

 private:
  Stream* find_stream(cudaStream_t handle);
  device::Progress wait_while_others_may_help(const std::function<device::Progress()>& drive);
};

// What a call needs before it can start.
enum class Need : std::uint8_t {
  nothing,     // works without a device and after a fault
  initialized, // needs a device, but works after a fault
  device       // needs one that has not failed
};

// How long it waits for the calls of other threads.
enum class Wait : std::uint8_t { any, at_end }; // Runtime::lock_at_end

// Begins an API call: false (and *status) when it cannot go ahead, as in a signal's handler that came within another of
// the same thread. The lock is held when it returns true.
bool begin_call(Need need, cudaError_t* status, Wait wait = Wait::any);
// Ends it.
void leave_call();
// The same, and notes the error for cudaGetLastError.
cudaError_t end_call(cudaError_t status);
cudaError_t exception_status() noexcept; // of the exception being handled
// Of the calling thread.
cudaError_t last_error(bool reset) noexcept;

template <class Body>
cudaError_t enter(const char* api, DefaultStream null_stream, Need need, Body&& body) noexcept {
  cudaError_t status = cudaSuccess;
  if (!begin_call(need, &status)) return status;
  try {
    Call call(api, null_stream);
    if (need != Need::nothing) call.runtime.runtime_used = call.thread.uses_runtime = true;
    status = body(call);
    if (status == cudaErrorNotSupported && !call.refusal_noted) call.refused();
  } catch (...) {
    status = exception_status();
  }
  return end_call(status);
}

} // namespace deadheat::embedded

// An entry point is written once, with its body:
//   DEADHEAT_API(cudaGetDevice, device, (int* ordinal), (ordinal)) { ... uses call ... }
// (name, what it needs, parameters, the same as arguments). One with a default stream is exported a second time, under
// the name that --default-stream per-thread gives it: DEADHEAT_STREAM_API(cudaMemcpyAsync, _ptsz, device, ...).
// The driver's entry points use the bodies, too (driver.h).
#define DEADHEAT_VISIBLE __attribute__((visibility("default")))
#define DEADHEAT_AND_CALL(...) [[maybe_unused]] ::deadheat::embedded::Call& call __VA_OPT__(, ) __VA_ARGS__
#define DEADHEAT_WITH_CALL(...) call __VA_OPT__(, ) __VA_ARGS__
#define DEADHEAT_EXPORT(name, exported, stream, need, parameters, arguments)                          \
  extern "C" DEADHEAT_VISIBLE cudaError_t exported parameters {                                       \
    return ::deadheat::embedded::enter(                                                               \
        #name, ::deadheat::embedded::DefaultStream::stream, ::deadheat::embedded::Need::need,         \
        [&](::deadheat::embedded::Call& call) { return name##_body(DEADHEAT_WITH_CALL arguments); }); \
  }
#define DEADHEAT_API(name, need, parameters, arguments)            \
  cudaError_t name##_body(DEADHEAT_AND_CALL parameters);           \
  DEADHEAT_EXPORT(name, name, legacy, need, parameters, arguments) \
  cudaError_t name##_body(DEADHEAT_AND_CALL parameters)
#define DEADHEAT_STREAM_API(name, suffix, need, parameters, arguments)         \
  cudaError_t name##_body(DEADHEAT_AND_CALL parameters);                       \
  DEADHEAT_EXPORT(name, name, legacy, need, parameters, arguments)             \
  DEADHEAT_EXPORT(name, name##suffix, per_thread, need, parameters, arguments) \
  cudaError_t name##_body(DEADHEAT_AND_CALL parameters)
