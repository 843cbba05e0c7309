#include "replay/embedded/names.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>

namespace deadheat::embedded {

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result;
}

namespace {

const char* name_of(trace::MemoryError::Kind kind) {
  using Kind = trace::MemoryError::Kind;
  switch (kind) {
    case Kind::out_of_bounds: return "out of bounds";
    case Kind::use_after_free: return "use after free";
    case Kind::misaligned: return "misaligned address";
    case Kind::wrong_space: return "address of another state space";
    case Kind::uninitialized: return "uninitialized memory";
    case Kind::double_free: return "freed twice";
    case Kind::invalid_free: return "free of something that was not allocated";
    case Kind::stack_overflow: return "stack overflow";
    case Kind::trap: return "trap";
    case Kind::assertion: return "assertion failed";
    case Kind::leak: return "never freed";
    case Kind::api_error: return "error of a launch";
  }
  return "fault";
}

const char* name_of(AccessKind kind) {
  switch (kind) {
    case AccessKind::read: return "read";
    case AccessKind::write: return "write";
    case AccessKind::atomic: return "atomic";
    case AccessKind::free: return "free";
  }
  return "access";
}

std::string text_of(const Dim3& place) { return fmt::format("({},{},{})", place.x, place.y, place.z); }

} // namespace

std::string describe_fault(const trace::MemoryError& fault, const LaunchNote* launch, engine::LoadedModule* module) {
  std::string text = name_of(fault.kind);
  if (launch) text += ": kernel " + demangled(launch->kernel);
  if (module && fault.site < module->sites().size()) {
    const Site& site = module->sites()[fault.site];
    if (!site.source.empty() && site.source.front().line) {
      text += fmt::format(" at {}:{}", site.source.front().file, site.source.front().line);
    }
  }
  if (launch) {
    text += fmt::format(", block {}, thread {}", text_of(coordinates(fault.block, launch->grid)),
                        text_of(coordinates(fault.thread, launch->block)));
  }
  if (fault.bytes) text += fmt::format(": {} of {} bytes at {:#x}", name_of(fault.access), fault.bytes, fault.address);
  if (!fault.text.empty()) text += ": " + fault.text;
  return text;
}

std::string file_of(const void* address) {
  Dl_info info;
  link_map* map = nullptr;
  if (!dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map) return "";
  if (map->l_name && *map->l_name) return map->l_name;
  char path[4096]; // the program itself has no name here, and argv[0] may be a word from PATH
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, std::size_t(length)) : std::string(info.dli_fname ? info.dli_fname : "");
}

} // namespace deadheat::embedded
