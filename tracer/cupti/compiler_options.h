// Options as NVRTC and nvJitLink are given them, and functions as they are looked up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace deadheat::cupti {

template <typename Function>
void set_function(Function*& to, void* function) {
  to = reinterpret_cast<Function*>(function);
}

// Throws where one of them is null.
inline std::vector<const char*> compiler_options(std::int64_t count, const char* const* options) {
  if (!options || count <= 0) return {};
  std::vector<const char*> all(options, options + count);
  if (std::find(all.begin(), all.end(), nullptr) != all.end()) throw std::invalid_argument("no option");
  return all;
}

// NVRTC 3.1, "Supported Compile Options": --maxrregcount=N, -maxrregcount=N; of nvJitLink the second. 0: not limited.
inline unsigned max_registers(const std::vector<const char*>& options) {
  unsigned most = 0;
  for (std::string_view option : options) {
    if (option.starts_with("--")) option.remove_prefix(1);
    constexpr std::string_view name = "-maxrregcount=";
    if (option.starts_with(name)) most = unsigned(std::strtoul(option.data() + name.size(), nullptr, 10));
  }
  return most;
}

} // namespace deadheat::cupti
