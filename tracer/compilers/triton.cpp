#include "tracer/compilers/triton.h"

#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace deadheat::cupti {

namespace {

namespace fs = std::filesystem;
constexpr std::size_t most_bytes = std::size_t(64) << 20;  // of a cubin

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

fs::path cache() {
  if (const char* folder = std::getenv("TRITON_CACHE_DIR")) return folder;
  if (const char* home = std::getenv("TRITON_HOME")) return fs::path(home) / ".triton" / "cache";
  if (const char* home = std::getenv("HOME")) return fs::path(home) / ".triton" / "cache";
  return {};
}

}  // namespace

// Where the last of its tables and sections ends.
std::size_t elf_size(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr)) return 0;
  const std::size_t sections = header.e_shoff + std::size_t(header.e_shnum) * sizeof(Elf64_Shdr);
  const std::size_t segments = header.e_phoff + std::size_t(header.e_phnum) * header.e_phentsize;
  std::size_t size = std::max({sizeof header, sections, segments});
  if (size > most_bytes) return 0;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, static_cast<const char*>(image) + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS) size = std::max<std::size_t>(size, section.sh_offset + section.sh_size);
  }
  return size > most_bytes ? 0 : size;
}

std::string triton_ptx(std::string_view cubin, std::string& origin) {
  const fs::path folder = cache();
  std::error_code failed;
  if (cubin.empty() || folder.empty() || !fs::is_directory(folder, failed)) return {};
  for (fs::directory_iterator kernel(folder, failed), end; !failed && kernel != end; kernel.increment(failed)) {
    std::error_code ignored;
    for (fs::directory_iterator file(kernel->path(), ignored); !ignored && file != end; file.increment(ignored)) {
      if (file->path().extension() != ".cubin" || file->file_size(ignored) != cubin.size() || ignored) continue;
      if (contents(file->path()) == cubin) return ptx_beside(file->path(), origin);
    }
  }
  return {};
}

std::string ptx_beside(const std::string& path, std::string& origin) {
  const fs::path text = fs::path(path).replace_extension(".ptx");
  std::string ptx = contents(text);
  if (!ptx.empty()) origin = text.string();
  return ptx;
}

} // namespace deadheat::cupti
