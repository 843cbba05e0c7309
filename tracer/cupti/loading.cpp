// Calls that load code, look it up, and unload it.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "deadheat/own_files.h"
#include "tracer/cupti/clones.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/relaxed.h"
#include "tracer/ptx/instrument.h"

namespace deadheat::cupti {

namespace {

// What a call is given besides its code, and writes back (CUDA driver API, CUjit_option: sizes of logs, times): as it
// was on the way in.
class JitValues {
 public:
  void keep(unsigned count, const CUjit_option* options, void** values) {
    values_.clear();
    logs_.clear();
    to_ = options ? values : nullptr;
    if (!to_) return;
    values_.assign(values, values + count);
    keep_log(options, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
    keep_log(options, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  }
  void restore() const {
    for (std::size_t i = 0; i < values_.size(); ++i) to_[i] = values_[i];
    for (const auto& [at, bytes] : logs_) std::memcpy(at, bytes.data(), bytes.size());
  }

 private:
  void keep_log(const CUjit_option* options, CUjit_option log, CUjit_option size) {
    char* at = nullptr;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (options[i] == log) at = static_cast<char*>(values_[i]);
      if (options[i] == size) bytes = std::uint32_t(reinterpret_cast<std::uintptr_t>(values_[i])); // an unsigned int
    }
    if (at && bytes) logs_.emplace_back(at, std::string(at, bytes));
  }
  void** to_ = nullptr;
  std::vector<void*> values_;
  std::vector<std::pair<char*, std::string>> logs_;
};

// From the way in to the way out.
struct Loading {
  Code* code = nullptr;            // null: the call loads what the program gave it
  const void* original = nullptr;  // what that was: the image, or the name of its file
  JitValues jit;
};
thread_local Loading loading;

// Bytes as a file that the driver can open by its name, until the way out.
class MemoryFile {
 public:
  // The name, of this thread's file; null where there is none to be had.
  const char* hold(const std::string& bytes) {
    close();
    const NoFileSizeSignal guard;
    descriptor_ = above_standard(memfd_create("deadheat", MFD_CLOEXEC));
    for (std::size_t at = 0; descriptor_ >= 0 && at < bytes.size();) {
      const ssize_t written = ::write(descriptor_, bytes.data() + at, bytes.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written > 0) {
        at += std::size_t(written);
        continue;
      }
      if (written < 0 && errno == EFBIG) guard.take();
      close();
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
  loading.code = call.session.modules().replacement(image, jit, anywhere);
  if (!loading.code) return;
  loading.original = image;
  image = loading.code->image.data();
}

void replace(Call& call, const char*& path, const JitOptions& jit, bool anywhere) {
  loading.code = call.session.modules().replacement_of_file(path, jit, anywhere);
  if (!loading.code) return;
  if (const char* name = loading_file.hold(loading.code->image)) {
    loading.original = path;
    path = name;
    return;
  }
  loading.code = nullptr;
  call.session.incident("opaque", std::string("no file in memory can be had for the instrumented code of ") + path);
}

void unload(CUmodule module) {
  if (driver().cuModuleUnload) driver().cuModuleUnload(module);
}
void unload(CUlibrary library) {
  if (driver().cuLibraryUnload) driver().cuLibraryUnload(library);
}

// The program's own code, where the driver does not take what was put in its place: the program must not see that.
// `again`: makes the call once more, with what the program gave it.
template <typename What, typename Handle, typename Again>
void load_own(Call& call, What& what, Handle* handle, CUresult why, Again&& again) {
  Modules& modules = call.session.modules();
  const bool loaded = call.done();
  const Handle ours = loaded ? *handle : Handle{};
  what = static_cast<What>(loading.original);
  loading.jit.restore();
  CUresult result = again();
  while (call.makes_room(result)) result = again();
  if (loaded && result != CUDA_SUCCESS) { // nor does it take the program's
    *handle = ours;
    return;
  }
  call.return_instead(result);
  if (result == CUDA_SUCCESS) modules.not_loaded(*loading.code, why);
  if (!loaded) return;
  modules.unloaded(ours);
  const Relaxed relaxed;
  call.session.recorder().let_kernels_end(call.context, Unfinished::while_running);
  unload(ours);
  modules.not_needed(ours, false);
}

template <typename What, typename Handle, typename Again>
void tie(Call& call, What& what, Handle* handle, Again&& again) {
  if (!call.done())
    load_own(call, what, handle, call.result, again);
  else if (handle) {
    const CUresult usable = call.session.modules().loaded(*handle, loading.code);
    if (usable != CUDA_SUCCESS) load_own(call, what, handle, usable, again);
    // CUPTI gives no time of a launch in whose callback much else is called: buffers are made before.
    if (call.session.activity() && call.context) call.session.recorder().prepare(call.context);
  }
  loading.code = nullptr;
  loading_file.close();
}

struct GivenJit {
  unsigned count = 0;
  CUjit_option* options = nullptr;
  void** values = nullptr;
};

// `what`: the image, or the name of a file.
template <typename What, typename Handle, typename Again>
void load(Call& call, What& what, Handle* handle, const GivenJit& jit, Again&& again) {
  if (call.exit) {
    if (loading.code)
      tie(call, what, handle, again);
    else
      call.retry_with_room(again);
    return;
  }
  loading.code = nullptr;
  replace(call, what, jit_options(jit.count, jit.options, jit.values), std::is_same_v<Handle, CUlibrary>);
  if (loading.code) loading.jit.keep(jit.count, jit.options, jit.values);
}

void unloads(Call& call, const void* handle) {
  Modules& modules = call.session.modules();
  if (call.exit)
    modules.not_needed(handle, !call.done());
  else
    modules.unloaded(handle);
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

void load_module(Call& call, cuModuleLoadData_params& p) {
  load(call, p.image, p.module, {}, [&] { return driver().cuModuleLoadData(p.module, p.image); });
}
void load_module_ex(Call& call, cuModuleLoadDataEx_params& p) {
  load(call, p.image, p.module, {p.numOptions, p.options, p.optionValues},
       [&] { return driver().cuModuleLoadDataEx(p.module, p.image, p.numOptions, p.options, p.optionValues); });
}
void load_fat_binary(Call& call, cuModuleLoadFatBinary_params& p) {
  load(call, p.fatCubin, p.module, {}, [&] { return driver().cuModuleLoadFatBinary(p.module, p.fatCubin); });
}
void load_library(Call& call, cuLibraryLoadData_params& p) {
  load(call, p.code, p.library, {p.numJitOptions, p.jitOptions, p.jitOptionsValues}, [&] {
    return driver().cuLibraryLoadData(p.library, p.code, p.jitOptions, p.jitOptionsValues, p.numJitOptions,
                                      p.libraryOptions, p.libraryOptionValues, p.numLibraryOptions);
  });
}
void load_module_file(Call& call, cuModuleLoad_params& p) {
  load(call, p.fname, p.module, {}, [&] { return driver().cuModuleLoad(p.module, p.fname); });
}
void load_library_file(Call& call, cuLibraryLoadFromFile_params& p) {
  load(call, p.fileName, p.library, {p.numJitOptions, p.jitOptions, p.jitOptionsValues}, [&] {
    return driver().cuLibraryLoadFromFile(p.library, p.fileName, p.jitOptions, p.jitOptionsValues, p.numJitOptions,
                                          p.libraryOptions, p.libraryOptionValues, p.numLibraryOptions);
  });
}
void unload_module(Call& call, cuModuleUnload_params& p) { unloads(call, p.hmod); }
void unload_library(Call& call, cuLibraryUnload_params& p) { unloads(call, p.library); }
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
void set_function_attribute(Call& call, cuFuncSetAttribute_params& p) {
  if (call.done()) attribute_set(p.attrib);
}
void set_kernel_attribute(Call& call, cuKernelSetAttribute_params& p) {
  if (call.done()) attribute_set(p.attrib);
}
void kernel_function(Call& call, cuKernelGetFunction_params& p) {
  if (call.done() && p.pFunc) call.session.modules().same(*p.pFunc, p.kernel);
}

} // namespace deadheat::cupti
