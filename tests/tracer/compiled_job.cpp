// A job that compiles its kernel and loads the machine code, over the embedded device, which cannot run that: only what
// the preload library puts in its place. The kernel has a race: it turns a block's numbers round without a barrier.
//
//     compiled_job HOW NVRTC NVJITLINK USER
//
// HOW: looked_up     functions of NVRTC are looked up with dlsym
//      other         of another library of the same kind (USER) they are looked up first
//      default       they are looked up among what all see first, as cuda.bindings does; there they are not
//      default_global NVRTC is opened for all, and they are looked up there
//      linked        USER, a library that is linked with NVRTC, is opened for itself alone
//      table         USER, opened likewise, hands NVRTC's functions on, as PyTorch's libcaffe2_nvrtc does
//      global        NVRTC is opened for all before
//      jit_link      NVRTC's PTX is linked by nvJitLink
//      jit_link_code NVRTC's machine code is
//      jit_link_lto  NVRTC's intermediate code is
//      driver        NVRTC's PTX is linked by the driver
//      library       together with a library of which nobody knows the PTX: the driver must refuse what comes out
// The other words are files. Says "done".
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "tests/tracer/driver_check.h"

namespace {

constexpr const char* source = R"(extern "C" __global__ void turn(int* out) {
  __shared__ int numbers[64];
  numbers[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = numbers[63 - threadIdx.x];
}
)";

void expect(bool it_is, const char* what) {
  if (it_is) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

void* open(const char* path, int how = RTLD_LOCAL) {
  void* library = dlopen(path, RTLD_NOW | how);
  expect(library, path);
  return library;
}

template <typename Function>
Function* look_up(void* library, const char* name) {
  dlerror();
  void* found = dlsym(library, name);
  expect(found && !dlerror(), name);
  return reinterpret_cast<Function*>(found);
}

// `kind`: CUBIN, PTX or LTOIR. `nvrtc` finds functions.
template <typename Find>
std::string compiled_with(Find&& nvrtc, const std::string& kind) {
  void* program = nullptr;
  const auto create =
      reinterpret_cast<int (*)(void**, const char*, const char*, int, const char* const*, const char* const*)>(
          nvrtc("nvrtcCreateProgram"));
  expect(create(&program, source, "turned.cu", 0, nullptr, nullptr) == 0, "a program");
  const char* const options[] = {"-arch=sm_90", "-maxrregcount=40", "-dlto"};
  const auto compile = reinterpret_cast<int (*)(void*, int, const char* const*)>(nvrtc("nvrtcCompileProgram"));
  expect(compile(program, kind == "LTOIR" ? 3 : 2, options) == 0, "compiled");
  std::size_t bytes = 0;
  reinterpret_cast<int (*)(void*, std::size_t*)>(nvrtc(("nvrtcGet" + kind + "Size").c_str()))(program, &bytes);
  std::string code(bytes, '\0');
  const auto hand_out = reinterpret_cast<int (*)(void*, char*)>(nvrtc(("nvrtcGet" + kind).c_str()));
  expect(hand_out(program, code.data()) == 0, "code");
  return code;
}
std::string compiled(void* nvrtc, const std::string& kind) {
  return compiled_with([&](const char* name) { return reinterpret_cast<void*>(look_up<void()>(nvrtc, name)); }, kind);
}

// `type`: nvJitLinkInputType.
std::string jit_linked(void* library, const std::string& input, int type) {
  void* link = nullptr;
  const char* options[] = {"-arch=sm_90", "-maxrregcount=40", "-lto"};
  expect(look_up<int(void**, std::uint32_t, const char**)>(library, "nvJitLinkCreate")(&link, type == 3 ? 3 : 2,
                                                                                       options) == 0,
         "a link");
  expect(look_up<int(void*, int, const void*, std::size_t, const char*)>(library, "nvJitLinkAddData")(
             link, type, input.data(), input.size(), "turned") == 0,
         "data");
  expect(look_up<int(void*)>(library, "nvJitLinkComplete")(link) == 0, "linked");
  std::size_t bytes = 0;
  look_up<int(void*, std::size_t*)>(library, "nvJitLinkGetLinkedCubinSize")(link, &bytes);
  std::string code(bytes, '\0');
  expect(look_up<int(void*, void*)>(library, "nvJitLinkGetLinkedCubin")(link, code.data()) == 0, "code");
  look_up<int(void**)>(library, "nvJitLinkDestroy")(&link);
  return code;
}

std::string driver_linked(const std::string& ptx, const char* library) {
  CUlinkState link = nullptr;
  CHECK(cuLinkCreate_v2(0, nullptr, nullptr, &link));
  CHECK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, const_cast<char*>(ptx.data()), ptx.size(), "turned", 0, nullptr,
                         nullptr));
  if (library) CHECK(cuLinkAddFile_v2(link, CU_JIT_INPUT_LIBRARY, library, 0, nullptr, nullptr));
  void* code = nullptr;
  std::size_t bytes = 0;
  CHECK(cuLinkComplete(link, &code, &bytes));
  std::string copy(static_cast<const char*>(code), bytes);
  CHECK(cuLinkDestroy(link));
  return copy;
}

} // namespace

int main(int count, char** words) {
  if (count != 5) return 2;
  const std::string how = words[1];
  const auto linked = [&](bool ptx) {
    return look_up<std::string(const char*, bool)>(open(words[4]), "machine_code")(source, ptx);
  };
  CHECK(cuInit(0));
  std::string code;
  if (how == "looked_up") {
    code = compiled(open(words[2]), "CUBIN");
  } else if (how == "other") {
    dlsym(open(words[4]), "nvrtcCompileProgram");
    code = compiled(open(words[2]), "CUBIN");
  } else if (how == "default") {
    expect(!dlsym(RTLD_DEFAULT, "nvrtcCompileProgram") && dlerror(), "no NVRTC is among what all see");
    code = compiled(open(words[2]), "CUBIN");
  } else if (how == "default_global") {
    open(words[2], RTLD_GLOBAL);
    code = compiled(RTLD_DEFAULT, "CUBIN");
  } else if (how == "linked") {
    code = linked(false);
  } else if (how == "table") {
    code = compiled_with(look_up<void*(const char*)>(open(words[4]), "nvrtc_function"), "CUBIN");
  } else if (how == "global") {
    open(words[2], RTLD_GLOBAL);
    code = linked(false);
  } else if (how == "jit_link" || how == "jit_link_code") {
    code = jit_linked(open(words[3]), linked(how == "jit_link"), how == "jit_link" ? 2 : 1);
  } else if (how == "jit_link_lto") {
    code = jit_linked(open(words[3]), compiled(open(words[2]), "LTOIR"), 3);
  } else {
    code = driver_linked(linked(true), how == "library" ? words[4] : nullptr);
  }
  expect(code.size() > 64 && std::memcmp(code.data(), "\177ELF", 4) == 0, "machine code");
  CUmodule module = nullptr;
  const CUresult loaded = cuModuleLoadData(&module, code.data());
  if (loaded != CUDA_SUCCESS) {
    std::printf("not loaded\ndone\n");
    return 0;
  }
  CUdeviceptr memory = 0;
  CHECK(cuMemAlloc_v2(&memory, 256));
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, module, "turn"));
  void* parameters[] = {&memory};
  CHECK(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK(cuStreamSynchronize(nullptr));
  std::printf("done\n");
}
