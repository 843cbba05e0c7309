#include "tracer/cupti/compilers.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/cupti/made_code.h"

extern "C" int deadheat_nvrtc_cubin(void* program, char* cubin) noexcept;

namespace deadheat::cupti {

namespace {

using namespace std::string_view_literals;
using Program = void*; // nvrtcProgram
using Link = void*; // nvJitLinkHandle
constexpr int success = 0; // of both

// nvJitLinkInputType
enum : int { input_cubin = 1, input_ptx = 2, input_lto_ir = 3, input_library = 6 };

struct Nvrtc {
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_size)(Program, std::size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;

  explicit operator bool() const { return compile && cubin_size && cubin && ptx_size && ptx; }
};
struct JitLink {
  int (*create)(Link*, std::uint32_t, const char**) = nullptr;
  int (*data)(Link, int, const void*, std::size_t, const char*) = nullptr;
  int (*file)(Link, int, const char*) = nullptr;
  int (*complete)(Link) = nullptr;
  int (*cubin)(Link, void*) = nullptr;
  int (*ptx_size)(Link, std::size_t*) = nullptr;
  int (*ptx)(Link, char*) = nullptr;
  int (*destroy)(Link*) = nullptr;

  explicit operator bool() const { return create && data && file && complete && cubin && ptx_size && ptx && destroy; }
};

template <typename Function>
void set(Function*& to, void* function) {
  to = reinterpret_cast<Function*>(function);
}

Nvrtc nvrtc_of(void* library, Lookup lookup) {
  Nvrtc all;
  set(all.compile, lookup(library, "nvrtcCompileProgram"));
  set(all.cubin_size, lookup(library, "nvrtcGetCUBINSize"));
  set(all.cubin, lookup(library, "nvrtcGetCUBIN"));
  set(all.ptx_size, lookup(library, "nvrtcGetPTXSize"));
  set(all.ptx, lookup(library, "nvrtcGetPTX"));
  return all;
}
JitLink jit_link_of(void* library, Lookup lookup) {
  JitLink all;
  set(all.create, lookup(library, "nvJitLinkCreate"));
  set(all.data, lookup(library, "nvJitLinkAddData"));
  set(all.file, lookup(library, "nvJitLinkAddFile"));
  set(all.complete, lookup(library, "nvJitLinkComplete"));
  set(all.cubin, lookup(library, "nvJitLinkGetLinkedCubin"));
  set(all.ptx_size, lookup(library, "nvJitLinkGetLinkedPtxSize"));
  set(all.ptx, lookup(library, "nvJitLinkGetLinkedPtx"));
  set(all.destroy, lookup(library, "nvJitLinkDestroy"));
  return all;
}

// ---- what programs are compiled with

std::mutex registers_lock;
std::map<Program, unsigned>& registers() { // of a thread at most, as a program was compiled last
  static auto& all = *new std::map<Program, unsigned>;
  return all;
}

std::vector<const char*> given(std::int64_t count, const char* const* options) {
  if (!options || count <= 0) return {};
  std::vector<const char*> all(options, options + count);
  if (std::find(all.begin(), all.end(), nullptr) != all.end()) throw std::invalid_argument("no option");
  return all;
}

// NVRTC 3.1, "Supported Compile Options": --maxrregcount=N, -maxrregcount=N; of nvJitLink the second.
unsigned max_registers(const std::vector<const char*>& options) {
  unsigned most = 0;
  for (std::string_view option : options) {
    if (option.starts_with("--")) option.remove_prefix(1);
    constexpr std::string_view name = "-maxrregcount=";
    if (option.starts_with(name)) most = unsigned(std::strtoul(option.data() + name.size(), nullptr, 10));
  }
  return most;
}

bool has_lines(const std::vector<const char*>& options) {
  for (const std::string_view option : options) {
    for (const std::string_view other : {"-lineinfo"sv, "--generate-line-info"sv, "-G"sv, "--device-debug"sv}) {
      if (option == other) return true;
    }
  }
  return false;
}

int compile(const Nvrtc& real, Program program, int count, const char* const* options) noexcept {
  try {
    std::vector<const char*> all = given(count, options);
    {
      std::lock_guard hold(registers_lock);
      registers()[program] = max_registers(all);
    }
    if (!has_lines(all)) all.push_back("--generate-line-info");
    return real.compile(program, int(all.size()), all.data());
  } catch (...) {
    return real.compile(program, count, options);
  }
}

int hand_out(const Nvrtc& real, Program program, char* cubin) noexcept {
  const int status = real.cubin(program, cubin);
  std::size_t bytes = 0, length = 0;
  if (status != success || real.cubin_size(program, &bytes) != success || bytes < 64 ||
      real.ptx_size(program, &length) != success || length < 2)
    return status;
  try {
    DeviceCode code{.text = std::string(length, '\0'), .origin = "compiled by NVRTC"};
    if (real.ptx(program, code.text.data()) != success) return status;
    code.text.resize(std::strlen(code.text.c_str()));
    {
      std::lock_guard hold(registers_lock);
      if (const auto at = registers().find(program); at != registers().end()) code.max_registers = at->second;
    }
    keep_made_code(cubin, std::move(code));
  } catch (...) {
  }
  return status;
}

// ---- nvJitLink

// Of a link with LTO IR, from which PTX comes only as that is optimized: what it takes to have it made once more, as
// PTX (nvJitLink 4.2, -lto -ptx). Of a link without it there is none.
struct LtoLink {
  std::vector<std::string> options;
  std::vector<std::pair<std::string, std::string>> inputs; // LTO IR and its name
};
std::mutex lto_lock;
std::map<Link, LtoLink>& lto_links() {
  static auto& all = *new std::map<Link, LtoLink>;
  return all;
}

LinkerInput kind_of(int type) {
  switch (type) {
    case input_ptx: return LinkerInput::ptx;
    case input_cubin: return LinkerInput::machine_code;
    case input_library: return LinkerInput::library;
    default: return LinkerInput::other;
  }
}

std::string ptx_of(const JitLink& real, const LtoLink& of) {
  std::vector<const char*> options;
  for (const std::string& option : of.options) options.push_back(option.c_str());
  options.push_back("-ptx");
  Link link = nullptr;
  if (real.create(&link, std::uint32_t(options.size()), options.data()) != success) return {};
  bool made = true;
  for (const auto& [bytes, name] : of.inputs)
    made = made && real.data(link, input_lto_ir, bytes.data(), bytes.size(), name.c_str()) == success;
  std::size_t length = 0;
  std::string text;
  if (made && real.complete(link) == success && real.ptx_size(link, &length) == success && length > 1) {
    text.resize(length);
    if (real.ptx(link, text.data()) != success) text.clear();
  }
  real.destroy(&link);
  return text;
}

int create(const JitLink& real, Link* link, std::uint32_t count, const char** options) noexcept {
  const int status = real.create(link, count, options);
  if (status != success || !link) return status;
  try {
    const std::vector<const char*> all = given(count, options);
    linker_begins(*link, max_registers(all));
    std::lock_guard hold(lto_lock);
    lto_links().erase(*link);
    if (std::find(all.begin(), all.end(), "-lto"sv) != all.end())
      lto_links()[*link].options.assign(all.begin(), all.end());
  } catch (...) {
  }
  return status;
}

int give(const JitLink& real, Link link, int type, const void* data, std::size_t bytes, const char* name) noexcept {
  const int status = real.data(link, type, data, bytes, name);
  if (status != success) return status;
  const std::string_view input(static_cast<const char*>(data), bytes);
  try {
    std::lock_guard hold(lto_lock);
    const auto at = type == input_lto_ir ? lto_links().find(link) : lto_links().end();
    if (at != lto_links().end()) {
      at->second.inputs.emplace_back(input, name ? name : "");
      return status;
    }
  } catch (...) {
  }
  linker_given(link, kind_of(type), input);
  return status;
}

int give_file(const JitLink& real, Link link, int type, const char* path) noexcept {
  const int status = real.file(link, type, path);
  if (status == success) linker_given_file(link, kind_of(type), path);
  return status;
}

int hand_out(const JitLink& real, Link link, void* cubin) noexcept {
  const int status = real.cubin(link, cubin);
  if (status != success) return status;
  try {
    LtoLink lto;
    {
      std::lock_guard hold(lto_lock);
      if (const auto at = lto_links().find(link); at != lto_links().end()) lto.inputs.swap(at->second.inputs);
      if (!lto.inputs.empty()) lto.options = lto_links()[link].options;
    }
    if (!lto.inputs.empty()) {
      const std::string text = ptx_of(real, lto);
      linker_given(link, text.empty() ? LinkerInput::other : LinkerInput::ptx, text);
    }
  } catch (...) {
    linker_given(link, LinkerInput::other, {});
  }
  linker_made(link, cubin);
  return status;
}

int destroy(const JitLink& real, Link* link) noexcept {
  if (link) {
    linker_ends(*link);
    std::lock_guard hold(lto_lock);
    lto_links().erase(*link);
  }
  return real.destroy(link);
}

// ---- whose functions

// Of the first library of its kind in which one of them was looked up. Written once, before it is told of.
template <typename Real>
struct LookedUp {
  std::atomic<bool> taken{false};
  std::atomic<bool> there{false};
  Real real;
};
constinit LookedUp<Nvrtc> nvrtc;
constinit LookedUp<JitLink> jit_link;

int compile_looked_up(Program program, int count, const char* const* options) noexcept {
  return compile(nvrtc.real, program, count, options);
}
int cubin_looked_up(Program program, char* cubin) noexcept { return hand_out(nvrtc.real, program, cubin); }
int create_looked_up(Link* link, std::uint32_t count, const char** options) noexcept {
  return create(jit_link.real, link, count, options);
}
int data_looked_up(Link link, int type, const void* data, std::size_t bytes, const char* name) noexcept {
  return give(jit_link.real, link, type, data, bytes, name);
}
int file_looked_up(Link link, int type, const char* path) noexcept {
  return give_file(jit_link.real, link, type, path);
}
int linked_cubin_looked_up(Link link, void* cubin) noexcept { return hand_out(jit_link.real, link, cubin); }
int destroy_looked_up(Link* link) noexcept { return destroy(jit_link.real, link); }

// The functions of the first library of its kind; null: they are not all there, or another thread looks them up now.
template <typename Real>
const Real* all_of(LookedUp<Real>& of, void* library, Lookup lookup, Real (*look_up_all)(void*, Lookup)) {
  if (!of.taken.exchange(true)) {
    of.real = look_up_all(library, lookup);
    of.there.store(static_cast<bool>(of.real), std::memory_order_release);
  }
  return of.there.load(std::memory_order_acquire) ? &of.real : nullptr;
}

// ---- callers that are linked with NVRTC

// Of the library that who calls from there was linked with: found anew each time, since each library may have its own.
Nvrtc linked_nvrtc(const void* caller) noexcept {
  const Nvrtc next = nvrtc_of(RTLD_NEXT, plain_lookup());
  Dl_info info{};
  if (next || !dladdr(caller, &info) || !info.dli_fname) return next;
  // A library that was opened for itself alone (RTLD_LOCAL) has NVRTC to itself, or within it.
  void* const own = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (!own) return next;
  const Nvrtc found = nvrtc_of(own, plain_lookup());
  dlclose(own);
  return found.cubin == &deadheat_nvrtc_cubin ? next : found;
}
constexpr int internal_error = 11; // NVRTC_ERROR_INTERNAL_ERROR

} // namespace

bool may_be_wrapped(const char* name) noexcept {
  return name && name[0] == 'n' && name[1] == 'v' &&
         (std::strncmp(name, "nvrtc", 5) == 0 || std::strncmp(name, "nvJitLink", 9) == 0);
}

void* wrapped(void* real, const char* name, void* library, Lookup lookup) noexcept {
  const auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
  // Another library's function, or one that is the library's already, stays as it is.
  const auto replaced = [&](auto* of_library, auto* own) {
    return real == reinterpret_cast<void*>(of_library) ? reinterpret_cast<void*>(own) : real;
  };
  if (is("nvrtcCompileProgram") || is("nvrtcGetCUBIN")) {
    const Nvrtc* const all = all_of(nvrtc, library, lookup, nvrtc_of);
    if (!all) return real;
    return is("nvrtcGetCUBIN") ? replaced(all->cubin, &cubin_looked_up) : replaced(all->compile, &compile_looked_up);
  }
  if (std::strncmp(name, "nvJitLink", 9) != 0) return real;
  const JitLink* const all = all_of(jit_link, library, lookup, jit_link_of);
  if (!all) return real;
  if (is("nvJitLinkCreate")) return replaced(all->create, &create_looked_up);
  if (is("nvJitLinkAddData")) return replaced(all->data, &data_looked_up);
  if (is("nvJitLinkAddFile")) return replaced(all->file, &file_looked_up);
  if (is("nvJitLinkGetLinkedCubin")) return replaced(all->cubin, &linked_cubin_looked_up);
  if (is("nvJitLinkDestroy")) return replaced(all->destroy, &destroy_looked_up);
  return real;
}

} // namespace deadheat::cupti

extern "C" {
// Not by these names, which may mean somebody else's functions here.
__attribute__((visibility("hidden"), used)) int deadheat_nvrtc_compile(void* program, int count,
                                                                       const char* const* options) noexcept {
  using namespace deadheat::cupti;
  const Nvrtc real = linked_nvrtc(__builtin_return_address(0));
  return real ? compile(real, program, count, options) : internal_error;
}
__attribute__((visibility("hidden"), used)) int deadheat_nvrtc_cubin(void* program, char* cubin) noexcept {
  using namespace deadheat::cupti;
  const Nvrtc real = linked_nvrtc(__builtin_return_address(0));
  return real ? hand_out(real, program, cubin) : internal_error;
}
__attribute__((visibility("default"), alias("deadheat_nvrtc_compile"))) int nvrtcCompileProgram(
    void* program, int count, const char* const* options) noexcept;
__attribute__((visibility("default"), alias("deadheat_nvrtc_cubin"))) int nvrtcGetCUBIN(void* program,
                                                                                        char* cubin) noexcept;
}
