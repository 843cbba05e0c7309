#include "replay/embedded/call_site.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <llvm/DebugInfo/Symbolize/Symbolize.h>
#include <unwind.h>

#include <array>
#include <map>
#include <string_view>

#include "replay/embedded/names.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::embedded {

namespace {

constexpr std::size_t depth = 12;
using Frames = std::array<std::uintptr_t, depth>; // return addresses, innermost first, 0 past the last

struct Walk {
  Frames* frames;
  std::size_t count;
};

_Unwind_Reason_Code take(_Unwind_Context* context, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  const std::uintptr_t address = _Unwind_GetIP(context);
  Dl_info info;
  const auto own = reinterpret_cast<void*>(&call_site);
  static const void* const own_base = dladdr(own, &info) ? info.dli_fbase : nullptr;
  // Frames of this library come first; when they are passed, addresses in it cannot come again.
  if (walk.count == 0 && dladdr(reinterpret_cast<void*>(address), &info) && info.dli_fbase == own_base) {
    return _URC_NO_REASON;
  }
  (*walk.frames)[walk.count++] = address;
  return walk.count < depth ? _URC_NO_REASON : _URC_END_OF_STACK;
}

// What nvcc and its headers put between the program and the runtime.
bool generated(std::string_view file, std::string_view function, std::string_view kernel) {
  for (const char* end : {".cudafe1.stub.c", "/cuda_runtime.h", "/host_runtime.h", "/device_functions.h"}) {
    if (file.ends_with(end)) return true;
  }
  for (const char* start : {"__cuda", "cudaError cuda"}) { // helpers, and the templates of cuda_runtime.h
    if (function.starts_with(start)) return true;
  }
  return function.find("__device_stub_") != std::string_view::npos || (!kernel.empty() && function == kernel);
}

struct Place {
  std::string line, function;
  bool generated = false;
}; // empty where not known

// What the program's debug information and symbols say of a return address.
Place place_of(std::uintptr_t address, const std::string& kernel) {
  static auto* symbolizer = new llvm::symbolize::LLVMSymbolizer; // its caches live as long as the process
  Place place;
  Dl_info info;
  link_map* map = nullptr;
  if (!dladdr1(reinterpret_cast<void*>(address), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map) {
    return place;
  }
  llvm::object::SectionedAddress at;
  at.Address = address - 1 - map->l_addr; // in the call, not behind it
  llvm::Expected<llvm::DIInliningInfo> found =
      symbolizer->symbolizeInlinedCode(file_of(reinterpret_cast<void*>(address)), at);
  if (!found) {
    llvm::consumeError(found.takeError());
    return place;
  }
  for (std::uint32_t i = 0; i < found->getNumberOfFrames(); ++i) {
    const llvm::DILineInfo& frame = found->getFrame(i);
    place.generated = generated(frame.FileName, frame.FunctionName, kernel);
    if (place.generated) continue;
    if (frame.FunctionName != llvm::DILineInfo::BadString) place.function = frame.FunctionName;
    if (frame.Line) place.line = fmt::format("{}:{}", frame.FileName, frame.Line);
    return place;
  }
  return place;
}

std::string describe(const Frames& frames, const std::string& kernel) {
  for (std::uintptr_t address : frames) {
    if (!address) break;
    const Place place = place_of(address, kernel);
    if (place.generated) continue;
    if (!place.line.empty()) return place.line;
    Dl_info info;
    const bool known = dladdr(reinterpret_cast<void*>(address), &info);
    const std::string path = file_of(reinterpret_cast<void*>(address));
    const std::uintptr_t offset = address - (known ? reinterpret_cast<std::uintptr_t>(info.dli_fbase) : 0);
    return fmt::format("{}+{:#x}{}", path.substr(path.rfind('/') + 1), offset,
                       place.function.empty() ? "" : " (" + place.function + ")");
  }
  return "";
}

} // namespace

std::string call_site(const std::string& kernel) {
  static auto* known = new std::map<Frames, std::string>;
  Frames frames = {};
  Walk walk{&frames, 0};
  _Unwind_Backtrace(take, &walk);
  if (frames[0] == 0) return "";
  auto [entry, fresh] = known->try_emplace(frames);
  if (fresh) entry->second = describe(frames, kernel.empty() ? kernel : ptx::demangle(kernel));
  return entry->second;
}

} // namespace deadheat::embedded
