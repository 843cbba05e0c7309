// Calls that load code, look it up, and unload it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tracer/cupti/handlers.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/recorder.h"
#include "tracer/ptx/instrument.h"

namespace deadheat::cupti {

namespace {

thread_local Code* loading = nullptr; // from the way in to the way out

// Bytes as a file that the driver can open by its name, until the way out.
class MemoryFile {
 public:
  // The name, of this thread's file; null where there is none to be had.
  const char* hold(const std::string& bytes) {
    close();
    descriptor_ = memfd_create("deadheat", MFD_CLOEXEC);
    for (std::size_t at = 0; descriptor_ >= 0 && at < bytes.size();) {
      const ssize_t written = ::write(descriptor_, bytes.data() + at, bytes.size() - at);
      if (written <= 0)
        close();
      else
        at += std::size_t(written);
    }
    if (descriptor_ < 0) return nullptr;
    std::snprintf(name_, sizeof name_, "/proc/self/fd/%d", descriptor_);
    return name_;
  }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_ = -1;
  char name_[32];
};
thread_local MemoryFile loading_file;

void replace(Call& call, const void*& image, const JitOptions& jit, bool anywhere) {
  loading = call.session.modules().replacement(image, jit, anywhere);
  if (loading) image = loading->image.data();
}

void replace(Call& call, const char*& path, const JitOptions& jit, bool anywhere) {
  loading = call.session.modules().replacement_of_file(path, jit, anywhere);
  if (!loading) return;
  if (const char* name = loading_file.hold(loading->image)) {
    path = name;
    return;
  }
  loading = nullptr;
  call.session.incident("opaque", std::string("no file in memory can be had for the instrumented code of ") + path);
}

template <typename Handle>
void tie(Call& call, Handle* handle) {
  if (loading && call.done() && handle) {
    call.session.modules().loaded(*handle, loading);
    // CUPTI gives no time of a launch in whose callback much else is called: buffers are made before.
    if (call.session.activity() && call.context) call.session.recorder().prepare(call.context);
  } else if (loading && !call.done()) {
    call.session.modules().not_loaded(*loading, call.result);
  }
  loading = nullptr;
  loading_file.close();
}

// `what`: the image, or the name of a file.
template <typename What, typename Handle>
void load(Call& call, What& what, Handle* handle, const JitOptions& jit = {}) {
  if (call.exit)
    tie(call, handle);
  else
    replace(call, what, jit, std::is_same_v<Handle, CUlibrary>);
}

// What the program sees of a module or library: its own kernels, without clones.
template <typename Function, typename Owner>
std::vector<Function> without_clones(Owner owner, CUresult (*count_of)(unsigned*, Owner),
                                     CUresult (*list)(Function*, unsigned, Owner),
                                     CUresult (*name_of)(const char**, Function)) {
  unsigned count = 0;
  if (!count_of || !list || !name_of || count_of(&count, owner) != CUDA_SUCCESS) return {};
  std::vector<Function> functions(count);
  if (count && list(functions.data(), count, owner) != CUDA_SUCCESS) return {};
  std::erase_if(functions, [&](Function function) {
    const char* name = nullptr;
    return !function ||
           (name_of(&name, function) == CUDA_SUCCESS && name && std::string_view(name).starts_with(ptx::clone_prefix));
  });
  return functions;
}
std::vector<CUfunction> own_functions(CUmodule module) {
  const Driver& d = driver();
  return without_clones(module, d.cuModuleGetFunctionCount, d.cuModuleEnumerateFunctions, d.cuFuncGetName);
}
std::vector<CUkernel> own_kernels(CUlibrary library) {
  const Driver& d = driver();
  return without_clones(library, d.cuLibraryGetKernelCount, d.cuLibraryEnumerateKernels, d.cuKernelGetName);
}

template <typename Function>
void hand_out(const std::vector<Function>& own, Function* to, unsigned room) {
  for (unsigned i = 0; to && !own.empty() && i < room; ++i) to[i] = i < own.size() ? own[i] : nullptr;
}

} // namespace

void load_module(Call& call, cuModuleLoadData_params& p) { load(call, p.image, p.module); }
void load_module_ex(Call& call, cuModuleLoadDataEx_params& p) {
  load(call, p.image, p.module, jit_options(p.numOptions, p.options, p.optionValues));
}
void load_fat_binary(Call& call, cuModuleLoadFatBinary_params& p) { load(call, p.fatCubin, p.module); }
void load_library(Call& call, cuLibraryLoadData_params& p) {
  load(call, p.code, p.library, jit_options(p.numJitOptions, p.jitOptions, p.jitOptionsValues));
}
void load_module_file(Call& call, cuModuleLoad_params& p) { load(call, p.fname, p.module); }
void load_library_file(Call& call, cuLibraryLoadFromFile_params& p) {
  load(call, p.fileName, p.library, jit_options(p.numJitOptions, p.jitOptions, p.jitOptionsValues));
}
void unload_module(Call& call, cuModuleUnload_params& p) {
  if (!call.exit) call.session.modules().unloaded(p.hmod);
}
void unload_library(Call& call, cuLibraryUnload_params& p) {
  if (!call.exit) call.session.modules().unloaded(p.library);
}
void library_kernel(Call& call, cuLibraryGetKernel_params& p) {
  if (call.done() && p.pKernel) call.session.modules().found(*p.pKernel, p.library, true);
}
void count_functions(Call& call, cuModuleGetFunctionCount_params& p) {
  if (!call.done() || !p.count) return;
  if (const std::size_t own = own_functions(p.mod).size()) *p.count = unsigned(own);
}
void list_functions(Call& call, cuModuleEnumerateFunctions_params& p) {
  if (call.done()) hand_out(own_functions(p.mod), p.functions, p.numFunctions);
}
void count_kernels(Call& call, cuLibraryGetKernelCount_params& p) {
  if (!call.done() || !p.count) return;
  if (const std::size_t own = own_kernels(p.lib).size()) *p.count = unsigned(own);
}
void list_kernels(Call& call, cuLibraryEnumerateKernels_params& p) {
  if (call.done()) hand_out(own_kernels(p.lib), p.kernels, p.numKernels);
}
void module_function(Call& call, cuModuleGetFunction_params& p) {
  if (call.done() && p.hfunc) call.session.modules().found(*p.hfunc, p.hmod, false);
}
void kernel_function(Call& call, cuKernelGetFunction_params& p) {
  if (call.done() && p.pFunc) call.session.modules().same(*p.pFunc, p.kernel);
}

} // namespace deadheat::cupti
