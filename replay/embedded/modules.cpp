#include "replay/embedded/modules.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <utility>

#include "replay/embedded/names.h"
#include "replay/embedded/own_ptx.h"
#include "replay/embedded/runtime.h"
#include "tracer/ptx/demangle.h"
#include "tracer/ptx/fatbin.h"
#include "tracer/ptx/link.h"

namespace deadheat::embedded {

namespace {

// The PTX image to run: of those that the device can take, the newest; of equal ones the one for all GPUs of that
// architecture rather than one GPU's own ("sm_90" before "sm_90a"), since the engine has no arch-specific units.
const ptx::FatbinEntry* choose_image(const std::vector<ptx::FatbinEntry>& entries, unsigned capability) {
  auto specific = [](const ptx::FatbinEntry& entry) {
    return (entry.flags & (ptx::FatbinEntry::arch_specific | ptx::FatbinEntry::family_specific)) != 0;
  };
  const ptx::FatbinEntry* best = nullptr;
  for (const ptx::FatbinEntry& entry : entries) {
    if (entry.kind != ptx::FatbinEntry::Kind::ptx || entry.architecture > capability) continue;
    if (specific(entry) && entry.architecture != capability) continue;
    if (!best || entry.architecture > best->architecture ||
        (entry.architecture == best->architecture && specific(*best) && !specific(entry))) {
      best = &entry;
    }
  }
  return best;
}

// What there is, each once: "PTX for sm_120, machine code for sm_80, sm_90".
std::string architectures(const std::vector<ptx::FatbinEntry>& entries) {
  std::string list;
  for (const bool ptx : {true, false}) {
    std::set<std::pair<std::uint32_t, std::string>> targets; // in the order of their numbers
    for (const ptx::FatbinEntry& entry : entries)
      if ((entry.kind == ptx::FatbinEntry::Kind::ptx) == ptx) targets.emplace(entry.architecture, entry.target());
    const char* before = ptx ? "PTX for " : list.empty() ? "machine code for " : ", machine code for ";
    for (const auto& [number, target] : targets) list += std::exchange(before, ", ") + target;
  }
  return list.empty() ? "nothing" : list;
}

// How to run it all the same: with the first device that takes some of its PTX, else with other code.
std::string way_out(const std::vector<ptx::FatbinEntry>& entries) {
  for (const Profile& profile : profiles)
    if (choose_image(entries, profile.architecture())) return "record it with --capability " + profile.capability();
  return "build it with NVCC_APPEND_FLAGS='-gencode arch=compute_90,code=compute_90 -lineinfo'";
}

} // namespace

std::string refusal(const FatBinary& binary, const engine::KernelInfo& kernel) {
  return binary.origin + ": kernel " + ptx::brief_name(kernel.name) + ": " + kernel.refused;
}

// libcuda.so.1 watches the compilers (driver/watched_compilers.cpp).
std::string ptx_of_machine_code(const void* image, std::uint64_t bytes) {
  using Lookup = void (*)(const void*, std::uint64_t, std::string*);
  static const auto known = reinterpret_cast<Lookup>(dlsym(RTLD_DEFAULT, "deadheat_made_code"));
  std::string text;
  if (known) known(image, bytes, &text);
  return text;
}

FatBinary* Modules::add(const void* wrapper) {
  binaries_.push_back(std::make_unique<FatBinary>());
  FatBinary* binary = binaries_.back().get();
  binary->wrapper = wrapper;
  binary->origin = file_of(wrapper);
  return binary;
}

FatBinary* Modules::add_library(ImageKind kind, std::string image, std::string origin) {
  binaries_.push_back(std::make_unique<FatBinary>());
  FatBinary* binary = binaries_.back().get();
  binary->library = true;
  binary->kind = kind;
  if (kind == ImageKind::wrapper)
    std::memcpy(&binary->wrapper, image.data(), sizeof binary->wrapper);
  else
    binary->image = std::move(image);
  binary->origin = std::move(origin);
  return binary;
}

ImageKind image_kind(const void* image, std::uint64_t* bytes) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic == 0x466243B1) return ImageKind::wrapper;
  if (magic == 0xBA55ED50) { // u16 version, u16 header size, u64 bytes that follow (tracer/ptx/fatbin.h)
    std::uint64_t rest = 0;
    std::memcpy(&rest, static_cast<const char*>(image) + 8, sizeof rest);
    *bytes = rest + 16;
    return ImageKind::fatbin;
  }
  if (magic == 0x464C457F) return ImageKind::machine_code;
  const auto* text = static_cast<const char*>(image);
  const bool printable =
      *text && (std::isprint(static_cast<unsigned char>(*text)) || std::isspace(static_cast<unsigned char>(*text)));
  return printable ? ImageKind::ptx : ImageKind::unknown;
}

void Modules::add_function(FatBinary* binary, const void* host, std::string name) {
  auto made = std::make_unique<Function>();
  made->binary = binary;
  made->host = host;
  made->name = std::move(name);
  binary->functions.push_back(made.get());
  if (host) by_host_[host] = made.get();
  by_handle_[made.get()] = made.get();
  functions_.push_back(std::move(made));
}

void Modules::add_variable(FatBinary* binary, const void* host, std::string name, std::uint64_t bytes) {
  variables_[host] = {binary, std::move(name), bytes, false};
}

void Modules::add_managed(FatBinary* binary, void** pointer, std::string name, std::uint64_t bytes) {
  binary->managed.push_back({pointer, name});
  variables_[pointer] = {binary, std::move(name), bytes, true};
}

void Modules::remove(FatBinary* binary) {
  binary->unregistered = true;
  for (Function* function : binary->functions) {
    if (function->host) by_host_.erase(function->host);
    if (binary->library) by_handle_.erase(function);
  }
  std::erase_if(variables_, [&](const auto& entry) { return entry.second.binary == binary; });
}

Function* Modules::function(const void* host) const {
  auto found = by_host_.find(host);
  if (found != by_host_.end()) return found->second;
  found = by_handle_.find(host);
  return found == by_handle_.end() ? nullptr : found->second;
}

Function* Modules::function(std::uint32_t module, const std::string& name) const {
  for (const auto& function : functions_) {
    if (function->binary->module == module && function->name == name) return function.get();
  }
  return nullptr;
}

const Variable* Modules::variable(const void* host) const {
  auto found = variables_.find(host);
  if (found != variables_.end()) return &found->second;
  for (const auto& [pointer, variable] : variables_) { // a managed variable's name means the memory it stands for
    if (variable.managed && *static_cast<void* const*>(pointer) == host) return &variable;
  }
  return nullptr;
}

bool Modules::is_binary(const void* handle) const {
  return std::any_of(binaries_.begin(), binaries_.end(), [&](const auto& binary) { return binary.get() == handle; });
}

Expected<std::string> text_of(FatBinary& binary, const Profile& profile) {
  if (binary.library && binary.kind == ImageKind::ptx) return binary.image;
  if (binary.library && binary.kind == ImageKind::machine_code) {
    binary.failed = cudaErrorNoKernelImageForDevice;
    return Error{"machine code cannot run on the embedded device", binary.origin,
                 "load PTX or a fat binary that holds it"};
  }
  binary.failed = cudaErrorInvalidKernelImage;
  using Parts = std::vector<std::vector<ptx::FatbinEntry>>;
  Expected<Parts> parts = Parts{};
  if (binary.wrapper) {
    parts = ptx::fatbin_parts_of_wrapper(binary.wrapper);
  } else if (auto entries = ptx::fatbin_entries(binary.image, binary.origin)) {
    parts = Parts{std::move(*entries)};
  } else {
    parts = entries.error();
  }
  if (!parts) return Error{binary.origin + ": " + parts.error().message()};
  std::vector<std::string> texts; // of source files that were compiled apart, to be linked
  std::vector<ptx::FatbinEntry> all;
  for (const std::vector<ptx::FatbinEntry>& part : *parts) {
    all.insert(all.end(), part.begin(), part.end());
    const ptx::FatbinEntry* image = choose_image(part, profile.architecture());
    if (!image) continue;
    Expected<std::string> text = ptx::unpack(*image, binary.origin);
    if (!text) return text;
    texts.push_back(std::move(*text));
  }
  if (texts.empty()) {
    binary.failed = cudaErrorNoKernelImageForDevice;
    return Error{fmt::format("{}: no PTX for compute capability {} (it holds {}): {}", binary.origin,
                             profile.capability(), architectures(all), way_out(all))};
  }
  Expected<std::string> text = ptx::link(texts, binary.origin);
  if (text) binary.failed = cudaSuccess;
  return text;
}

cudaError_t Modules::load(FatBinary& binary, device::Device& device) {
  if (binary.module || binary.failed != cudaSuccess) return binary.failed;
  if (binary.unregistered) return cudaErrorInvalidResourceHandle;
  Expected<std::string> text = text_of(binary, device.profile());
  const std::string& own = runtime().options.ptx;
  if (text && !own.empty() && !binary.library) text = own_ptx(own, std::move(*text), binary.origin);
  if (!text) {
    binary.why = text.error().message();
    say(binary.why);
    return binary.failed == cudaSuccess ? binary.failed = cudaErrorInvalidKernelImage : binary.failed;
  }
  Expected<std::uint32_t> loaded = device.load_module(std::move(*text), binary.origin);
  if (!loaded) {
    binary.why = loaded.error().message();
    say(binary.why);
    return binary.failed = cudaErrorInvalidPtx;
  }
  binary.module = *loaded;
  constexpr std::size_t most = 10;
  std::size_t refused = 0;
  for (const std::string& name : device.module(binary.module)->kernel_names()) {
    const engine::KernelInfo* kernel = device.module(binary.module)->kernel(name);
    if (kernel && !kernel->refused.empty() && ++refused <= most) say_once(refusal(binary, *kernel));
  }
  if (refused > most) say(fmt::format("{}: and {} kernels more", binary.origin, refused - most));
  for (const ManagedVariable& variable : binary.managed) {
    *variable.pointer = reinterpret_cast<void*>(device.symbol_address(binary.module, variable.name, nullptr));
  }
  return cudaSuccess;
}

} // namespace deadheat::embedded
