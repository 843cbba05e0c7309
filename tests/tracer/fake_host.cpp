// Page-locked memory, and waits, of the stand-in for libcuda.so.1 that does nothing: copies copy nothing, but what is
// downloaded is sevens, at once; host functions run when their stream is waited for.
//
// Thread-safety: as the driver's.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/tracer/callbacks.h"

namespace {

std::mutex lock;
std::map<void*, std::size_t>& sizes = *new std::map<void*, std::size_t>;
std::map<CUstream, std::vector<std::pair<CUhostFn, void*>>>& functions =
    *new std::map<CUstream, std::vector<std::pair<CUhostFn, void*>>>;

void* host_memory(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::lock_guard hold(lock);
  sizes[at] = bytes;
  return at;
}

} // namespace

void fake::runs_functions(CUstream stream) {
  std::vector<std::pair<CUhostFn, void*>> due;
  {
    std::lock_guard hold(lock);
    due.swap(functions[stream]);
  }
  for (const auto& [function, data] : due) function(data);
}

EXPORT CUresult cuMemHostAlloc(void** at, std::size_t bytes, unsigned flags) {
  cuMemHostAlloc_params p{at, bytes, flags};
  return CALL(cuMemHostAlloc, nullptr, p, {
    *p.pp = host_memory(p.bytesize);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemFreeHost(void* at) {
  cuMemFreeHost_params p{at};
  return CALL(cuMemFreeHost, nullptr, p, {
    std::lock_guard hold(lock);
    munmap(p.p, sizes[p.p]);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  cuLaunchHostFunc_params p{stream, function, data};
  return CALL(cuLaunchHostFunc, nullptr, p, {
    std::lock_guard hold(lock);
    functions[p.hStream].push_back({p.fn, p.userData});
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  cuMemcpyDtoHAsync_v2_params p{to, from, bytes, stream};
  return CALL(cuMemcpyDtoHAsync_v2, nullptr, p, {
    std::memset(p.dstHost, 7, p.ByteCount);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuKernelGetParamInfo(CUkernel, std::size_t, std::size_t*, std::size_t*) {
  return CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuCtxSynchronize() {
  char none = 0;
  return CALL(cuCtxSynchronize, nullptr, none, { return CUDA_SUCCESS; });
}

#define NOTHING(name, parameters, ...)                                \
  EXPORT CUresult name parameters {                                   \
    name##_params p{__VA_ARGS__};                                     \
    return CALL(name, nullptr, p, { return (void)p, CUDA_SUCCESS; }); \
  }
NOTHING(cuMemHostRegister_v2, (void* at, std::size_t bytes, unsigned flags), at, bytes, flags)
NOTHING(cuMemHostUnregister, (void* at), at)
NOTHING(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream), to, from, bytes,
        stream)
NOTHING(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* plane, CUstream stream), plane, stream)
NOTHING(cuEventSynchronize, (CUevent event), event)
NOTHING(cuEventQuery, (CUevent event), event)
NOTHING(cuStreamQuery, (CUstream stream), stream)
