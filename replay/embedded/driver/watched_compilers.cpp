// libcuda.so.1 beside the runtime's library, in which the driver's entry points are: what it adds is that NVRTC and
// nvJitLink are watched (tracer/compilers), so that the PTX of machine code that a program makes and loads is known.
#include <cstdint>
#include <string>

#include "tracer/compilers/made_code.h"
#include "tracer/compilers/triton.h"

// Called by modules.cpp, which looks it up. `bytes` 0: as many as the machine code says itself.
extern "C" __attribute__((visibility("default"))) void deadheat_made_code(const void* image, std::uint64_t bytes,
                                                                          std::string* text) {
  using namespace deadheat::cupti;
  if (bytes == 0) bytes = elf_size(image);
  const std::string_view machine_code(static_cast<const char*>(image), bytes);
  *text = made_code(machine_code).text;
  std::string origin;
  if (text->empty()) *text = triton_ptx(machine_code, origin);
}
