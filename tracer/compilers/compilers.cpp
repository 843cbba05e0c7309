#include "tracer/compilers/compilers.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tracer/compilers/jit_link.h"
#include "tracer/compilers/nvrtc.h"

namespace deadheat::cupti {

namespace {

// ---- functions that are looked up

// A process may have several libraries of a kind (PyTorch's own and CUDA's), and open one anew each time (cuDNN): of
// each that functions are looked up in, wrappers of their own, as long as there are any.
constexpr std::size_t most_libraries = 8;

template <typename Real>
class Libraries {
 public:
  // most_libraries: it is none, or there are too many.
  std::size_t place_of(const Real& library) {
    if (!library) return most_libraries;
    for (std::size_t at = 0; at < most_libraries; ++at) {
      State is = states_[at].load(std::memory_order_acquire);
      if (is == State::free && states_[at].compare_exchange_strong(is, State::writing)) {
        all_[at] = library;
        states_[at].store(State::there, std::memory_order_release);
        return at;
      }
      if (is == State::there && all_[at] == library) return at;
    }
    return most_libraries;
  }
  // Of a place that was found.
  const Real& operator[](std::size_t at) const { return all_[at]; }

 private:
  enum class State { free, writing, there };
  std::array<std::atomic<State>, most_libraries> states_{};
  std::array<Real, most_libraries> all_{};
};
constinit Libraries<Nvrtc> nvrtcs;
constinit Libraries<JitLink> jit_links;

template <std::size_t at>
struct Wrapped {
  static int compile(NvrtcProgram program, int count, const char* const* options) {
    return nvrtc_compile(nvrtcs[at], program, count, options);
  }
  static int cubin(NvrtcProgram program, char* cubin) noexcept { return nvrtc_hand_out(nvrtcs[at], program, cubin); }

  static int create(JitLinkHandle* link, std::uint32_t count, const char** options) noexcept {
    return jit_link_create(jit_links[at], link, count, options);
  }
  static int data(JitLinkHandle link, int type, const void* data, std::size_t bytes, const char* name) noexcept {
    return jit_link_give(jit_links[at], link, type, data, bytes, name);
  }
  static int file(JitLinkHandle link, int type, const char* path) noexcept {
    return jit_link_give_file(jit_links[at], link, type, path);
  }
  static int linked_cubin(JitLinkHandle link, void* cubin) noexcept {
    return jit_link_hand_out(jit_links[at], link, cubin);
  }
  static int destroy(JitLinkHandle* link) noexcept { return jit_link_destroy(jit_links[at], link); }
};

// What stands for the functions of the library at each place; what is no wrapper's stays null.
template <std::size_t... at>
constexpr std::array<Nvrtc, most_libraries> nvrtc_wrappers(std::index_sequence<at...>) {
  return {Nvrtc{.compile = &Wrapped<at>::compile, .cubin = &Wrapped<at>::cubin}...};
}
template <std::size_t... at>
constexpr std::array<JitLink, most_libraries> jit_link_wrappers(std::index_sequence<at...>) {
  return {JitLink{.create = &Wrapped<at>::create,
                  .data = &Wrapped<at>::data,
                  .file = &Wrapped<at>::file,
                  .cubin = &Wrapped<at>::linked_cubin,
                  .destroy = &Wrapped<at>::destroy}...};
}
constexpr auto all_places = std::make_index_sequence<most_libraries>();
constexpr auto nvrtc_stands = nvrtc_wrappers(all_places);
constexpr auto jit_link_stands = jit_link_wrappers(all_places);

// ---- callers that are linked with NVRTC

constexpr int internal_error = 11; // NVRTC_ERROR_INTERNAL_ERROR

// NVRTC's symbols have its library's name for their version. Of several libraries of that name others are linked with
// the first.
constexpr char nvrtc_12[] = "libnvrtc.so.12", nvrtc_13[] = "libnvrtc.so.13";

template <const char* version>
void* of_version(void* library, const char* name) {
  return dlvsym(library, name, version);
}

template <const char* version>
Nvrtc nvrtc_in(const char* path) {
  void* const library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return {};
  const Nvrtc found = nvrtc_of(library, &of_version<version>);
  dlclose(library);
  return found;
}

template <const char* version>
Nvrtc linked_nvrtc() {
  Nvrtc found = nvrtc_of(RTLD_NEXT, &of_version<version>); // all see it
  if (!found) found = nvrtc_in<version>(version);
  if (found) return found;
  // Under another name, as packagers of wheels give it. (While they are listed nothing can be opened.)
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* to) {
        if (library->dlpi_name && std::strstr(library->dlpi_name, "libnvrtc"))
          static_cast<std::vector<std::string>*>(to)->emplace_back(library->dlpi_name);
        return 0;
      },
      &paths);
  for (std::size_t i = 0; i < paths.size() && !found; ++i) found = nvrtc_in<version>(paths[i].c_str());
  return found;
}

template <const char* version>
int compile_linked(void* program, int count, const char* const* options) {
  const Nvrtc real = linked_nvrtc<version>();
  return real ? nvrtc_compile(real, program, count, options) : internal_error;
}
template <const char* version>
int cubin_linked(void* program, char* cubin) {
  const Nvrtc real = linked_nvrtc<version>();
  return real ? nvrtc_hand_out(real, program, cubin) : internal_error;
}

} // namespace

bool may_be_wrapped(const char* name) noexcept {
  return name && name[0] == 'n' && name[1] == 'v' &&
         (std::strncmp(name, "nvrtc", 5) == 0 || std::strncmp(name, "nvJitLink", 9) == 0);
}

void* wrapped(void* real, const char* name, void* library, Lookup lookup) noexcept {
  const auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
  // Another library's function, or one that is the library's already, stays as it is.
  const auto replaced = [&](auto& libraries, auto& stands, const auto& of, auto function) {
    if (real != reinterpret_cast<void*>(of.*function)) return real;
    const std::size_t at = libraries.place_of(of);
    return at == most_libraries ? real : reinterpret_cast<void*>(stands[at].*function);
  };
  const auto of_nvrtc = [&](auto function) {
    return replaced(nvrtcs, nvrtc_stands, nvrtc_of(library, lookup), function);
  };
  const auto of_jit_link = [&](auto function) {
    return replaced(jit_links, jit_link_stands, jit_link_of(library, lookup), function);
  };
  if (is("nvrtcCompileProgram")) return of_nvrtc(&Nvrtc::compile);
  if (is("nvrtcGetCUBIN")) return of_nvrtc(&Nvrtc::cubin);
  if (is("nvJitLinkCreate")) return of_jit_link(&JitLink::create);
  if (is("nvJitLinkAddData")) return of_jit_link(&JitLink::data);
  if (is("nvJitLinkAddFile")) return of_jit_link(&JitLink::file);
  if (is("nvJitLinkGetLinkedCubin")) return of_jit_link(&JitLink::cubin);
  if (is("nvJitLinkDestroy")) return of_jit_link(&JitLink::destroy);
  return real;
}

} // namespace deadheat::cupti

extern "C" {
// Only for who was linked with NVRTC: under its symbols' versions (exports.map), by which no dlsym finds them. A caller
// that looks whether NVRTC is there already (as cuda.bindings does) shall not be told that it is.
#define LINKED(major)                                                                                           \
  __attribute__((visibility("default"), used)) int deadheat_nvrtc_compile_##major(void* program, int count,     \
                                                                                  const char* const* options) { \
    return deadheat::cupti::compile_linked<deadheat::cupti::nvrtc_##major>(program, count, options);            \
  }                                                                                                             \
  __attribute__((visibility("default"), used)) int deadheat_nvrtc_cubin_##major(void* program, char* cubin) {   \
    return deadheat::cupti::cubin_linked<deadheat::cupti::nvrtc_##major>(program, cubin);                       \
  }
LINKED(12)
LINKED(13)
}
asm(R"(
	.symver deadheat_nvrtc_compile_12, nvrtcCompileProgram@libnvrtc.so.12
	.symver deadheat_nvrtc_cubin_12, nvrtcGetCUBIN@libnvrtc.so.12
	.symver deadheat_nvrtc_compile_13, nvrtcCompileProgram@libnvrtc.so.13
	.symver deadheat_nvrtc_cubin_13, nvrtcGetCUBIN@libnvrtc.so.13
)");
