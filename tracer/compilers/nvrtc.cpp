#include "tracer/compilers/nvrtc.h"

#include <alloca.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/compilers/compiler_options.h"
#include "tracer/compilers/made_code.h"
#include "tracer/compilers/shared_knowledge.h"

namespace deadheat::cupti {

namespace {

using namespace std::string_view_literals;

constexpr int success = 0, invalid_option = 5; // nvrtcResult

struct Asked {
  bool understood = false;
  unsigned max_registers = 0; // of a thread at most; 0: not limited
};
using Programs = SharedKnowledge<std::map<NvrtcProgram, Asked>>; // as each was compiled last

bool has_lines(const std::vector<const char*>& options) {
  for (const std::string_view option : options) {
    for (const std::string_view other : {"-lineinfo"sv, "--generate-line-info"sv, "-G"sv, "--device-debug"sv}) {
      if (option == other) return true;
    }
  }
  return false;
}

// cuDNN speaks with NVRTC in a way of its own: options that are no text, and what comes out is no PTX of the manual's.
bool understood(int count, const char* const* options) {
  return count == 0 || (count > 0 && options && options[0] && options[0][0] == '-');
}

// Makes one option more than the job's; false: these stay as they are. Null: there is no room for it.
bool with_lines(NvrtcProgram program, int count, const char* const* options, const char** more) noexcept {
  try {
    Asked now{.understood = understood(count, options)};
    bool made = false;
    if (now.understood) {
      const std::vector<const char*> all = compiler_options(count, options);
      now.max_registers = max_registers(all);
      made = more && !has_lines(all);
      if (made) {
        more[0] = "--generate-line-info"; // the last one may be waiting for a value
        std::copy(all.begin(), all.end(), more + 1);
      }
    }
    std::lock_guard hold(Programs::get().lock);
    Programs::get().known[program] = now;
    return made;
  } catch (...) {
    return false;
  }
}

} // namespace

Nvrtc nvrtc_of(void* library, Lookup lookup) noexcept {
  Nvrtc all;
  set_function(all.compile, lookup(library, "nvrtcCompileProgram"));
  set_function(all.cubin_size, lookup(library, "nvrtcGetCUBINSize"));
  set_function(all.cubin, lookup(library, "nvrtcGetCUBIN"));
  set_function(all.ptx_size, lookup(library, "nvrtcGetPTXSize"));
  set_function(all.ptx, lookup(library, "nvrtcGetPTX"));
  return all;
}

// What the job's functions throw goes through here without being looked at: the library's C++ runtime is another than
// theirs, and must find nothing to do (a destructor, a catch).
int nvrtc_compile(const Nvrtc& real, NvrtcProgram program, int count, const char* const* options) {
  constexpr int most = 4096;
  const char** const more =
      count >= 0 && count < most ? static_cast<const char**>(alloca((count + 1) * sizeof(const char*))) : nullptr;
  if (with_lines(program, count, options, more)) {
    const int status = real.compile(program, count + 1, more);
    if (status != invalid_option) return status;
    // What is wrong with them, the job shall hear of as if there were none of the library's.
  }
  return real.compile(program, count, options);
}

int nvrtc_hand_out(const Nvrtc& real, NvrtcProgram program, char* cubin) noexcept {
  const int status = real.cubin(program, cubin);
  std::size_t bytes = 0, length = 0;
  if (status != success || real.cubin_size(program, &bytes) != success || bytes < 64 ||
      real.ptx_size(program, &length) != success || length < 2)
    return status;
  try {
    Asked how;
    {
      auto& [lock, programs] = Programs::get();
      std::lock_guard hold(lock);
      if (const auto at = programs.find(program); at != programs.end()) how = at->second;
    }
    if (!how.understood) return status;
    DeviceCode code{
        .text = std::string(length, '\0'), .origin = "compiled by NVRTC", .max_registers = how.max_registers};
    if (real.ptx(program, code.text.data()) != success) return status;
    code.text.resize(std::strlen(code.text.c_str()));
    keep_made_code(cubin, std::move(code));
  } catch (...) {
  }
  return status;
}

} // namespace deadheat::cupti
