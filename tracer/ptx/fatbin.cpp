#include "tracer/ptx/fatbin.h"

#include <link.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

namespace deadheat::ptx {
namespace {

constexpr std::uint32_t wrapper_magic = 0x466243B1, container_magic = 0xBA55ED50;
constexpr std::size_t container_header = 16, entry_header = 64;
constexpr std::uint64_t max_unpacked = std::uint64_t(1) << 30;

template <typename T>
T read(std::string_view bytes, std::size_t offset) {  // the caller has checked the range
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

Error corrupt(std::string_view origin, const std::string& what) {
  return {"corrupt fat binary: " + what, std::string(origin),
          "rebuild the program, or send the file with a bug report"};
}

// Bytes [offset, offset + length) of the header, or nothing.
std::string_view inside(std::string_view header, std::uint64_t offset, std::uint64_t length) {
  if (offset > header.size() || length > header.size() - offset) return {};
  return header.substr(offset, length);
}

std::string_view trim_nul(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  return text;
}

Expected<FatbinEntry> read_entry(std::string_view bytes, std::string_view origin, std::size_t& consumed) {
  if (bytes.size() < entry_header) return corrupt(origin, "an entry header is cut off");
  std::uint32_t header_size = read<std::uint32_t>(bytes, 4);
  std::uint64_t payload = read<std::uint64_t>(bytes, 8);
  if (header_size < entry_header || header_size > bytes.size())
    return corrupt(origin, "the size of an entry header is wrong");
  if (payload > bytes.size() - header_size) return corrupt(origin, "the payload of an entry runs past the end");
  std::string_view header = bytes.substr(0, header_size);
  FatbinEntry entry;
  entry.kind = FatbinEntry::Kind(read<std::uint16_t>(header, 0));
  entry.minor = read<std::uint16_t>(header, 24);
  entry.major = read<std::uint16_t>(header, 26);
  entry.architecture = read<std::uint32_t>(header, 28);
  entry.name = trim_nul(inside(header, read<std::uint32_t>(header, 32), read<std::uint32_t>(header, 36)));
  entry.flags = read<std::uint64_t>(header, 40);
  std::uint64_t compressed = read<std::uint32_t>(header, 16), unpacked = read<std::uint64_t>(header, 56);
  entry.stored = bytes.substr(header_size, payload);
  entry.size = payload;
  if (entry.compressed()) {
    if (compressed > payload) return corrupt(origin, "a compressed payload is longer than its space");
    if (unpacked == 0 || unpacked > max_unpacked) return corrupt(origin, "the uncompressed size of an entry is wrong");
    entry.stored = entry.stored.substr(0, compressed);
    entry.size = unpacked;
  }
  std::uint32_t options = read<std::uint32_t>(header, 20);
  if (entry.kind == FatbinEntry::Kind::ptx && options != 0) {
    std::string_view record = inside(header, options, 8);
    if (record.empty()) return corrupt(origin, "the option record of an entry is outside its header");
    std::uint32_t offset = read<std::uint32_t>(record, 0), length = read<std::uint32_t>(record, 4);
    entry.options = trim_nul(inside(header, offset, length));
    if (entry.options.empty() && length != 0) return corrupt(origin, "the options of an entry are outside its header");
  }
  consumed = header_size + payload;
  return entry;
}

// Grows with the output, so that a lying size costs nothing.
Expected<std::string> unpack_zstd(std::string_view stored, std::uint64_t size, std::string_view origin) {
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream(ZSTD_createDStream(), ZSTD_freeDStream);
  if (!stream) return Error{"out of memory", std::string(origin)};
  std::string out;
  ZSTD_inBuffer input = {stored.data(), stored.size(), 0};
  for (;;) {
    std::size_t before = out.size();
    std::size_t room = std::min<std::uint64_t>(size - before, std::max<std::uint64_t>(before, 1 << 16));
    out.resize(before + room);
    ZSTD_outBuffer output = {out.data() + before, room, 0};
    std::size_t left = ZSTD_decompressStream(stream.get(), &output, &input);
    out.resize(before + output.pos);
    if (ZSTD_isError(left)) return corrupt(origin, std::string("zstd: ") + ZSTD_getErrorName(left));
    if (left == 0) break;  // the end of the frame
    if (output.pos == 0)
      return corrupt(origin, out.size() == size ? "zstd: more data than the entry says" : "zstd: data is cut off");
  }
  if (out.size() != size) return corrupt(origin, "zstd: less data than the entry says");
  return out;
}

Expected<std::string> unpack_lz4(std::string_view stored, std::uint64_t size, std::string_view origin) {
  if (size > stored.size() * std::uint64_t(256) + 16)
    return corrupt(origin, "lz4: data is cut off");  // at most 255 to 1
  std::string out(size, '\0');
  int length = LZ4_decompress_safe(stored.data(), out.data(), int(stored.size()), int(size));
  if (length < 0 || std::uint64_t(length) != size) return corrupt(origin, "lz4: the data is damaged");
  return out;
}

}  // namespace

unsigned max_registers(std::string_view options) {
  constexpr std::string_view option = "maxrregcount";
  unsigned least = 0;
  for (std::size_t at = options.find(option); at != std::string_view::npos; at = options.find(option, at)) {
    at = std::min(options.find_first_not_of("= ", at + option.size()), options.size());
    unsigned value = 0;
    std::from_chars(options.data() + at, options.data() + options.size(), value);
    if (value && (!least || value < least)) least = value;
  }
  return least;
}
unsigned FatbinEntry::max_registers() const { return ptx::max_registers(options); }

std::string FatbinEntry::target() const {
  const char* suffix = flags & arch_specific ? "a" : flags & family_specific ? "f" : "";
  return "sm_" + std::to_string(architecture) + suffix;
}

Expected<std::vector<FatbinEntry>> fatbin_entries(std::string_view container, std::string_view origin,
                                                  std::size_t* consumed) {
  if (container.size() < container_header) return corrupt(origin, "the container header is cut off");
  if (read<std::uint32_t>(container, 0) != container_magic) return corrupt(origin, "no container starts here");
  std::uint16_t version = read<std::uint16_t>(container, 4), header_size = read<std::uint16_t>(container, 6);
  if (version != 1) {
    return Error{"fat binary of version " + std::to_string(version), std::string(origin), "deadheat knows version 1"};
  }
  std::uint64_t length = read<std::uint64_t>(container, 8);
  if (header_size < container_header || header_size > container.size() || length > container.size() - header_size) {
    return corrupt(origin, "the container runs past the end");
  }
  std::string_view rest = container.substr(header_size, length);
  std::vector<FatbinEntry> entries;
  while (!rest.empty()) {
    std::size_t used = 0;
    Expected<FatbinEntry> entry = read_entry(rest, origin, used);
    if (!entry) return entry.error();
    entries.push_back(*entry);
    rest.remove_prefix(used);
  }
  if (consumed) *consumed = header_size + length;
  return entries;
}

Expected<std::vector<FatbinEntry>> fatbin_entries_of_elf(std::string_view elf, std::string_view origin) {
  Expected<ElfFile> file = read_elf(elf, origin);
  if (!file) return file.error();
  std::vector<FatbinEntry> entries;
  for (const ElfSection& section : file->sections) {
    if (section.name != ".nv_fatbin") continue;
    std::string_view rest = section.bytes;
    for (;;) {
      while (rest.size() >= 8 && read<std::uint64_t>(rest, 0) == 0) rest.remove_prefix(8);  // padding
      if (trim_nul(rest).empty()) break;
      std::size_t used = 0;
      Expected<std::vector<FatbinEntry>> part = fatbin_entries(rest, origin, &used);
      if (!part) return part.error();
      entries.insert(entries.end(), part->begin(), part->end());
      rest.remove_prefix(std::min(rest.size(), (used + 7) / 8 * 8));
    }
  }
  return entries;
}

// How many bytes from `address` on are mapped as part of one segment of a loaded image; no limit outside of all.
static std::uint64_t bytes_in_image(const char* address) {
  struct Search {
    std::uintptr_t address;
    std::uint64_t bytes;
  } search{reinterpret_cast<std::uintptr_t>(address), ~std::uint64_t(0)};
  dl_iterate_phdr(
      [](dl_phdr_info* image, std::size_t, void* data) {
        auto* wanted = static_cast<Search*>(data);
        for (unsigned i = 0; i < image->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = image->dlpi_phdr[i];
          const std::uint64_t offset = wanted->address - (image->dlpi_addr + segment.p_vaddr);
          if (segment.p_type != PT_LOAD || offset >= segment.p_memsz) continue;
          wanted->bytes = segment.p_memsz - offset;
          return 1;
        }
        return 0;
      },
      &search);
  return search.bytes;
}

Expected<std::vector<FatbinEntry>> fatbin_entries_at(const void* container) {
  constexpr std::string_view origin = "fat binary in memory";
  const char* bytes = static_cast<const char*>(container);
  if (!bytes) return corrupt(origin, "no container");
  std::uint64_t room = bytes_in_image(bytes);
  if (room < container_header) return corrupt(origin, "it reaches beyond its image");
  std::string_view header(bytes, container_header);
  if (read<std::uint32_t>(header, 0) != container_magic) return corrupt(origin, "no container starts here");
  std::uint64_t length = read<std::uint64_t>(header, 8);
  if (length > max_unpacked * 4) return corrupt(origin, "the container's length is wrong");
  length += read<std::uint16_t>(header, 6);
  if (length > room) return corrupt(origin, "it reaches beyond its image");
  return fatbin_entries({bytes, length}, origin);
}

Expected<std::vector<std::vector<FatbinEntry>>> fatbin_parts_of_wrapper(const void* wrapper) {
  constexpr std::string_view origin = "fat binary in memory";
  struct Wrapper {
    std::uint32_t magic, version;
    const void* container;
    const void* prelinked;
  } w;
  static_assert(sizeof w == 24);
  if (!wrapper) return corrupt(origin, "no wrapper");
  std::memcpy(&w, wrapper, sizeof w);
  if (w.magic != wrapper_magic) return corrupt(origin, "no wrapper starts here");
  if (w.version != 1 && w.version != 2) {
    return Error{"fat binary wrapper of version " + std::to_string(w.version), std::string(origin),
                 "deadheat knows versions 1 and 2"};
  }
  Expected<std::vector<FatbinEntry>> entries = fatbin_entries_at(w.container);
  if (!entries) return entries.error();
  std::vector<std::vector<FatbinEntry>> parts{std::move(*entries)};
  if (w.version == 1 || !w.prelinked) return parts;
  for (const void* const* part = static_cast<const void* const*>(w.prelinked); *part; ++part) {
    Expected<std::vector<FatbinEntry>> more = fatbin_entries_at(*part);
    if (!more) return more.error();
    parts.push_back(std::move(*more));
  }
  return parts;
}

Expected<std::string> unpack(const FatbinEntry& entry, std::string_view origin) {
  Expected<std::string> bytes = entry.flags & FatbinEntry::zstd  ? unpack_zstd(entry.stored, entry.size, origin)
                                : entry.flags & FatbinEntry::lz4 ? unpack_lz4(entry.stored, entry.size, origin)
                                                                 : Expected<std::string>(std::string(entry.stored));
  if (bytes && entry.kind == FatbinEntry::Kind::ptx) bytes->resize(trim_nul(*bytes).size());
  return bytes;
}

}  // namespace deadheat::ptx
