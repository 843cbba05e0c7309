#include "replay/engine/image.h"

#include <elf.h>
#include <link.h>

#include <charconv>
#include <cstdio>
#include <cstring>

#include "deadheat/expected.h"

namespace deadheat::engine {

namespace {

struct Image {
  std::uint64_t base = 0, end = 0;
  std::string identity;
};

std::string build_id(const ElfW(Phdr) & segment, std::uint64_t base) {
  const auto* at = reinterpret_cast<const char*>(base + segment.p_vaddr);
  for (std::uint64_t rest = segment.p_memsz; rest >= sizeof(ElfW(Nhdr));) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const std::uint64_t name = (note.n_namesz + 3) / 4 * 4, whole = sizeof note + name + (note.n_descsz + 3) / 4 * 4;
    if (whole > rest) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(at + sizeof note, "GNU", 4) == 0)
      return std::string(at + sizeof note + name, note.n_descsz);
    at += whole;
    rest -= whole;
  }
  return {};
}

// The loaded object that holds this function.
Image find() {
  Image image;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        const auto here = reinterpret_cast<std::uint64_t>(&find);
        std::uint64_t end = 0;
        bool inside = false;
        std::string identity;
        for (int n = 0; n < info->dlpi_phnum; ++n) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[n];
          const std::uint64_t first = info->dlpi_addr + segment.p_vaddr, last = first + segment.p_memsz;
          if (segment.p_type == PT_LOAD) {
            inside |= here >= first && here < last;
            end = last;
          }
          if (segment.p_type == PT_NOTE && identity.empty()) identity = build_id(segment, info->dlpi_addr);
        }
        if (!inside) return 0;
        *static_cast<Image*>(to) = {info->dlpi_addr, end, std::move(identity)};
        return 1;
      },
      &image);
  return image;
}

const Image& image() {
  static const Image found = find();
  return found;
}

constexpr std::string_view prefix = "host.";

}  // namespace

std::string image_identity() { return image().identity; }

std::string image_name(const void* address) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  DEADHEAT_CHECK(at >= image().base && at < image().end);
  char text[32];
  std::snprintf(text, sizeof text, "host.%llx", static_cast<unsigned long long>(at - image().base));
  return text;
}

std::optional<std::uint64_t> image_address(std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::uint64_t offset = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), offset, 16);
  if (error != std::errc() || end != name.data() + name.size() || offset >= image().end - image().base)
    return std::nullopt;
  return image().base + offset;
}

}  // namespace deadheat::engine
