// Calls that load code, look it up, and unload it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "tracer/cupti/handlers.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/recorder.h"

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

void replace(Call& call, const void*& image, const JitOptions& jit) {
  loading = call.session.modules().replacement(image, jit);
  if (loading) image = loading->image.data();
}

void replace(Call& call, const char*& path, const JitOptions& jit) {
  loading = call.session.modules().replacement_of_file(path, jit);
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
    replace(call, what, jit);
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
void module_function(Call& call, cuModuleGetFunction_params& p) {
  if (call.done() && p.hfunc) call.session.modules().found(*p.hfunc, p.hmod, false);
}
void kernel_function(Call& call, cuKernelGetFunction_params& p) {
  if (call.done() && p.pFunc) call.session.modules().same(*p.pFunc, p.kernel);
}

} // namespace deadheat::cupti
