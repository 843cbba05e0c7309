// What stand-ins for libcuda.so.1 share: they tell CUPTI's subscriber (fake_cupti.cpp) of the calls they get, as the
// driver does (callbacks.cpp: what it subscribes by).
//
// Thread-safety: as the driver's; the subscriber is set before anything is watched.
#pragma once

#include <cuda.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <dlfcn.h>
#include <generated_cuda_meta.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace fake {

inline CUpti_CallbackFunc subscriber = nullptr;
inline bool enabled[2048] = {};
inline const CUcontext context = reinterpret_cast<CUcontext>(std::uintptr_t(16));

// Launches that succeeded, for activities: their calls' correlation ids, and the kernels' names.
struct Launched {
  std::uint32_t correlation = 0;
  std::string name;
};
inline std::mutex& launched_lock = *new std::mutex;
inline std::vector<Launched>& launched = *new std::vector<Launched>;
inline std::atomic<bool> keeps_launches{false};
inline std::atomic<std::uint32_t> last_correlation{0};

// Calls the subscriber before and after, if it wants this call; it may change the parameters before.
template <typename Params, typename Body>
CUresult call(CUpti_CallbackId id, const char* name, const char* symbol, Params& params, Body&& body) {
  CUpti_CallbackData data{};
  std::uint64_t correlation = 0;
  CUresult result = CUDA_SUCCESS;
  data.callbackSite = CUPTI_API_ENTER;
  data.functionName = name;
  data.functionParams = &params;
  data.symbolName = symbol;
  data.context = context;
  data.correlationData = &correlation;
  data.correlationId = ++last_correlation;
  const bool watched = subscriber && enabled[id];
  if (watched) subscriber(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  result = body();
  data.callbackSite = CUPTI_API_EXIT;
  data.functionReturnValue = &result;
  if (watched) subscriber(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  if (symbol && result == CUDA_SUCCESS && keeps_launches) {
    std::lock_guard hold(launched_lock);
    launched.push_back({data.correlationId, symbol});
  }
  return result;
}

// Of a stream that is being captured: the launch becomes a node (fake_graphs.cpp).
void capture(const cuLaunchKernel_params& launch);
bool capturing();
// The stream is waited for: its host functions run (fake_host.cpp).
void runs_functions(CUstream stream);

// cuInit loads what CUDA_INJECTION64_PATH names.
inline void inject() {
  if (const char* path = std::getenv("CUDA_INJECTION64_PATH")) {
    if (void* library = dlopen(path, RTLD_NOW)) {
      if (void* start = dlsym(library, "InitializeInjection")) reinterpret_cast<int (*)()>(start)();
    }
  }
}

}  // namespace fake

#define CALL(name, symbol, params, ...) \
  fake::call(CUPTI_DRIVER_TRACE_CBID_##name, #name, symbol, params, [&]() -> CUresult __VA_ARGS__)
