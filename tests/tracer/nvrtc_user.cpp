// A library that is linked with NVRTC: machine code of a source text, and NVRTC's functions for others.
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

extern "C" __attribute__((visibility("default"))) std::string machine_code(const char* source, bool ptx) {
  const auto check = [](nvrtcResult result) {
    if (result == NVRTC_SUCCESS) return;
    std::fprintf(stderr, "nvrtc: %s\n", nvrtcGetErrorString(result));
    std::exit(1);
  };
  nvrtcProgram program;
  check(nvrtcCreateProgram(&program, source, "turned.cu", 0, nullptr, nullptr));
  const char* const options[] = {ptx ? "--gpu-architecture=compute_90" : "--gpu-architecture=sm_90",
                                 "--maxrregcount=40"};
  check(nvrtcCompileProgram(program, 2, options));
  std::size_t bytes = 0;
  check(ptx ? nvrtcGetPTXSize(program, &bytes) : nvrtcGetCUBINSize(program, &bytes));
  std::string code(bytes, '\0');
  check(ptx ? nvrtcGetPTX(program, code.data()) : nvrtcGetCUBIN(program, code.data()));
  check(nvrtcDestroyProgram(&program));
  return code;
}

extern "C" __attribute__((visibility("default"))) void* nvrtc_function(const char* name) {
  static const std::map<std::string, void*> all = {
      {"nvrtcCreateProgram", reinterpret_cast<void*>(&nvrtcCreateProgram)},
      {"nvrtcCompileProgram", reinterpret_cast<void*>(&nvrtcCompileProgram)},
      {"nvrtcGetCUBINSize", reinterpret_cast<void*>(&nvrtcGetCUBINSize)},
      {"nvrtcGetCUBIN", reinterpret_cast<void*>(&nvrtcGetCUBIN)}};
  return all.at(name);
}
