// The PTX of kernels that Triton made: it keeps NAME.ptx beside NAME.cubin in a folder of its cache, and loads the
// cubin, from memory or, called by PyTorch's compiler, by the file's name.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace deadheat::cupti {

// The bytes of an ELF file in memory, as far as its own tables tell; 0: not to be believed. The pointer must be valid.
std::size_t elf_size(const void* image);
// The PTX beside the file of Triton's cache that holds `cubin`; empty: there is none. `origin` becomes the PTX's path.
std::string triton_ptx(std::string_view cubin, std::string& origin);
// The PTX beside the cubin that is the file `path`; empty: there is none.
std::string ptx_beside(const std::string& path, std::string& origin);

} // namespace deadheat::cupti
