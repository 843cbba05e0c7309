// The CUDA runtime as part of a program or a library: nvcc -cudart static, which is the default.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deadheat::ptx {

// An ELF file that carries the CUDA runtime in itself: it holds the runtime's error names and driver loader, and
// neither needs libcudart.so nor imports __cudaRegisterFatBinary. Stripped or not. False for files that are not ELF or
// cannot be read.
bool links_cudart_statically(const std::string& path);

struct StaticRuntime {
  struct Function {
    std::string name;           // cudaMalloc
    std::uint64_t address = 0;  // as linked
  };
  static constexpr std::uint64_t room = 14;  // bytes of code that are a function's own, at least
  std::vector<Function> functions;  // by address; no two at the same one
  bool of_13 = false;               // the runtime is that of CUDA 13
};

// What of its symbols may be functions of a CUDA runtime, where a file has kernels and their registration. No
// functions: there is no such runtime, it has no symbols (stripped), or the file cannot be read.
StaticRuntime static_runtime(const std::string& path);
StaticRuntime static_runtime_in(std::string_view elf);

} // namespace deadheat::ptx
