// nvJitLink in the job's process (nvJitLink 3): what it is given, and what machine code it makes of that.
//
// Thread-safety: from any thread. Nothing throws.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/compilers/compilers.h"

namespace deadheat::cupti {

using JitLinkHandle = void*; // nvJitLinkHandle

// A library's functions; all return an nvJitLinkResult, 0 for success.
struct JitLink {
  int (*create)(JitLinkHandle*, std::uint32_t, const char**) = nullptr;
  int (*data)(JitLinkHandle, int, const void*, std::size_t, const char*) = nullptr;
  int (*file)(JitLinkHandle, int, const char*) = nullptr;
  int (*complete)(JitLinkHandle) = nullptr;
  int (*cubin)(JitLinkHandle, void*) = nullptr;
  int (*ptx_size)(JitLinkHandle, std::size_t*) = nullptr;
  int (*ptx)(JitLinkHandle, char*) = nullptr;
  int (*destroy)(JitLinkHandle*) = nullptr;

  explicit operator bool() const { return create && data && file && complete && cubin && ptx_size && ptx && destroy; }
  bool operator==(const JitLink&) const = default;
};
JitLink jit_link_of(void* library, Lookup lookup) noexcept;

// nvJitLinkCreate, nvJitLinkAddData, nvJitLinkAddFile, nvJitLinkGetLinkedCubin (which keeps the PTX, made_code.h), and
// nvJitLinkDestroy.
int jit_link_create(const JitLink& real, JitLinkHandle* link, std::uint32_t count, const char** options) noexcept;
int jit_link_give(const JitLink& real, JitLinkHandle link, int type, const void* data, std::size_t bytes,
                  const char* name) noexcept;
int jit_link_give_file(const JitLink& real, JitLinkHandle link, int type, const char* path) noexcept;
int jit_link_hand_out(const JitLink& real, JitLinkHandle link, void* cubin) noexcept;
int jit_link_destroy(const JitLink& real, JitLinkHandle* link) noexcept;

} // namespace deadheat::cupti
