#include "tracer/cupti/caller.h"

#include <dlfcn.h>
#include <unwind.h>

#include <cstdint>
#include <string_view>

namespace deadheat::cupti {

namespace {

constexpr int most_frames = 64;

struct Walk {
  const void* own = nullptr;  // where this library begins
  const char* found = nullptr;
  int frames = 0;
};

bool of_cuda(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (const std::string_view name : {"libcuda.so", "libcupti.so", "libcudart.so", "libcudart-"}) {
    if (file.starts_with(name)) return true;
  }
  return false;
}

_Unwind_Reason_Code at_frame(_Unwind_Context* context, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  if (++walk.frames > most_frames) return _URC_END_OF_STACK;
  int before = 0;  // the frame's address is that of an instruction that runs, not of one that is returned to
  const std::uintptr_t at = _Unwind_GetIPInfo(context, &before) - (before ? 0 : 1);
  Dl_info where{};
  if (!at || !dladdr(reinterpret_cast<const void*>(at), &where) || !where.dli_fname) return _URC_END_OF_STACK;
  if (where.dli_fbase == walk.own || of_cuda(where.dli_fname)) return _URC_NO_REASON;
  walk.found = where.dli_fname;
  return _URC_END_OF_STACK;
}

}  // namespace

std::string library_that_calls() {
  Dl_info here{};
  if (!dladdr(reinterpret_cast<const void*>(&library_that_calls), &here)) return {};
  Walk walk;
  walk.own = here.dli_fbase;
  _Unwind_Backtrace(&at_frame, &walk);
  return walk.found ? walk.found : "";
}

}  // namespace deadheat::cupti
