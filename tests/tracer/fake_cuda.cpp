// A stand-in for libcuda.so.1 that does nothing but tell CUPTI's subscriber of the calls it gets, as the driver does:
// enough for what the preload library does in a process, without a GPU. cuInit loads CUDA_INJECTION64_PATH.
//
// Thread-safety: as the driver's; there is no state but the subscriber and counters.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <dlfcn.h>
#include <generated_cuda_meta.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

CUpti_CallbackFunc subscriber = nullptr;
bool enabled[2048] = {};
std::atomic<std::uint64_t> next_address{0x7f0000000000};

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
  data.context = reinterpret_cast<CUcontext>(std::uintptr_t(16));
  data.correlationData = &correlation;
  const bool watched = subscriber && enabled[id];
  if (watched) subscriber(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  result = body();
  data.callbackSite = CUPTI_API_EXIT;
  data.functionReturnValue = &result;
  if (watched) subscriber(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  return result;
}
#define CALL(name, symbol, params, ...) \
  call(CUPTI_DRIVER_TRACE_CBID_##name, #name, symbol, params, [&]() -> CUresult __VA_ARGS__)

}  // namespace

EXPORT void fake_subscribe(CUpti_CallbackFunc callback) { subscriber = callback; }
EXPORT void fake_enable(CUpti_CallbackId id) { enabled[id] = true; }

EXPORT CUresult cuInit(unsigned) {
  if (const char* path = std::getenv("CUDA_INJECTION64_PATH")) {
    if (void* library = dlopen(path, RTLD_NOW)) {
      if (void* start = dlsym(library, "InitializeInjection")) reinterpret_cast<int (*)()>(start)();
    }
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetDevice(CUdevice* device) { return *device = 0, CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  return *context = reinterpret_cast<CUcontext>(std::uintptr_t(16)), CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  return std::strncpy(name, "No GPU", std::size_t(size)), CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) { return *value = 9, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) { return *bytes = 1 << 30, CUDA_SUCCESS; }
EXPORT CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  return *status = CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS;
}
EXPORT CUresult cuFuncGetParamInfo(CUfunction, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  if (index > 1) return CUDA_ERROR_INVALID_VALUE;  // (pointer, int)
  *offset = 8 * index;
  *bytes = index ? 4 : 8;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  cuMemAlloc_v2_params p{address, bytes};
  return CALL(cuMemAlloc_v2, nullptr, p, {
    *p.dptr = next_address.fetch_add((p.bytesize + 511) / 512 * 512);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  cuMemFree_v2_params p{address};
  return CALL(cuMemFree_v2, nullptr, p, { return CUDA_SUCCESS; });
}
EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  static std::atomic<std::uintptr_t> next{0x1000};
  cuStreamCreate_params p{stream, flags};
  return CALL(cuStreamCreate, nullptr, p, {
    *p.phStream = reinterpret_cast<CUstream>(next.fetch_add(16));
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  cuStreamSynchronize_params p{stream};
  return CALL(cuStreamSynchronize, nullptr, p, { return CUDA_SUCCESS; });
}
// Kernels are numbers; every one is called _Z4worki. Grids of 0 fail.
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra) {
  cuLaunchKernel_params p{f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra};
  return CALL(cuLaunchKernel, "_Z4worki", p, { return p.gridDimX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}
