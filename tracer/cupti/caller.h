// Which library calls CUDA.
#pragma once

#include <string>

namespace deadheat::cupti {

// The file, as it was loaded, of whose code this thread is in a call of CUDA's: that of the first frame up the stack
// that is of none of this library, CUPTI, the driver and the runtime library. (A runtime that is linked statically is
// the caller's own.) Empty where the stack cannot be walked so far: code without unwind tables is in between.
//
// Takes the dynamic linker's lock: nobody may hold this library's that a library's constructor may need.
std::string library_that_calls();

}  // namespace deadheat::cupti
