// Initialization and contexts (Driver API, "Initialization", "Primary Context Management", "Context Management"). The
// last context gone, all that was made in contexts is, as by cudaDeviceReset.
#include <algorithm>

#include "replay/embedded/driver/driver.h"
#include "replay/embedded/graph.h"

namespace deadheat::embedded {

Context& primary_context(Runtime& runtime) {
  if (runtime.contexts.empty()) {
    runtime.contexts.push_back(std::make_unique<Context>());
    runtime.contexts.back()->id = 1;
  }
  return *runtime.contexts.front();
}

// The first call of the runtime makes the primary context current where there is none (Driver API, "Interactions with
// the CUDA Runtime API"), and retains it for good.
Context* current_context(Call& call) {
  if (!call.thread.contexts.empty()) return call.thread.contexts.back();
  if (!call.thread.uses_runtime) return nullptr;
  Context& primary = primary_context(call.runtime);
  if (!primary.alive()) ++primary.retained;
  return &primary;
}

} // namespace deadheat::embedded

using namespace deadheat::embedded;

DEADHEAT_BODY(cudaDeviceReset, ());
DEADHEAT_BODY(cudaDeviceSynchronize, ());
DEADHEAT_BODY(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags));
DEADHEAT_BODY(cudaDeviceGetStreamPriorityRange, (int* least, int* greatest));
DEADHEAT_BODY(cudaDeviceGetLimit, (size_t* value, cudaLimit limit));
DEADHEAT_BODY(cudaDeviceSetLimit, (cudaLimit limit, size_t value));

namespace {

constexpr unsigned known_flags = CU_CTX_FLAGS_MASK;

CUcontext handle_of(Context* context) { return reinterpret_cast<CUcontext>(context); }

Context* context_of(Call& call, CUcontext handle) {
  for (const auto& context : call.runtime.contexts) {
    if (handle_of(context.get()) == handle) return context.get();
  }
  return nullptr;
}

// A handle that must be alive; null means the thread's.
cudaError_t find_context(Call& call, CUcontext handle, Context** context) {
  *context = handle ? context_of(call, handle) : current_context(call);
  if (!*context) return cudaErrorDeviceUninitialized;
  return (*context)->alive() ? cudaSuccess : cudaErrorContextIsDestroyed;
}

cudaError_t create(Call& call, CUcontext* result, unsigned flags, CUdevice device) {
  if (!result || (flags & ~known_flags)) return cudaErrorInvalidValue;
  if (device != 0) return cudaErrorInvalidDevice;
  primary_context(call.runtime);
  auto made = std::make_unique<Context>();
  made->id = call.runtime.contexts.size() + 1;
  made->flags = flags;
  made->retained = 1;
  *result = handle_of(made.get());
  call.thread.contexts.push_back(made.get());
  call.runtime.contexts.push_back(std::move(made));
  return cudaSuccess;
}

bool any_alive(const Runtime& runtime) {
  return runtime.runtime_used || std::any_of(runtime.contexts.begin(), runtime.contexts.end(),
                                             [](const auto& context) { return context->alive(); });
}

// What is done when a context ends: its work is waited for, and nothing outlives the last one.
cudaError_t ended(Call& call) {
  if (call.runtime.sticky != cudaSuccess) return cudaSuccess;
  return any_alive(call.runtime) ? call.wait(deadheat::trace::HostWait::Kind::device) : cudaDeviceReset_body(call);
}

} // namespace

DEADHEAT_DRIVER(cuInit, nothing, (unsigned flags), (flags)) {
  if (flags) return cudaErrorInvalidValue;
  if (call.runtime.options.device != "embedded") return call.runtime.need_device(); // says why there is none
  call.runtime.driver_ready = true;
  return cudaSuccess;
}

// ---- The primary context

DEADHEAT_DRIVER(cuDevicePrimaryCtxRetain, initialized, (CUcontext * result, CUdevice device), (result, device)) {
  if (!result) return cudaErrorInvalidValue;
  if (device != 0) return cudaErrorInvalidDevice;
  Context& primary = primary_context(call.runtime);
  ++primary.retained;
  *result = handle_of(&primary);
  return cudaSuccess;
}

static cudaError_t release_primary(Call& call, CUdevice device) {
  if (device != 0) return cudaErrorInvalidDevice;
  Context& primary = primary_context(call.runtime);
  if (!primary.alive()) return cudaErrorDeviceUninitialized;
  const bool last = --primary.retained == 0;
  return last ? ended(call) : cudaSuccess;
}
DEADHEAT_DRIVER(cuDevicePrimaryCtxRelease, initialized, (CUdevice device), (device)) {
  return release_primary(call, device);
}
DEADHEAT_DRIVER(cuDevicePrimaryCtxRelease_v2, initialized, (CUdevice device), (device)) {
  return release_primary(call, device);
}

static cudaError_t reset_primary(Call& call, CUdevice device) {
  if (device != 0) return cudaErrorInvalidDevice;
  const bool others = std::any_of(call.runtime.contexts.begin(), call.runtime.contexts.end(), [&](const auto& context) {
    return context != call.runtime.contexts.front() && context->alive();
  });
  return others ? call.wait(deadheat::trace::HostWait::Kind::device) : cudaDeviceReset_body(call);
}
DEADHEAT_DRIVER(cuDevicePrimaryCtxReset, initialized, (CUdevice device), (device)) {
  return reset_primary(call, device);
}
DEADHEAT_DRIVER(cuDevicePrimaryCtxReset_v2, initialized, (CUdevice device), (device)) {
  return reset_primary(call, device);
}

static cudaError_t set_primary_flags(Call& call, CUdevice device, unsigned flags) {
  if (device != 0) return cudaErrorInvalidDevice;
  if (flags & ~known_flags) return cudaErrorInvalidValue;
  primary_context(call.runtime).flags = flags;
  return cudaSuccess;
}
DEADHEAT_DRIVER(cuDevicePrimaryCtxSetFlags, initialized, (CUdevice device, unsigned flags), (device, flags)) {
  return set_primary_flags(call, device, flags);
}
DEADHEAT_DRIVER(cuDevicePrimaryCtxSetFlags_v2, initialized, (CUdevice device, unsigned flags), (device, flags)) {
  return set_primary_flags(call, device, flags);
}

DEADHEAT_DRIVER(cuDevicePrimaryCtxGetState, initialized, (CUdevice device, unsigned* flags, int* active),
                (device, flags, active)) {
  if (device != 0) return cudaErrorInvalidDevice;
  if (!flags || !active) return cudaErrorInvalidValue;
  *flags = primary_context(call.runtime).flags;
  *active = primary_context(call.runtime).alive() || call.runtime.runtime_used;
  return cudaSuccess;
}

// ---- Others

DEADHEAT_DRIVER(cuCtxCreate_v2, initialized, (CUcontext * result, unsigned flags, CUdevice device),
                (result, flags, device)) {
  return create(call, result, flags, device);
}

DEADHEAT_DRIVER(cuCtxCreate_v3, initialized,
                (CUcontext * result, CUexecAffinityParam* list, int count, unsigned flags, CUdevice device),
                (result, list, count, flags, device)) {
  return count ? refuse(call, "an execution affinity") : create(call, result, flags, device);
}

DEADHEAT_DRIVER(cuCtxCreate_v4, initialized,
                (CUcontext * result, CUctxCreateParams* parameters, unsigned flags, CUdevice device),
                (result, parameters, flags, device)) {
  if (parameters && parameters->numExecAffinityParams) return refuse(call, "an execution affinity");
  if (parameters && parameters->cigParams) return refuse(call, "sharing with a graphics context");
  return create(call, result, flags, device);
}

DEADHEAT_DRIVER(cuCtxDestroy_v2, initialized, (CUcontext handle), (handle)) {
  Context* context = handle ? context_of(call, handle) : nullptr;
  if (!context || !context->alive() || context == &primary_context(call.runtime)) return cudaErrorDeviceUninitialized;
  if (!call.thread.contexts.empty() && call.thread.contexts.back() == context) call.thread.contexts.pop_back();
  context->retained = 0;
  return ended(call);
}

DEADHEAT_DRIVER(cuCtxPushCurrent_v2, initialized, (CUcontext handle), (handle)) {
  Context* context = nullptr;
  if (!handle) return cudaErrorInvalidValue;
  const cudaError_t status = find_context(call, handle, &context);
  if (status == cudaSuccess) call.thread.contexts.push_back(context);
  return status;
}

DEADHEAT_DRIVER(cuCtxPopCurrent_v2, initialized, (CUcontext * result), (result)) {
  Context* current = current_context(call);
  if (!current) return cudaErrorDeviceUninitialized;
  if (result) *result = handle_of(current);
  if (call.thread.contexts.empty())
    call.thread.uses_runtime = false;
  else
    call.thread.contexts.pop_back();
  return cudaSuccess;
}

// In the place of the thread's topmost one.
DEADHEAT_DRIVER(cuCtxSetCurrent, initialized, (CUcontext handle), (handle)) {
  Context* context = nullptr;
  const cudaError_t status = handle ? find_context(call, handle, &context) : cudaSuccess;
  if (status != cudaSuccess) return status;
  call.thread.uses_runtime = false;
  if (!call.thread.contexts.empty()) call.thread.contexts.pop_back();
  if (context) call.thread.contexts.push_back(context);
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuCtxGetCurrent, initialized, (CUcontext * result), (result)) {
  if (!result) return cudaErrorInvalidValue;
  *result = handle_of(current_context(call));
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuCtxGetDevice, managed, (CUdevice * device), (device)) {
  if (!device) return cudaErrorInvalidValue;
  *device = 0;
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuCtxGetDevice_v2, initialized, (CUdevice * device, CUcontext handle), (device, handle)) {
  Context* context = nullptr;
  if (!device) return cudaErrorInvalidValue;
  const cudaError_t status = find_context(call, handle, &context);
  if (status == cudaSuccess) *device = 0;
  return status;
}

DEADHEAT_DRIVER(cuCtxGetFlags, managed, (unsigned* flags), (flags)) {
  if (!flags) return cudaErrorInvalidValue;
  *flags = current_context(call)->flags;
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuCtxSetFlags, managed, (unsigned flags), (flags)) {
  if (flags & ~known_flags) return cudaErrorInvalidValue;
  current_context(call)->flags = flags;
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuCtxGetId, initialized, (CUcontext handle, unsigned long long* id), (handle, id)) {
  Context* context = nullptr;
  if (!id) return cudaErrorInvalidValue;
  const cudaError_t status = find_context(call, handle, &context);
  if (status == cudaSuccess) *id = context->id;
  return status;
}

DEADHEAT_DRIVER(cuCtxGetApiVersion, initialized, (CUcontext handle, unsigned* version), (handle, version)) {
  Context* context = nullptr;
  if (!version) return cudaErrorInvalidValue;
  const cudaError_t status = find_context(call, handle, &context);
  if (status == cudaSuccess) *version = 3020; // of contexts since that version
  return status;
}

DEADHEAT_DRIVER(cuCtxSynchronize, context, (), ()) { return cudaDeviceSynchronize_body(call); }

DEADHEAT_DRIVER(cuCtxSynchronize_v2, initialized, (CUcontext handle), (handle)) {
  Context* context = nullptr;
  const cudaError_t status = find_context(call, handle, &context);
  if (status != cudaSuccess) return status;
  return call.runtime.sticky == cudaSuccess ? cudaDeviceSynchronize_body(call) : call.runtime.sticky;
}

DEADHEAT_DRIVER(cuCtxSetLimit, context, (CUlimit limit, size_t value), (limit, value)) {
  return cudaDeviceSetLimit_body(call, cudaLimit(limit), value);
}
DEADHEAT_DRIVER(cuCtxGetLimit, context, (size_t* value, CUlimit limit), (value, limit)) {
  return cudaDeviceGetLimit_body(call, value, cudaLimit(limit));
}

DEADHEAT_DRIVER(cuCtxGetCacheConfig, managed, (CUfunc_cache * config), (config)) {
  if (!config) return cudaErrorInvalidValue;
  *config = CUfunc_cache(call.runtime.cache_config);
  return cudaSuccess;
}
DEADHEAT_DRIVER(cuCtxSetCacheConfig, managed, (CUfunc_cache config), (config)) {
  call.runtime.cache_config = cudaFuncCache(config);
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuCtxGetSharedMemConfig, managed, (CUsharedconfig * config), (config)) {
  if (!config) return cudaErrorInvalidValue;
  *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return cudaSuccess;
}
DEADHEAT_DRIVER(cuCtxSetSharedMemConfig, managed, (CUsharedconfig config), (config)) { return cudaSuccess; }

DEADHEAT_DRIVER(cuCtxGetStreamPriorityRange, managed, (int* least, int* greatest), (least, greatest)) {
  return cudaDeviceGetStreamPriorityRange_body(call, least, greatest);
}

DEADHEAT_DRIVER(cuCtxResetPersistingL2Cache, managed, (), ()) { return cudaSuccess; }
