// A bounds-checked look at an ELF-64 file in memory: sections, needed libraries, symbols. Just what finding fat
// binaries takes.
//
// Invariants: views point into the bytes given; no byte of the file is trusted, out-of-range tables are errors.
//
// Thread-safety: pure functions; MappedFile is a plain owner.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "deadheat/expected.h"

namespace deadheat::ptx {

struct ElfSection {
  std::string_view name;
  std::uint32_t type = 0;
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::uint32_t link = 0;  // another's number: of symbols their strings
  std::string_view bytes;  // empty for SHT_NOBITS
};

struct ElfFile {
  std::vector<ElfSection> sections;
  std::vector<std::string_view> needed;   // DT_NEEDED
  std::string_view soname;                // DT_SONAME, or empty
  std::vector<std::string_view> imports;  // undefined dynamic symbols, without version
  std::vector<std::string_view> functions;  // that it defines for others (.symtab)
};

// `origin` names the file in errors.
Expected<ElfFile> read_elf(std::string_view bytes, std::string_view origin);
// Its sections alone, which takes no look at symbols.
Expected<std::vector<ElfSection>> read_elf_sections(std::string_view bytes, std::string_view origin);

// A file mapped for reading; the bytes live as long as the object.
class MappedFile {
 public:
  static Expected<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::string_view bytes() const { return {data_, size_}; }

 private:
  MappedFile() = default;
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace deadheat::ptx
