#include "tracer/cupti/nvrtc.h"

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/cupti/compiler_options.h"
#include "tracer/cupti/made_code.h"

namespace deadheat::cupti {

namespace {

using namespace std::string_view_literals;

constexpr int success = 0;

struct Asked {
  bool understood = false;
  unsigned max_registers = 0; // of a thread at most; 0: not limited
};
std::mutex asked_lock;
std::map<NvrtcProgram, Asked>& asked() { // as a program was compiled last
  static auto& all = *new std::map<NvrtcProgram, Asked>;
  return all;
}

bool has_lines(const std::vector<const char*>& options) {
  for (const std::string_view option : options) {
    for (const std::string_view other : {"-lineinfo"sv, "--generate-line-info"sv, "-G"sv, "--device-debug"sv}) {
      if (option == other) return true;
    }
  }
  return false;
}

// cuDNN speaks with NVRTC in a way of their own: options that are no text, and what comes out is no PTX of the manual's.
bool understood(const std::vector<const char*>& options) { return options.empty() || options.front()[0] == '-'; }

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

int nvrtc_compile(const Nvrtc& real, NvrtcProgram program, int count, const char* const* options) noexcept {
  try {
    std::vector<const char*> all = compiler_options(count, options);
    const Asked now{.understood = understood(all), .max_registers = max_registers(all)};
    {
      std::lock_guard hold(asked_lock);
      asked()[program] = now;
    }
    if (now.understood && !has_lines(all)) {
      all.push_back("--generate-line-info");
      if (real.compile(program, int(all.size()), all.data()) == success) return success;
      // What is wrong with it, the job shall hear of as if nothing had been added.
    }
  } catch (...) {
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
      std::lock_guard hold(asked_lock);
      if (const auto at = asked().find(program); at != asked().end()) how = at->second;
    }
    DeviceCode code{.text = std::string(length, '\0'), .origin = "compiled by NVRTC", .max_registers = how.max_registers};
    if (!how.understood || real.ptx(program, code.text.data()) != success) return status;
    code.text.resize(std::strlen(code.text.c_str()));
    keep_made_code(cubin, std::move(code));
  } catch (...) {
  }
  return status;
}

} // namespace deadheat::cupti
