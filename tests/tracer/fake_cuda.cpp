// A stand-in for libcuda.so.1 that does nothing but tell CUPTI's subscriber of the calls it gets, as the driver does:
// enough for what the preload library does in a process, without a GPU. cuInit loads CUDA_INJECTION64_PATH.
//
// Thread-safety: as the driver's; there is no state but the subscriber and counters.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "tests/tracer/callbacks.h"

namespace {

std::atomic<std::uint64_t> next_address{0x7f0000000000}, opened{0};

}  // namespace

EXPORT CUresult cuInit(unsigned) {
  fake::inject();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetDevice(CUdevice* device) { return *device = 0, CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetCurrent(CUcontext* context) { return *context = fake::context, CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  return std::strncpy(name, "No GPU", std::size_t(size)), CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) { return *value = 9, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) { return *bytes = 1 << 30, CUDA_SUCCESS; }
// Memory that cuMemAlloc_v2 did not give is the process's.
EXPORT CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) { return CUDA_ERROR_INVALID_VALUE; }
// All kernels take (pointer, int); that of the handle 0x200 a structure of the two; that of 0x300 as much as there is
// room for (CUDA C++ Programming Guide, "Kernel Function Parameters"): a structure of 32 744 bytes, an int and a
// pointer.
EXPORT CUresult cuFuncGetParamInfo(CUfunction f, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  struct Parameter {
    std::size_t offset, bytes;
  };
  static const std::vector<Parameter> usual{{0, 8}, {8, 4}}, structure{{0, 16}},
      large{{0, 32744}, {32744, 4}, {32752, 8}};
  const auto number = reinterpret_cast<std::uintptr_t>(f);
  const auto& all = number == 0x200 ? structure : number == 0x300 ? large : usual;
  if (index >= all.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = all[index].offset;
  *bytes = all[index].bytes;
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
  return CALL(cuMemFree_v2, nullptr, p, {
    if (fake::capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; // by whichever thread (cuStreamBeginCapture)
    std::uint64_t end = p.dptr + 512; // what is small, and the last there is, is handed out again
    next_address.compare_exchange_strong(end, p.dptr);
    return CUDA_SUCCESS;
  });
}
// Nothing is allocated where nothing is asked for.
EXPORT CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream stream) {
  cuMemAllocAsync_params p{address, bytes, stream};
  return CALL(cuMemAllocAsync, nullptr, p, {
    *p.dptr = p.bytesize ? next_address.fetch_add((p.bytesize + 511) / 512 * 512) : 0;
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  cuMemFreeAsync_params p{address, stream};
  return CALL(cuMemFreeAsync, nullptr, p, {
    std::uint64_t end = p.dptr + 512; // as cuMemFree_v2
    next_address.compare_exchange_strong(end, p.dptr);
    return CUDA_SUCCESS;
  });
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
  return CALL(cuStreamSynchronize, nullptr, p, {
    fake::runs_functions(p.hStream);
    return CUDA_SUCCESS;
  });
}
// Kernels are numbers; every one is called _Z4worki. Grids of 0 fail.
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra) {
  cuLaunchKernel_params p{f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra};
  return CALL(cuLaunchKernel, "_Z4worki", p, {
    if (p.gridDimX) fake::capture(p);
    return p.gridDimX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// What happens while a copy's call waits, if anything. A copy to nowhere fails.
namespace {
void (*while_copying)() = nullptr;
}
EXPORT void fake_while_copying(void (*happens)()) { while_copying = happens; }
EXPORT CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  cuMemcpyDtoH_v2_params p{to, from, bytes};
  return CALL(cuMemcpyDtoH_v2, nullptr, p, {
    if (while_copying) while_copying();
    return p.dstHost ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// Functions are numbers, too, and never the same.
EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  static std::atomic<std::uintptr_t> next{0x10000000};
  cuModuleLoadData_params p{module, image};
  return CALL(cuModuleLoadData, nullptr, p, {
    *p.module = reinterpret_cast<CUmodule>(next.fetch_add(16));
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  static std::atomic<std::uintptr_t> next{0x20000000};
  cuModuleGetFunction_params p{function, module, name};
  return CALL(cuModuleGetFunction, nullptr, p, {
    *p.hfunc = reinterpret_cast<CUfunction>(next.fetch_add(16));
    return CUDA_SUCCESS;
  });
}

// ---- calls whose parameters are all there is to them

#define NOTHING(name, parameters, ...)                                \
  EXPORT CUresult name parameters {                                   \
    name##_params p{__VA_ARGS__};                                     \
    return CALL(name, nullptr, p, { return (void)p, CUDA_SUCCESS; }); \
  }
NOTHING(cuModuleUnload, (CUmodule module), module)
NOTHING(cuMemsetD32Async, (CUdeviceptr to, unsigned value, std::size_t count, CUstream stream), to, value, count,
        stream)
NOTHING(cuMemcpyBatchAsync,
        (CUdeviceptr * to, CUdeviceptr* from, std::size_t* bytes, std::size_t count, CUmemcpyAttributes* attributes,
         std::size_t* indices, std::size_t attribute_count, std::size_t* failed, CUstream stream),
        to, from, bytes, count, attributes, indices, attribute_count, failed, stream)
NOTHING(cuMemcpyBatchAsync_v2,
        (CUdeviceptr * to, CUdeviceptr* from, std::size_t* bytes, std::size_t count, CUmemcpyAttributes* attributes,
         std::size_t* indices, std::size_t attribute_count, CUstream stream),
        to, from, bytes, count, attributes, indices, attribute_count, stream)
NOTHING(cuMemcpy3DBatchAsync_v2,
        (std::size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, unsigned long long flags, CUstream stream), count,
        operations, flags, stream)
NOTHING(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER* copy, CUstream stream), copy, stream)
NOTHING(cuMemcpyDtoA_v2, (CUarray to, std::size_t offset, CUdeviceptr from, std::size_t bytes), to, offset, from, bytes)
NOTHING(cuMemBatchDecompressAsync,
        (CUmemDecompressParams * parameters, std::size_t count, unsigned flags, std::size_t* failed, CUstream stream),
        parameters, count, flags, failed, stream)
NOTHING(cuStreamWriteValue32_v2, (CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags), stream, at, value,
        flags)
NOTHING(cuStreamWaitValue32_v2, (CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags), stream, at, value,
        flags)
NOTHING(cuStreamBatchMemOp_v2, (CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags),
        stream, count, operations, flags)
NOTHING(cuIpcGetEventHandle, (CUipcEventHandle * handle, CUevent event), handle, event)
EXPORT CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  cuIpcOpenEventHandle_params p{event, handle};
  return CALL(cuIpcOpenEventHandle, nullptr, p, {
    *p.phEvent = reinterpret_cast<CUevent>(0x30);
    return CUDA_SUCCESS;
  });
}
// Of memory that was opened.
EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  if (address != opened) return CUDA_ERROR_NOT_FOUND;
  *base = address;
  *bytes = 4096;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  cuIpcOpenMemHandle_v2_params p{address, handle, flags};
  return CALL(cuIpcOpenMemHandle_v2, nullptr, p, {
    *p.pdptr = opened = next_address.fetch_add(4096);
    return CUDA_SUCCESS;
  });
}
NOTHING(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream), to, from, bytes,
        stream)
NOTHING(cuEventRecord, (CUevent event, CUstream stream), event, stream)
NOTHING(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), stream, event, flags)
NOTHING(cuEventElapsedTime_v2, (float* milliseconds, CUevent start, CUevent end), milliseconds, start, end)
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** parameters, void** extra) {
  cuLaunchKernelEx_params p{config, f, parameters, extra};
  return CALL(cuLaunchKernelEx, "_Z4worki", p, { return (void)p, CUDA_SUCCESS; });
}
