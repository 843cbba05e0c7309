#include "tracer/ptx/static_runtime.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "tracer/ptx/elf.h"

namespace deadheat::ptx {

bool links_cudart_statically(const std::string& path) {
  Expected<MappedFile> file = MappedFile::open(path);
  if (!file) return false;
  Expected<ElfFile> elf = read_elf(file->bytes(), path);
  if (!elf || elf->soname.starts_with("libcudart.so")) return false;
  for (std::string_view library : elf->needed) {
    if (library.starts_with("libcudart.so")) return false;
  }
  for (std::string_view symbol : elf->imports) {
    if (symbol == "__cudaRegisterFatBinary") return false;
  }
  // Strings of the runtime that no stripping removes: a name from cudaGetErrorName and what it asks the driver for.
  constexpr std::string_view error_name = "cudaErrorCudartUnloading", driver_loader = "cuGetProcAddress";
  bool names = false, loader = false;
  for (const ElfSection& section : elf->sections) {
    constexpr std::uint64_t alloc = 2, executable = 4;  // SHF_ALLOC, SHF_EXECINSTR
    if (!(section.flags & alloc) || (section.flags & executable) || section.name == ".nv_fatbin") continue;
    names = names || section.bytes.find(error_name) != std::string_view::npos;
    loader = loader || section.bytes.find(driver_loader) != std::string_view::npos;
  }
  return names && loader;
}

StaticRuntime static_runtime(const std::string& path) {
  Expected<MappedFile> file = MappedFile::open(path);
  return file ? static_runtime_in(file->bytes()) : StaticRuntime();
}

StaticRuntime static_runtime_in(std::string_view elf) {
  Expected<std::vector<ElfSection>> sections = read_elf_sections(elf, "");
  if (!sections) return {};
  std::string_view symbols, strings;
  bool kernels = false;
  for (const ElfSection& section : *sections) {
    kernels |= section.name == ".nvFatBinSegment";
    if (section.type != SHT_SYMTAB || section.link >= sections->size()) continue;
    symbols = section.bytes;
    strings = (*sections)[section.link].bytes;
  }
  if (!kernels) return {};

  StaticRuntime found;
  std::vector<std::uint64_t> begins;  // of all functions
  std::uint16_t code = SHN_UNDEF;     // the section that has it
  Elf64_Sym symbol;
  for (; symbols.size() >= sizeof symbol; symbols.remove_prefix(sizeof symbol)) {
    std::memcpy(&symbol, symbols.data(), sizeof symbol);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
    begins.push_back(symbol.st_value);
    if (symbol.st_name >= strings.size()) continue;
    const std::string_view rest = strings.substr(symbol.st_name), name = rest.substr(0, rest.find('\0'));
    if (!name.starts_with("cuda") && !name.starts_with("__cuda")) continue;
    found.functions.push_back({std::string(name), symbol.st_value});
    if (name == "__cudaRegisterFatBinary") code = symbol.st_shndx;
    found.of_13 |= name == "cudaMemDiscardBatchAsync";  // new in 13.0
  }
  if (code >= sections->size()) return {};
  const ElfSection& text = (*sections)[code];
  std::sort(begins.begin(), begins.end());
  const auto by_address = [](const auto& a, const auto& b) { return a.address < b.address; };
  std::stable_sort(found.functions.begin(), found.functions.end(), by_address);
  std::erase_if(found.functions, [&](const StaticRuntime::Function& function) {
    const auto [at, behind] = std::equal_range(begins.begin(), begins.end(), function.address);
    const std::uint64_t offset = function.address - text.address;  // wraps where it lies before
    if (offset >= text.bytes.size() || text.bytes.size() - offset < StaticRuntime::room) return true;
    return behind - at > 1 || (behind != begins.end() && *behind - function.address < StaticRuntime::room);
  });
  return found;
}

} // namespace deadheat::ptx
