#include "tracer/cupti/images.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "tracer/compilers/made_code.h"
#include "tracer/compilers/triton.h"
#include "tracer/ptx/elf.h"
#include "tracer/ptx/fatbin.h"
#include "tracer/ptx/fatbin_choice.h"
#include "tracer/ptx/link.h"

namespace deadheat::cupti {

namespace {

using Entries = std::vector<ptx::FatbinEntry>;
using Kind = ptx::FatbinEntry::Kind;

constexpr std::uint32_t wrapper_magic = 0x466243B1, container_magic = 0xBA55ED50;

// Comments and white space, then .version: as every PTX text begins. Compilers' comments name their own versions.
bool looks_like_ptx(const char* text) {
  constexpr int most = 4096;
  char comment = 0; // '/' to the line's end, '*' to the next "*/"
  for (int i = 0; i < most && text[i]; ++i) {
    if (comment) {
      const bool ends = comment == '/' ? text[i] == '\n' : text[i] == '*' && text[i + 1] == '/';
      if (ends && comment == '*') ++i;
      if (ends) comment = 0;
    } else if (text[i] == '/' && (text[i + 1] == '/' || text[i + 1] == '*')) {
      comment = text[++i];
    } else if (text[i] == '.') {
      return std::strncmp(text + i, ".version", 8) == 0;
    } else if (static_cast<unsigned char>(text[i]) >= 0x80) {
      return false;
    }
  }
  return false;
}

// CUDA's device runtime (libcudadevrt), by a function that it alone defines (CUDA Programming Guide, "Device-side
// Launch from PTX"). Linking leaves it out: code that calls it does not assemble then.
bool is_device_runtime(const Entries& entries) {
  constexpr std::string_view origin = "machine code";
  for (const ptx::FatbinEntry& entry : entries) {
    if (entry.kind != Kind::elf) continue;
    const Expected<std::string> bytes = ptx::unpack(entry, origin);
    if (!bytes) return false;
    const Expected<ptx::ElfFile> code = ptx::read_elf(*bytes, origin);
    return code && std::find(code->functions.begin(), code->functions.end(), "cudaGetParameterBufferV2") !=
                       code->functions.end();
  }
  return false;
}

// The driver compiles PTX even where there is machine code (CUDA C++ Programming Guide, "CUDA Environment Variables").
bool ptx_is_forced() {
  const char* setting = std::getenv("CUDA_FORCE_PTX_JIT");
  return setting && std::strcmp(setting, "1") == 0;
}

// The source file, where one of the entries says it; else the program or library that it lies in.
std::string name_of(const Entries& entries) {
  for (const ptx::FatbinEntry& entry : entries) {
    if (!entry.name.empty()) return std::string(entry.name);
  }
  Dl_info info{};
  if (!entries.empty() && dladdr(entries.front().stored.data(), &info) && info.dli_fname)
    return "a fat binary of " + std::string(info.dli_fname);
  return "a fat binary";
}

Expected<DeviceCode> linked(const std::vector<Entries>& parts, int architecture) {
  DeviceCode code;
  std::vector<std::string> texts;
  std::vector<const Entries*> without;  // PTX
  const bool forced = ptx_is_forced();
  for (const Entries& part : parts) {
    const Expected<const ptx::FatbinEntry*> found = ptx::ptx_for_device(part, architecture, forced, name_of(part));
    if (!found) return found.error();
    const ptx::FatbinEntry* const best = *found;
    if (!best) {
      if (&part != &parts.front()) without.push_back(&part);  // the first is the machine code of all, linked
      continue;
    }
    if (code.origin.empty()) code.origin = best->name;
    if (const unsigned most = best->max_registers(); most && (!code.max_registers || most < code.max_registers)) {
      code.max_registers = most;
    }
    Expected<std::string> text = ptx::unpack(*best, "a fat binary");
    if (!text) return text.error();
    texts.push_back(std::move(*text));
  }
  if (texts.empty()) return DeviceCode{};
  if (code.origin.empty()) code.origin = name_of(parts.front());
  if (!std::all_of(without.begin(), without.end(), [](const Entries* part) { return is_device_runtime(*part); })) {
    return Error{"source files were compiled apart, and some of them without PTX for this GPU", code.origin,
                 "build all of them with -gencode arch=compute_90,code=compute_90"};
  }
  Expected<std::string> text = ptx::link(texts, code.origin);
  if (!text) return text.error();
  code.text = std::move(*text);
  return code;
}

// Of a cubin, which says nothing of its PTX itself.
DeviceCode code_of_machine_code(std::string_view cubin) {
  DeviceCode code = made_code(cubin);
  if (code.text.empty()) code.text = triton_ptx(cubin, code.origin);
  return code;
}

}  // namespace

Expected<DeviceCode> device_code(const void* image, int architecture) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, 4);
  if (magic == wrapper_magic) {
    const Expected<std::vector<Entries>> parts = ptx::fatbin_parts_of_wrapper(image);
    return parts ? linked(*parts, architecture) : parts.error();
  }
  if (magic == container_magic) {
    Expected<Entries> entries = ptx::fatbin_entries_at(image);
    return entries ? linked({std::move(*entries)}, architecture) : entries.error();
  }
  DeviceCode code;
  const auto* text = static_cast<const char*>(image);
  if (std::memcmp(text, ELFMAG, SELFMAG) == 0) {
    code = code_of_machine_code({text, elf_size(image)});
  } else if (looks_like_ptx(text)) {
    code = {text, "PTX of the program"};
  }
  return code;
}

Expected<DeviceCode> device_code_of_file(const std::string& path, int architecture) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  DeviceCode code;
  std::uint32_t magic = 0;
  if (bytes.size() > sizeof magic) std::memcpy(&magic, bytes.data(), sizeof magic);
  if (magic == container_magic) {
    Expected<Entries> entries = ptx::fatbin_entries(bytes, path);
    return entries ? linked({std::move(*entries)}, architecture) : entries.error();
  }
  if (bytes.starts_with(ELFMAG)) {
    code.text = ptx_beside(path, code.origin);
    if (code.text.empty()) code = code_of_machine_code(bytes);
  } else if (looks_like_ptx(bytes.c_str())) {
    code = {std::move(bytes), path};
  }
  return code;
}

bool is_of_cuda_library(std::string_view origin) {
  const std::string_view file = origin.substr(origin.rfind('/') + 1);
  for (const std::string_view name : {"libcublas", "libcudnn", "libcufft", "libcurand", "libcusolver", "libcusparse",
                                      "libcutensor", "libnccl", "libnpp", "libnvjpeg"}) {
    if (file.starts_with(name) && file.find(".so") != file.npos) return true;
  }
  return false;
}

}  // namespace deadheat::cupti
