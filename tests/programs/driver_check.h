// What the programs of this folder share that use the driver API alone: a context, the module beside the program, error
// checks, and the way results reach standard output. Helpers leave the device idle.
#pragma once

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <unistd.h>

#define CHECK_DRIVER(call) check_driver((call), #call, __FILE__, __LINE__)

inline void check_driver(CUresult status, const char* call, const char* file, int line) {
  if (status == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorString(status, &text);
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, text ? text : "unknown error");
  std::exit(3);
}

// 1 to 101 in a scattered order.
inline std::vector<int> numbers(int count) {
  std::vector<int> values(count);
  for (int i = 0; i < count; ++i) values[i] = (i * 37 + 11) % 101 + 1;
  return values;
}

class Driver {
 public:
  Driver() {
    CHECK_DRIVER(cuInit(0));
    CUdevice device = 0;
    CHECK_DRIVER(cuDeviceGet(&device, 0));
    CUcontext context = nullptr;
    CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
    CHECK_DRIVER(cuCtxSetCurrent(context));
    char path[4096] = {};
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK_DRIVER(cuModuleLoad(&module_, (std::string(path, length > 0 ? length : 0) + ".ptx").c_str()));
  }
  CUfunction function(const char* name) const {
    CUfunction found = nullptr;
    CHECK_DRIVER(cuModuleGetFunction(&found, module_, name));
    return found;
  }
  CUdeviceptr zeros(size_t count) const {
    CUdeviceptr memory = 0;
    CHECK_DRIVER(cuMemAlloc(&memory, count * sizeof(int)));
    CHECK_DRIVER(cuMemsetD32(memory, 0, count));
    CHECK_DRIVER(cuCtxSynchronize());
    return memory;
  }
  CUstream stream() const {
    CUstream made = nullptr;
    CHECK_DRIVER(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
  }
  // As report of check.h.
  void report(CUdeviceptr data, size_t count) const {
    std::vector<int> values(count);
    CHECK_DRIVER(cuCtxSynchronize());
    CHECK_DRIVER(cuMemcpyDtoH(values.data(), data, count * sizeof(int)));
    long long sum = 0;
    for (size_t i = 0; i < count; ++i) sum += (long long)(i % 13 + 1) * values[i];
    std::printf("checksum %lld\n", sum);
  }

 private:
  CUmodule module_ = nullptr;
};
