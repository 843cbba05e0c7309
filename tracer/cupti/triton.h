// The PTX of kernels that Triton made: it keeps NAME.ptx beside NAME.cubin in a folder of its cache, and loads the
// cubin.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

namespace deadheat::cupti {

// The PTX beside the file of Triton's cache that holds the cubin at `image` (an ELF file in memory); empty: there is
// none. `origin` becomes the PTX's path.
std::string triton_ptx(const void* image, std::string& origin);

} // namespace deadheat::cupti
