// NVRTC in the job's process (NVRTC 3): what is asked of it, and what machine code it hands out is made of.
//
// Thread-safety: from any thread.
#pragma once

#include <cstddef>

#include "tracer/compilers/compilers.h"

namespace deadheat::cupti {

using NvrtcProgram = void*; // nvrtcProgram

// A library's functions; all return an nvrtcResult, 0 for success.
struct Nvrtc {
  int (*compile)(NvrtcProgram, int, const char* const*) = nullptr;
  int (*cubin_size)(NvrtcProgram, std::size_t*) = nullptr;
  int (*cubin)(NvrtcProgram, char*) = nullptr;
  int (*ptx_size)(NvrtcProgram, std::size_t*) = nullptr;
  int (*ptx)(NvrtcProgram, char*) = nullptr;

  explicit operator bool() const { return compile && cubin_size && cubin && ptx_size && ptx; }
  bool operator==(const Nvrtc&) const = default;
};
Nvrtc nvrtc_of(void* library, Lookup lookup) noexcept;

// nvrtcCompileProgram, with lines asked for where that is understood (--generate-line-info changes no instruction).
// Throws what the job's own functions throw that NVRTC calls (nvrtcSetFlowCallback).
int nvrtc_compile(const Nvrtc& real, NvrtcProgram program, int count, const char* const* options);
// nvrtcGetCUBIN; keeps the program's PTX (made_code.h).
int nvrtc_hand_out(const Nvrtc& real, NvrtcProgram program, char* cubin) noexcept;

} // namespace deadheat::cupti
