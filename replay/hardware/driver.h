// The CUDA driver as a table of functions that dlopen found: deadheat links no CUDA library.
//
// Thread-safety: immutable after open(); the functions are as the driver's.
#pragma once

#include <cuda.h>

#include <string>

#include "deadheat/expected.h"

namespace deadheat::hardware {

struct Driver {
#define DEADHEAT_DRIVER_CALL(name, symbol) decltype(&::name) name = nullptr;
#include "replay/hardware/driver_calls.def"
#undef DEADHEAT_DRIVER_CALL

  // Loads `library` ("libcuda.so.1") and finds every entry point.
  static Expected<Driver> open(const std::string& library);

  // Initializes the driver and makes the first device's primary context current.
  Expected<CUdevice> use_first_device() const;

  std::string text(CUresult result) const;
  // Ok, or "what: the driver's words".
  Expected<void> check(CUresult result, const std::string& what) const;
};

} // namespace deadheat::hardware
