// What the code that nvcc generates calls: registration of fat binaries, kernels and variables from constructors, and
// the launch of a kernel by <<<>>> (crt/host_runtime.h of the toolkit has the callers).
#include "replay/embedded/entry.h"
#include "replay/embedded/launch.h"

using namespace deadheat::embedded;

#define DEADHEAT_C extern "C" DEADHEAT_VISIBLE

DEADHEAT_C void** __cudaRegisterFatBinary(void* wrapper) {
  FatBinary* binary = nullptr;
  enter("__cudaRegisterFatBinary", DefaultStream::legacy, Need::nothing, [&](Call& call) {
    binary = call.runtime.modules.add(wrapper);
    return cudaSuccess;
  });
  return reinterpret_cast<void**>(binary);
}

DEADHEAT_C void __cudaRegisterFatBinaryEnd(void**) {}

// An exit handler calls it, for which no process is to wait long; what stays registered then does no harm.
DEADHEAT_C void __cudaUnregisterFatBinary(void** handle) {
  cudaError_t status = cudaSuccess;
  if (!begin_call(Need::nothing, &status, Wait::at_end)) return;
  try {
    Modules& modules = runtime().modules;
    if (modules.is_binary(handle)) modules.remove(reinterpret_cast<FatBinary*>(handle));
  } catch (...) {
    status = exception_status();
  }
  end_call(status);
}

// Runs `body(modules, binary)` for a handle that __cudaRegisterFatBinary gave.
template <class Body>
static void with_binary(const char* api, void** handle, Body&& body) {
  enter(api, DefaultStream::legacy, Need::nothing, [&](Call& call) {
    Modules& modules = call.runtime.modules;
    if (!modules.is_binary(handle)) return cudaErrorInvalidResourceHandle;
    body(modules, reinterpret_cast<FatBinary*>(handle));
    return cudaSuccess;
  });
}

DEADHEAT_C void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*,
                                       dim3*, dim3*, int*) {
  with_binary("__cudaRegisterFunction", handle,
              [&](Modules& modules, FatBinary* binary) { modules.add_function(binary, host, name); });
}

DEADHEAT_C void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t bytes, int, int) {
  with_binary("__cudaRegisterVar", handle,
              [&](Modules& modules, FatBinary* binary) { modules.add_variable(binary, host, name, bytes); });
}

DEADHEAT_C void __cudaRegisterManagedVar(void** handle, void** pointer, char*, const char* name, int, size_t bytes, int,
                                         int) {
  with_binary("__cudaRegisterManagedVar", handle,
              [&](Modules& modules, FatBinary* binary) { modules.add_managed(binary, pointer, name, bytes); });
}

DEADHEAT_C void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}

// The program is about to use a managed variable of the binary. Nonzero: its pointers are set.
DEADHEAT_C char __cudaInitModule(void** handle) {
  const cudaError_t status = enter("__cudaInitModule", DefaultStream::legacy, Need::device, [&](Call& call) {
    Modules& modules = call.runtime.modules;
    if (!modules.is_binary(handle)) return cudaErrorInvalidResourceHandle;
    FatBinary& binary = *reinterpret_cast<FatBinary*>(handle);
    if (!binary.managed.empty()) call.runtime.watch_host_memory();
    return modules.load(binary, call.device());
  });
  return status == cudaSuccess;
}

DEADHEAT_C cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  return enter("__cudaGetKernel", DefaultStream::legacy, Need::nothing, [&](Call& call) {
    Function* function = call.runtime.modules.function(host);
    if (!kernel) return cudaErrorInvalidValue;
    *kernel = reinterpret_cast<cudaKernel_t>(function);
    return function ? cudaSuccess : cudaErrorInvalidDeviceFunction;
  });
}

DEADHEAT_C unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  try {
    thread_state().configurations.push_back({grid, block, shared, stream});
    return 0;
  } catch (...) {
    return 1; // the launch is skipped
  }
}

DEADHEAT_C cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  std::vector<LaunchConfiguration>& configurations = thread_state().configurations;
  if (configurations.empty()) return thread_state().last_error = cudaErrorMissingConfiguration;
  *grid = configurations.back().grid;
  *block = configurations.back().block;
  *shared = configurations.back().shared;
  *static_cast<cudaStream_t*>(stream) = configurations.back().stream;
  configurations.pop_back();
  return cudaSuccess;
}

DEADHEAT_STREAM_API(__cudaLaunchKernel, _ptsz, device,
                    (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream),
                    (kernel, grid, block, arguments, shared, stream)) {
  return launch_kernel(call, kernel, {grid, block, shared, stream}, {}, arguments);
}
