// What nvcc makes in a recorded job (torch's load_inline, a build that the job starts) is to hold the PTX of its
// machine code, and source lines. The library is preloaded into nvcc's process as into every other, and adds to the
// flags that nvcc takes from its environment (CUDA Compiler Driver NVCC, "NVCC Environment Variables").
//
// PTX is asked for by the virtual architecture of each machine code, and of no other: code may depend on it
// (__CUDA_ARCH__).
//
// Thread-safety: pure functions, but that expanded_arguments() reads files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace deadheat::cupti {

// The arguments of a run of nvcc, its flags of the environment (null: none) and files of options (--options-file)
// among them.
std::vector<std::string> expanded_arguments(const std::vector<std::string>& arguments, const char* prepended,
                                            const char* appended);

// The flags to be added, separated by spaces: "-gencode arch=compute_90a,code=compute_90a -lineinfo". Of what is one
// file for one architecture (-cubin, -ptx), is kept with the steps between (--keep), is optimized when it is linked, or
// is for architectures that only nvcc knows (-arch=native, all) no PTX is asked for.
std::string flags_to_add(const std::vector<std::string>& expanded);

} // namespace deadheat::cupti
