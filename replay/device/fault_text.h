// A fault in one line, for people.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "deadheat/memory_model.h"
#include "deadheat/site.h"
#include "deadheat/trace.h"

namespace deadheat::device {

// What is known of the launch that faulted.
struct FaultedLaunch {
  std::string kernel; // demangled
  Dim3 grid, block;
};

// "out of bounds: kernel k(float*) at a.cu:12, block (0,0,0), thread (5,0,0): write of 4 bytes at 0x…". Without a
// launch (a copy, a set) its parts are left out; null site: unknown.
std::string fault_text(const trace::MemoryError& fault, const FaultedLaunch* launch, const Site* site);

} // namespace deadheat::device
