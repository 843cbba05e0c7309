// NVRTC and nvJitLink in the job's process (NVRTC 3, nvJitLink 3): what of their functions goes through the library, so
// that the PTX of the machine code that they hand out is known (made_code.h). Of NVRTC's programs source lines are
// asked for, too (--generate-line-info, which changes no instruction).
//
// Callers look these functions up (lookups.cpp); who is linked with NVRTC finds the library's before NVRTC's own.
//
// Thread-safety: from any thread.
#pragma once

namespace deadheat::cupti {

using Lookup = void* (*)(void* library, const char* name); // dlsym

// Before anything dearer is done.
bool may_be_wrapped(const char* name) noexcept;
// What the caller is given in place of `real`, which `lookup` found by that name in the library; `real` itself where
// it is none of those functions. No memory is asked for, and no lock is taken.
void* wrapped(void* real, const char* name, void* library, Lookup lookup) noexcept;
// dlsym as it was before the library came.
Lookup plain_lookup() noexcept;

} // namespace deadheat::cupti
