// Error logs and notifications (Runtime API, "Error Log Management Functions", "Device Management"). The embedded
// device says what it has to say on standard error, a line each; the log that these calls read stays empty, and nothing
// that one can be notified of happens.
#include <cstdio>
#include <set>

#include "replay/embedded/entry.h"

using namespace deadheat::embedded;

namespace {

std::uintptr_t next_handle = 1;
std::set<std::uintptr_t>& handles() {
  static auto* all = new std::set<std::uintptr_t>;
  return *all;
}

template <class Handle>
cudaError_t add(Handle* result) {
  *result = reinterpret_cast<Handle>(next_handle);
  handles().insert(next_handle++);
  return cudaSuccess;
}
template <class Handle>
cudaError_t remove(Handle handle) {
  return handles().erase(reinterpret_cast<std::uintptr_t>(handle)) ? cudaSuccess : cudaErrorInvalidValue;
}

} // namespace

DEADHEAT_API(cudaLogsRegisterCallback, nothing,
             (cudaLogsCallback_t function, void* data, cudaLogsCallbackHandle* result), (function, data, result)) {
  return function && result ? add(result) : cudaErrorInvalidValue;
}

DEADHEAT_API(cudaLogsUnregisterCallback, nothing, (cudaLogsCallbackHandle handle), (handle)) { return remove(handle); }

DEADHEAT_API(cudaLogsCurrent, nothing, (cudaLogIterator * iterator, unsigned flags), (iterator, flags)) {
  if (!iterator || flags) return cudaErrorInvalidValue;
  *iterator = 0;
  return cudaSuccess;
}

DEADHEAT_API(cudaLogsDumpToFile, nothing, (cudaLogIterator * iterator, const char* path, unsigned flags),
             (iterator, path, flags)) {
  if (!path || flags) return cudaErrorInvalidValue;
  std::FILE* file = std::fopen(path, "w");
  if (!file) return cudaErrorInvalidValue;
  return std::fclose(file) == 0 ? cudaSuccess : cudaErrorOperatingSystem;
}

DEADHEAT_API(cudaLogsDumpToMemory, nothing, (cudaLogIterator * iterator, char* buffer, size_t* size, unsigned flags),
             (iterator, buffer, size, flags)) {
  if (!buffer || !size || *size == 0 || flags) return cudaErrorInvalidValue;
  buffer[0] = 0;
  *size = 0;
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceRegisterAsyncNotification, nothing,
             (int ordinal, cudaAsyncCallback function, void* data, cudaAsyncCallbackHandle_t* result),
             (ordinal, function, data, result)) {
  if (ordinal != 0) return cudaErrorInvalidDevice;
  return function && result ? add(result) : cudaErrorInvalidValue;
}

DEADHEAT_API(cudaDeviceUnregisterAsyncNotification, nothing, (int ordinal, cudaAsyncCallbackHandle_t handle),
             (ordinal, handle)) {
  return ordinal == 0 ? remove(handle) : cudaErrorInvalidDevice;
}
