// Functions' attributes, libraries, the linker, and launches with attributes of the stand-in for libcuda.so.1 on the
// embedded device. A CUlibrary is a module, a CUkernel a CUfunction.
//
// Thread-safety: embedded_cuda.h.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <elf.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "tests/embedded_operations.h"
#include "tests/tracer/callbacks.h"
#include "tests/tracer/embedded_cuda.h"
#include "tracer/ptx/instrument.h"

using namespace deadheat;
using embedded::lock;

namespace {

using Key = std::tuple<std::uint32_t, std::string, int>; // module, kernel, attribute
std::map<Key, int>& attributes = *new std::map<Key, int>; // that were set

Key key_of(CUfunction f, CUfunction_attribute attribute) {
  const auto& kernel = *reinterpret_cast<const test::EmbeddedKernel*>(f);
  return {kernel.module, kernel.name, int(attribute)};
}

bool of_clusters(CUfunction_attribute attribute) {
  return attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH ||
         attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT ||
         attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH;
}

std::atomic<int> asked{0};
CUresult get(int* value, CUfunction_attribute attribute, CUfunction f) {
  std::lock_guard hold(lock);
  const auto found = attributes.find(key_of(f, attribute));
  *value = found != attributes.end() ? found->second : of_clusters(attribute) ? 0 : 1024;
  return CUDA_SUCCESS;
}

CUresult set(CUfunction f, CUfunction_attribute attribute, int value) {
  std::lock_guard hold(lock);
  attributes[key_of(f, attribute)] = value;
  return CUDA_SUCCESS;
}

} // namespace

bool embedded::refuses(const char* what) {
  const char* list = std::getenv("EMBEDDED_REFUSES");
  return list && std::strstr(list, what);
}
bool embedded::is_clone(CUfunction f) {
  return reinterpret_cast<const test::EmbeddedKernel*>(f)->name.starts_with(ptx::clone_prefix);
}
bool embedded::cannot_launch(CUfunction f) { return refuses("launches") && is_clone(f); }

void embedded::tell(bool refused, unsigned count, const CUjit_option* options, void** values) {
  constexpr char line[] = "the image is refused";
  char* log = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_WALL_TIME) values[i] = reinterpret_cast<void*>(std::uintptr_t(0x3f800000));
  }
  for (unsigned i = 0; log && i < count; ++i) {
    if (options[i] != CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) continue;
    if (refused && reinterpret_cast<std::uintptr_t>(values[i]) >= sizeof line) std::memcpy(log, line, sizeof line);
    values[i] = reinterpret_cast<void*>(std::uintptr_t(refused ? sizeof line : 0));
  }
}

Dim3 embedded::cluster_of(CUfunction f) {
  int width = 0, height = 0, depth = 0;
  get(&width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, f);
  get(&height, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, f);
  get(&depth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, f);
  if (!width || !height || !depth) return {};
  return {std::uint32_t(width), std::uint32_t(height), std::uint32_t(depth)};
}

EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction f) {
  ++asked;
  return get(value, attribute, f);
}
EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
  cuFuncSetAttribute_params p{f, attribute, value};
  return CALL(cuFuncSetAttribute, nullptr, p, { return set(p.hfunc, p.attrib, p.value); });
}
// A map is what nobody can read, as the driver's is: no kernel here copies by one.
EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                       const cuuint64_t* size, const cuuint64_t* strides, const cuuint32_t* box,
                                       const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                       CUtensorMapFloatOOBfill fill) {
  cuTensorMapEncodeTiled_params p{map, type,  rank,       address, size,      strides,
                                  box, steps, interleave, swizzle, promotion, fill};
  return CALL(cuTensorMapEncodeTiled, nullptr, p, {
    *p.tensorMap = {};
    p.tensorMap->opaque[3] = ~reinterpret_cast<std::uint64_t>(p.globalAddress);
    return CUDA_SUCCESS;
  });
}
// How often anybody asked for an attribute.
EXPORT int embedded_attributes_asked() { return asked; }
EXPORT CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
  ++asked;
  return get(value, attribute, reinterpret_cast<CUfunction>(kernel));
}
EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice) {
  cuKernelSetAttribute_params p{attribute, value, kernel, 0};
  return CALL(cuKernelSetAttribute, nullptr, p,
              { return set(reinterpret_cast<CUfunction>(p.kernel), p.attrib, p.val); });
}
EXPORT CUresult cuStreamGetCtx(CUstream, CUcontext* context) { return *context = fake::context, CUDA_SUCCESS; }
EXPORT CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return cuFuncGetName(name, reinterpret_cast<CUfunction>(kernel));
}
EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  return cuFuncGetParamInfo(reinterpret_cast<CUfunction>(kernel), index, offset, bytes);
}
EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  cuKernelGetFunction_params p{function, kernel};
  return CALL(cuKernelGetFunction, nullptr, p, {
    *p.pFunc = reinterpret_cast<CUfunction>(p.kernel);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit_options, void** jit_values,
                                  unsigned jit_count, CUlibraryOption* options, void** values, unsigned count) {
  cuLibraryLoadData_params p{library, code, jit_options, jit_values, jit_count, options, values, count};
  return CALL(cuLibraryLoadData, nullptr, p,
              { return embedded::load(reinterpret_cast<CUmodule*>(p.library), p.code); });
}
EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  cuLibraryUnload_params p{library};
  return CALL(cuLibraryUnload, nullptr, p, { return CUDA_SUCCESS; });
}
// Code is loaded late, where loading is lazy.
EXPORT CUresult cuFuncLoad(CUfunction f) {
  cuFuncLoad_params p{f};
  return CALL(cuFuncLoad, nullptr, p, {
    const bool clone = reinterpret_cast<const test::EmbeddedKernel*>(p.function)->name.starts_with(ptx::clone_prefix);
    const bool refused =
        clone ? embedded::refuses("clones") : embedded::refuses("kernels") && embedded::has_clones(p.function);
    return refused ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}
EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  cuLibraryGetKernel_params p{kernel, library, name};
  return CALL(cuLibraryGetKernel, nullptr, p, {
    const CUfunction found = embedded::function(reinterpret_cast<CUmodule>(p.library), p.name);
    *p.pKernel = reinterpret_cast<CUkernel>(found);
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
}
// ---- the linker

EXPORT CUresult cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values, CUlinkState* state) {
  cuLinkCreate_v2_params p{count, options, values, state};
  return CALL(cuLinkCreate_v2, nullptr, p, {
    *p.stateOut = reinterpret_cast<CUlinkState>(new std::string);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, std::size_t size, const char* name,
                                 unsigned count, CUjit_option* options, void** values) {
  cuLinkAddData_v2_params p{state, type, data, size, name, count, options, values};
  return CALL(cuLinkAddData_v2, nullptr, p, {
    *reinterpret_cast<std::string*>(p.state) = static_cast<const char*>(p.data);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned count,
                                 CUjit_option* options, void** values) {
  cuLinkAddFile_v2_params p{state, type, path, count, options, values};
  return CALL(cuLinkAddFile_v2, nullptr, p, { return CUDA_SUCCESS; });
}
// PTX, as it was given; where EMBEDDED_LINKER is set machine code, of which nothing can be told and which cannot be
// run.
EXPORT CUresult cuLinkComplete(CUlinkState state, void** image, std::size_t* bytes) {
  cuLinkComplete_params p{state, image, bytes};
  return CALL(cuLinkComplete, nullptr, p, {
    auto& text = *reinterpret_cast<std::string*>(p.state);
    if (std::getenv("EMBEDDED_LINKER")) {
      Elf64_Ehdr header{};
      std::memcpy(header.e_ident, ELFMAG, SELFMAG);
      header.e_ident[EI_CLASS] = ELFCLASS64;
      header.e_ident[EI_DATA] = ELFDATA2LSB;
      header.e_shentsize = sizeof(Elf64_Shdr);
      header.e_entry = std::hash<std::string>()(text); // of other code other bytes
      text.assign(reinterpret_cast<const char*>(&header), sizeof header);
      text.resize(128);
    }
    *p.cubinOut = text.data();
    *p.sizeOut = text.size();
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuLinkDestroy(CUlinkState state) {
  cuLinkDestroy_params p{state};
  return CALL(cuLinkDestroy, nullptr, p, {
    delete reinterpret_cast<std::string*>(p.state);
    return CUDA_SUCCESS;
  });
}

// ---- launches

// Attributes change nothing.
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** parameters, void** extra) {
  cuLaunchKernelEx_params p{config, f, parameters, extra};
  const std::string& name = reinterpret_cast<const test::EmbeddedKernel*>(f)->name;
  return CALL(cuLaunchKernelEx, name.c_str(), p, {
    const CUlaunchConfig& c = *p.config;
    if (embedded::cannot_launch(p.f)) return CUDA_ERROR_OUT_OF_MEMORY;
    return embedded::launch(p.f, {c.gridDimX, c.gridDimY, c.gridDimZ}, {c.blockDimX, c.blockDimY, c.blockDimZ},
                            c.sharedMemBytes, embedded::arguments_of(p.f, p.kernelParams), c.hStream);
  });
}
