// A library that stands between a job and the driver, preloaded behind the tracer: jobs that are linked with the driver
// find these functions first. They go on to the driver's own, which they look up. calls_between: how many came by.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>

#include "tests/tracer/callbacks.h"

namespace {

std::atomic<unsigned> calls{0};

template <typename Function>
Function look_up(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}

} // namespace

EXPORT unsigned calls_between() { return calls; }

#define BETWEEN(name, parameters, ...)                                 \
  EXPORT CUresult name parameters {                                    \
    static const auto driver = look_up<CUresult(*) parameters>(#name); \
    ++calls;                                                           \
    return driver ? driver(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND;        \
  }
BETWEEN(cuLaunchKernel,
        (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
         CUstream stream, void** parameters, void** extra),
        f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra)
BETWEEN(cuLaunchKernelEx, (const CUlaunchConfig* config, CUfunction f, void** parameters, void** extra), config, f,
        parameters, extra)
BETWEEN(cuEventRecord, (CUevent event, CUstream stream), event, stream)
BETWEEN(cuEventQuery, (CUevent event), event)
BETWEEN(cuStreamQuery, (CUstream stream), stream)
BETWEEN(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), stream, event, flags)
BETWEEN(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream), to, from, bytes, stream)
BETWEEN(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream), to, from, bytes,
        stream)
BETWEEN(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, std::size_t bytes, CUstream stream), to, from, bytes, stream)
BETWEEN(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream), to, from, bytes,
        stream)
BETWEEN(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream), to, value, count,
        stream)
BETWEEN(cuMemsetD32Async, (CUdeviceptr to, unsigned value, std::size_t count, CUstream stream), to, value, count,
        stream)
