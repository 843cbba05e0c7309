// Options as NVRTC and nvJitLink are given them, and functions as they are looked up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tracer/ptx/fatbin.h"

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

inline unsigned max_registers(const std::vector<const char*>& options) { // 0: not limited
  std::string all;
  for (const char* option : options) all.append(option).push_back(' ');
  return ptx::max_registers(all);
}

} // namespace deadheat::cupti
