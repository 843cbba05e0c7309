// A block of the kernels' heap (malloc; CUDA programming guide, dynamic global memory allocation) that is in use.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>

namespace deadheat::device {

struct HeapUse {
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t launch = 0, block = 0, thread = 0, module = 0, site = 0; // who took it, and where
};

} // namespace deadheat::device
