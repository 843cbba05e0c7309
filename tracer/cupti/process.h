// Names that a process makes of what it knows about itself, and of CUDA functions.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "deadheat/expected.h"

namespace deadheat::cupti {

// A name with %p (process id), %h (host name), %q{VAR} (environment variable) and %% replaced.
Expected<std::string> expand_name(const std::string& name);
// "cudaMemcpyAsync" of "cudaMemcpyAsync_ptsz_v7000", "cuMemAlloc" of "cuMemAlloc_v2".
std::string plain_name(const char* function);

}  // namespace deadheat::cupti
