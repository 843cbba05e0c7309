// Machine code that was made in this process, out of PTX that was seen: by NVRTC, by nvJitLink, by the driver's linker.
// What a program then loads is machine code alone; here is what it was made of.
//
// Thread-safety: every function from any thread. None throws: what there is no memory for is forgotten.
#pragma once

#include <string>
#include <string_view>

namespace deadheat::cupti {

struct DeviceCode {
  std::string text; // PTX; empty: there is none that the device takes
  std::string origin; // what it comes from, in words
  unsigned max_registers = 0; // of a thread, as nvcc was told (-maxrregcount); 0: it was not. The least, of several
};

// `machine_code`: an ELF file; `from`: its PTX. Of the same machine code the last counts; the oldest are forgotten when
// all texts together pass 256 MiB.
void keep_made_code(const void* machine_code, DeviceCode from) noexcept;
// No text: it is not known.
DeviceCode made_code(std::string_view machine_code) noexcept;

// Of a linker what it is given, until it has made machine code; `linker` is its handle.
enum class LinkerInput { ptx, machine_code, library, other };
void linker_begins(const void* linker, unsigned max_registers) noexcept; // 0: not limited
void linker_limited(const void* linker, unsigned max_registers) noexcept; // for one of the inputs
void linker_given(const void* linker, LinkerInput kind, std::string_view bytes) noexcept;
void linker_given_file(const void* linker, LinkerInput kind, std::string_view path) noexcept;
// Linking PTX leaves CUDA's device runtime out: code that calls it does not assemble then.
bool is_device_runtime(LinkerInput kind, std::string_view path) noexcept;
void linker_made(const void* linker, const void* machine_code) noexcept;
void linker_ends(const void* linker) noexcept;

} // namespace deadheat::cupti
