#include "replay/embedded/driver/driver.h"

namespace deadheat::embedded {

CUresult driver_error(cudaError_t status) noexcept {
  switch (status) {
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidPitchValue:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidHostPointer:
    case cudaErrorInvalidDevicePointer: return CUDA_ERROR_INVALID_VALUE;
    case cudaErrorInvalidSymbol:
    case cudaErrorInvalidDeviceFunction: return CUDA_ERROR_NOT_FOUND;
    default: return CUresult(status); // CUDA_ERROR_… and cudaError… have the same numbers (driver_types.h)
  }
}

// The runtime's own beginning notes errors for cudaGetLastError, which tells nothing of driver calls.
CUresult begin_driver_call(DriverNeed need) noexcept {
  cudaError_t status = cudaSuccess;
  if (!begin_call(Need::nothing, &status)) return driver_error(status);
  Runtime& state = runtime();
  CUresult result = CUDA_SUCCESS;
  try {
    if (need != DriverNeed::nothing) {
      state.fault_seen();
      if (!state.driver_ready && !state.device) result = CUDA_ERROR_NOT_INITIALIZED; // the runtime's calls initialize
      if (result == CUDA_SUCCESS) result = driver_error(state.need_device());
      if (result == CUDA_SUCCESS && need == DriverNeed::context) result = driver_error(state.sticky);
    }
  } catch (...) {
    result = driver_error(exception_status());
  }
  if (result != CUDA_SUCCESS) leave_call();
  return result;
}

CUresult end_driver_call(cudaError_t status, cudaError_t last_error) noexcept {
  thread_state().last_error = last_error;
  leave_call();
  return driver_error(status);
}

cudaError_t check_context(Call& call, DriverNeed need) {
  if (need != DriverNeed::managed && need != DriverNeed::context) return cudaSuccess;
  const Context* current = current_context(call);
  if (!current) return cudaErrorDeviceUninitialized; // CUDA_ERROR_INVALID_CONTEXT
  return current->alive() ? cudaSuccess : cudaErrorContextIsDestroyed;
}

cudaError_t refuse(const Call& call, const char* what) {
  say_once(std::string(call.api) + ": " + what + " is not supported by the embedded device");
  return cudaErrorNotSupported;
}

} // namespace deadheat::embedded

// ---- Error codes as names and texts (Driver API, "Error Handling")

namespace {

struct ErrorName {
  CUresult code;
  const char* name;
};
constexpr ErrorName error_names[] = {
#define X(code) {code, #code},
#include "replay/embedded/driver/error_names.def"
#undef X
};

const ErrorName* find(CUresult code) {
  for (const ErrorName& entry : error_names) {
    if (entry.code == code) return &entry;
  }
  return nullptr;
}

} // namespace

extern "C" DEADHEAT_VISIBLE CUresult CUDAAPI cuGetErrorName(CUresult error, const char** name) {
  const ErrorName* entry = find(error);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = entry ? entry->name : nullptr;
  return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

extern "C" DEADHEAT_VISIBLE CUresult CUDAAPI cuGetErrorString(CUresult error, const char** text) {
  const ErrorName* entry = find(error);
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = entry ? cudaGetErrorString(cudaError_t(error)) : nullptr;
  return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Called by unsupported.cpp, which cannot see CUDA's types: a CUresult.
namespace deadheat::embedded {
int driver_not_supported(const char* name) noexcept;
int driver_not_supported(const char* name) noexcept {
  return enter_driver(name, DefaultStream::legacy, DriverNeed::nothing, [](Call& call) {
    say_once(std::string(call.api) + " is not supported by the embedded device");
    return cudaErrorNotSupported;
  });
}
} // namespace deadheat::embedded
