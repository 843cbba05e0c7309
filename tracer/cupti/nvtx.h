// NVTX: the ranges that the program names, such as "step 12" and "backward" inside it.
//
// NVTX is headers only. At its first call it loads the library that NVTX_INJECTION64_PATH names, and asks its
// InitializeInjectionNvtx2 to put functions into its table (nvtx3/nvtxDetail/nvtxTypes.h): that library is this one.
//
// Thread-safety: ranges that are pushed belong to their thread; nothing here throws.
#pragma once

#include <string>

namespace deadheat::cupti {

// The ranges that the calling thread is in, outermost first: "step 12 / backward"; null: none. Lives for ever.
const std::string* nvtx_ranges();

} // namespace deadheat::cupti
