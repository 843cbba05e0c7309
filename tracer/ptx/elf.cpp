#include "tracer/ptx/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace deadheat::ptx {
namespace {

std::optional<std::string_view> slice(std::string_view bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.substr(offset, size);
}

template <typename T>
bool load(std::string_view bytes, std::uint64_t offset, T& value) {
  std::optional<std::string_view> part = slice(bytes, offset, sizeof(T));
  if (!part) return false;
  std::memcpy(&value, part->data(), sizeof(T));
  return true;
}

std::string_view string_at(std::string_view table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  std::string_view rest = table.substr(offset);
  std::size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace

Expected<std::vector<ElfSection>> read_elf_sections(std::string_view bytes, std::string_view origin) {
  auto bad = [&](const char* what) { return Error{what, std::string(origin)}; };
  Elf64_Ehdr header;
  if (!load(bytes, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return bad("not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return bad("not a 64-bit little-endian ELF file");
  }
  std::vector<ElfSection> sections;
  if (header.e_shoff == 0) return sections;
  std::uint64_t count = header.e_shnum, names_index = header.e_shstrndx;
  Elf64_Shdr first;
  if (header.e_shentsize != sizeof(Elf64_Shdr) || !load(bytes, header.e_shoff, first)) {
    return bad("truncated ELF file: no section headers");
  }
  if (count == 0) count = first.sh_size;  // more than 65279 sections
  if (names_index == SHN_XINDEX) names_index = first.sh_link;
  if (count > (bytes.size() - header.e_shoff) / sizeof(Elf64_Shdr)) {
    return bad("truncated ELF file: section headers past its end");
  }
  std::vector<Elf64_Shdr> headers(count);
  if (count != 0) std::memcpy(headers.data(), bytes.data() + header.e_shoff, count * sizeof(Elf64_Shdr));
  sections.reserve(count);
  for (const Elf64_Shdr& h : headers) {
    ElfSection section;
    section.type = h.sh_type;
    section.flags = h.sh_flags;
    section.address = h.sh_addr;
    section.link = h.sh_link;
    if (h.sh_type != SHT_NOBITS && h.sh_type != SHT_NULL) {
      std::optional<std::string_view> content = slice(bytes, h.sh_offset, h.sh_size);
      if (!content) return bad("truncated ELF file: a section runs past its end");
      section.bytes = *content;
    }
    sections.push_back(section);
  }
  if (names_index < count) {
    for (std::size_t i = 0; i < count; ++i) {
      sections[i].name = string_at(sections[names_index].bytes, headers[i].sh_name);
    }
  }
  return sections;
}

Expected<ElfFile> read_elf(std::string_view bytes, std::string_view origin) {
  Expected<std::vector<ElfSection>> sections = read_elf_sections(bytes, origin);
  if (!sections) return sections.error();
  ElfFile file;
  file.sections = std::move(*sections);
  for (const ElfSection& section : file.sections) {
    if (section.link >= file.sections.size()) continue;
    const std::string_view strings = file.sections[section.link].bytes, table = section.bytes;
    if (section.type == SHT_DYNAMIC) {
      Elf64_Dyn entry;
      for (std::uint64_t at = 0; load(table, at, entry) && entry.d_tag != DT_NULL; at += sizeof entry) {
        if (entry.d_tag == DT_NEEDED) file.needed.push_back(string_at(strings, entry.d_un.d_val));
        if (entry.d_tag == DT_SONAME) file.soname = string_at(strings, entry.d_un.d_val);
      }
    } else if (section.type == SHT_SYMTAB) {
      Elf64_Sym symbol;
      for (std::uint64_t at = 0; load(table, at, symbol); at += sizeof symbol) {
        if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
            ELF64_ST_BIND(symbol.st_info) != STB_LOCAL) {
          file.functions.push_back(string_at(strings, symbol.st_name));
        }
      }
    } else if (section.type == SHT_DYNSYM) {
      Elf64_Sym symbol;
      for (std::uint64_t at = 0; load(table, at, symbol); at += sizeof symbol) {
        if (symbol.st_shndx == SHN_UNDEF && symbol.st_name != 0)
          file.imports.push_back(string_at(strings, symbol.st_name));
      }
    }
  }
  return file;
}

Expected<MappedFile> MappedFile::open(const std::string& path) {
  auto failed = [&](const char* what) { return Error{std::string(what) + ": " + std::strerror(errno), path}; };
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return failed("cannot open");
  struct stat status;
  if (fstat(descriptor, &status) != 0) {
    Error error = failed("cannot stat");
    close(descriptor);
    return error;
  }
  if (!S_ISREG(status.st_mode)) {
    close(descriptor);
    return Error{"not a regular file", path};
  }
  MappedFile file;
  if (status.st_size > 0) {
    void* data = mmap(nullptr, std::size_t(status.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) {
      Error error = failed("cannot map");
      close(descriptor);
      return error;
    }
    file.data_ = static_cast<const char*>(data);
    file.size_ = std::size_t(status.st_size);
  }
  close(descriptor);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<char*>(data_), size_);
}

}  // namespace deadheat::ptx
