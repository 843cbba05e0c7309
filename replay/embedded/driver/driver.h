// The CUDA driver API (Driver API reference manual, CUDA 13.0) over the same state as the runtime: CUDA's handles and
// error numbers are the same in both, so that a program may use streams, events, memory, modules and graphs of either
// in the other. What an entry point does is for most the body of the runtime's (entry.h), under the driver's name.
//
// All contexts share the one device: memory, streams and modules of one can be used in all. What a thread's current one
// is, and that there is one, is followed as the driver does.
//
// Thread-safety and invariants: entry.h.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL // every version of every entry point by its own name
#endif
#include <cuda.h>

#include "deadheat/api_name.h"
#include "replay/embedded/entry.h"

namespace deadheat::embedded {

struct Context {
  std::uint64_t id = 0;
  unsigned flags = 0;
  unsigned retained = 0; // of the primary one: how often; of others 1
  bool alive() const { return retained != 0; }
};
Context& primary_context(Runtime& runtime);
// The thread's; null: none.
Context* current_context(Call& call);

// What a call needs before it can start.
enum class DriverNeed : std::uint8_t {
  nothing, // works without cuInit and after a fault
  initialized, // needs cuInit, and works after a fault
  managed, // the same, and the thread's context
  context // needs a context, and a device that has not failed
};
CUresult begin_driver_call(DriverNeed need) noexcept; // the lock is held when it succeeds
CUresult end_driver_call(cudaError_t status, cudaError_t last_error) noexcept;
CUresult driver_error(cudaError_t status) noexcept; // numbers that only the runtime has become the driver's
cudaError_t check_context(Call& call, DriverNeed need);

template <class Body>
CUresult enter_driver(const char* api, DefaultStream null_stream, DriverNeed need, Body&& body) noexcept {
  const CUresult begun = begin_driver_call(need);
  if (begun != CUDA_SUCCESS) return begun;
  const cudaError_t before = thread_state().last_error;
  cudaError_t status = cudaSuccess;
  try {
    Call call(api, null_stream);
    call.of_driver = true;
    status = check_context(call, need);
    if (status == cudaSuccess) status = body(call);
    if (status == cudaErrorNotSupported && !call.refusal_noted) call.refused();
  } catch (...) {
    status = exception_status();
  }
  return end_driver_call(status, before);
}

inline void* pointer_of(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
inline CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// "deadheat: CALL: WHAT is not supported by the embedded device", once.
cudaError_t refuse(const Call& call, const char* what);

} // namespace deadheat::embedded

// An entry point is written once, with its body, as those of the runtime are (entry.h): DEADHEAT_DRIVER(cuCtxGetId,
// initialized, (parameters), (arguments)) { ... uses call ... }. One with a default stream is exported a second time.
#define DEADHEAT_DRIVER_EXPORT(name, exported, stream, need, parameters, arguments)                          \
  extern "C" DEADHEAT_VISIBLE CUresult CUDAAPI exported parameters {                                         \
    static const std::string& called = *new std::string(::deadheat::plain_api_name(#name));                  \
    return ::deadheat::embedded::enter_driver(                                                               \
        called.c_str(), ::deadheat::embedded::DefaultStream::stream, ::deadheat::embedded::DriverNeed::need, \
        [&](::deadheat::embedded::Call& call) { return name##_driver(DEADHEAT_WITH_CALL arguments); });      \
  }
#define DEADHEAT_DRIVER(name, need, parameters, arguments)                \
  static cudaError_t name##_driver(DEADHEAT_AND_CALL parameters);         \
  DEADHEAT_DRIVER_EXPORT(name, name, legacy, need, parameters, arguments) \
  static cudaError_t name##_driver(DEADHEAT_AND_CALL parameters)
#define DEADHEAT_STREAM_DRIVER(name, suffix, need, parameters, arguments)             \
  static cudaError_t name##_driver(DEADHEAT_AND_CALL parameters);                     \
  DEADHEAT_DRIVER_EXPORT(name, name, legacy, need, parameters, arguments)             \
  DEADHEAT_DRIVER_EXPORT(name, name##suffix, per_thread, need, parameters, arguments) \
  static cudaError_t name##_driver(DEADHEAT_AND_CALL parameters)
// The body of a runtime's entry point, which is defined elsewhere.
#define DEADHEAT_BODY(name, parameters) cudaError_t name##_body(DEADHEAT_AND_CALL parameters)
// An entry point that does what the runtime's does, with the same parameters.
#define DEADHEAT_SAME(name, runtime, parameters, arguments) \
  DEADHEAT_BODY(runtime, parameters);                       \
  DEADHEAT_DRIVER(name, context, parameters, arguments) { return runtime##_body(DEADHEAT_WITH_CALL arguments); }
#define DEADHEAT_STREAM_SAME(name, suffix, runtime, parameters, arguments) \
  DEADHEAT_BODY(runtime, parameters);                                      \
  DEADHEAT_STREAM_DRIVER(name, suffix, context, parameters, arguments) {   \
    return runtime##_body(DEADHEAT_WITH_CALL arguments);                   \
  }
