// Fuzz target: mangled names. Whatever comes, reading ends, and what is made of it keeps to its bounds.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tracer/ptx/demangle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace deadheat::ptx;
  const std::string mangled = "_Z" + std::string(reinterpret_cast<const char*>(data), size);
  constexpr std::size_t longest = 64 << 10, most = 120;
  const std::optional<std::string> name = demangled_name(mangled);
  if (!name) return 0;
  if (name->empty() || name->size() > longest) __builtin_trap();
  if (shortened(*name, most).size() > name->size()) __builtin_trap();
  return 0;
}
