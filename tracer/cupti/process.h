// What a process can tell about itself, for the trace.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "deadheat/expected.h"

namespace deadheat::cupti {

// A name with %p (process id), %h (host name), %q{VAR} (environment variable) and %% replaced.
Expected<std::string> expand_name(const std::string& name);
std::vector<std::string> command_line();
std::string host_name();
// "cudaMemcpyAsync" of "cudaMemcpyAsync_ptsz_v7000", "cuMemAlloc" of "cuMemAlloc_v2".
std::string plain_name(const char* function);

}  // namespace deadheat::cupti
