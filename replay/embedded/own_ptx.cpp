#include "replay/embedded/own_ptx.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "deadheat/own_files.h"

namespace deadheat::embedded {

Expected<std::string> own_ptx(const std::string& directory, std::string text, const std::string& origin) {
  std::uint64_t hash = 14695981039346656037u; // FNV-1a, 64 bits: a file name, no promise
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  const std::filesystem::path file = std::filesystem::path(directory) / fmt::format("{:016x}.ptx", hash);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    const NoFileSizeSignal guard;
    std::ofstream out(file, std::ios::binary);
    out << text;
    out.close();
    if (!out) {
      guard.take();
      return Error{"cannot keep the PTX of " + origin, file.string(), "the option ptx names a directory"};
    }
    return text;
  }
  std::ifstream in(file, std::ios::binary);
  std::ostringstream own;
  own << in.rdbuf();
  if (!in) return Error{"cannot read the PTX for " + origin, file.string()};
  return own.str();
}

} // namespace deadheat::embedded
