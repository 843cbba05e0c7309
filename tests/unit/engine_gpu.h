// The CUDA driver, by name: what makes the reference tables runs on a GPU, and builds without one.
//
// Thread-safety: one thread.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace deadheat::engine {

inline void* gpu_driver() {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library;
}

// Calls a driver function; ends the process when that fails.
template <typename... T>
void gpu_call(const char* name, T... args) {
  auto* f = gpu_driver() ? reinterpret_cast<int (*)(T...)>(dlsym(gpu_driver(), name)) : nullptr;
  int status = f ? f(args...) : -1;
  if (status == 0) return;
  std::fprintf(stderr, "%s: %d\n", name, status);
  std::exit(1);
}

// Loads PTX into a context of the first device.
inline void* gpu_module(const char* ptx) {
  void *context = nullptr, *module = nullptr;
  int device = 0;
  gpu_call("cuInit", 0u);
  gpu_call("cuDeviceGet", &device, 0);
  gpu_call("cuDevicePrimaryCtxRetain", &context, device);
  gpu_call("cuCtxSetCurrent", context);
  gpu_call("cuModuleLoadData", &module, static_cast<const void*>(ptx));
  return module;
}

}  // namespace deadheat::engine
