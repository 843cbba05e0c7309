#include "replay/hardware/driver.h"

#include <dlfcn.h>

namespace deadheat::hardware {

Expected<Driver> Driver::open(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    return Error{"no GPU driver here: cannot load " + library,
                 {},
                 "replay on a machine with an NVIDIA GPU, or without --device gpu"};
  }
  Driver driver;
#define DEADHEAT_DRIVER_CALL(name, symbol)                                      \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(handle, symbol)); \
  if (!driver.name) return Error{"the GPU driver has no " symbol, library, "a driver of CUDA 12 or later is needed"};
#include "replay/hardware/driver_calls.def"
#undef DEADHEAT_DRIVER_CALL
  return driver;
}

Expected<CUdevice> Driver::use_first_device() const {
  if (CUresult result = cuInit(0); result != CUDA_SUCCESS) {
    return Error{
        "no usable GPU here: " + text(result), {}, "replay on a machine with an NVIDIA GPU, or without --device gpu"};
  }
  int count = 0;
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) {
    return Error{"no GPU here", {}, "replay on a machine with an NVIDIA GPU, or without --device gpu"};
  }
  if (Expected<void> ok = check(cuDeviceGet(&device, 0), "cuDeviceGet"); !ok) return ok.error();
  if (Expected<void> ok = check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain"); !ok) {
    return ok.error();
  }
  if (Expected<void> ok = check(cuCtxSetCurrent(context), "cuCtxSetCurrent"); !ok) return ok.error();
  return device;
}

std::string Driver::text(CUresult result) const {
  const char* words = nullptr;
  if (cuGetErrorString(result, &words) == CUDA_SUCCESS && words) return words;
  return "driver error " + std::to_string(int(result));
}

Expected<void> Driver::check(CUresult result, const std::string& what) const {
  if (result == CUDA_SUCCESS) return {};
  return Error{text(result), what};
}

} // namespace deadheat::hardware
