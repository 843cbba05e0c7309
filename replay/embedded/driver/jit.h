// Options that the driver's compiler and linker are given (Driver API, CUjit_option). The compiler here has no use for
// most; logs and times are written as documented.
//
// Thread-safety: none; Runtime::lock.
#pragma once

#include <chrono>
#include <string>

#include "replay/embedded/driver/driver.h"

namespace deadheat::embedded {

// Outlives no call but cuLinkCreate's, whose buffers must be valid until the linker is destroyed.
class JitOptions {
 public:
  JitOptions() = default;
  JitOptions(unsigned count, const CUjit_option* options, void** values);
  // The sizes become the bytes that were written.
  void finish(const std::string& error) const;

 private:
  void write(CUjit_option buffer, CUjit_option size, const std::string& text) const;
  unsigned count_ = 0;
  const CUjit_option* options_ = nullptr;
  void** values_ = nullptr;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

} // namespace deadheat::embedded
