// The floating-point environment that compiled code needs (engine/abi.h), until the end of a scope. Then the program's
// own is there again, with the exceptions that the program had raised, also where a handler was left by a jump:
// handlers begin with the default environment.
//
// Thread-safety: the environment is the thread's.
#pragma once

#include <xmmintrin.h>

#include <cstdint>

namespace deadheat::device {

class DefaultFloats {
 public:
  DefaultFloats() : mxcsr_(_mm_getcsr()) {
    asm volatile("fnstcw %0" : "=m"(x87_));
    _mm_setcsr(default_mxcsr);
  }
  ~DefaultFloats() {
    asm volatile("fldcw %0" : : "m"(x87_));
    _mm_setcsr(mxcsr_);
  }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
  static constexpr unsigned default_mxcsr = 0x1f80; // round to nearest, no flushing, no traps
  const unsigned mxcsr_;
  std::uint16_t x87_ = 0;
};

} // namespace deadheat::device
