#include "tracer/compilers/jit_link.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tracer/compilers/compiler_options.h"
#include "tracer/compilers/made_code.h"
#include "tracer/compilers/shared_knowledge.h"

namespace deadheat::cupti {

namespace {

using namespace std::string_view_literals;

constexpr int success = 0;

// nvJitLinkInputType
enum : int { input_cubin = 1, input_ptx = 2, input_lto_ir = 3, input_library = 6 };

// Of a link with LTO IR, from which PTX comes only as that is optimized: what it takes to have it made once more, as
// PTX (nvJitLink 4.2, -lto -ptx). Of a link without it there is none.
struct LtoLink {
  std::vector<std::string> options;
  std::vector<std::pair<std::string, std::string>> inputs; // LTO IR and its name
};
using LtoLinks = SharedKnowledge<std::map<JitLinkHandle, LtoLink>>;

LinkerInput kind_of(int type) {
  switch (type) {
    case input_ptx: return LinkerInput::ptx;
    case input_cubin: return LinkerInput::machine_code;
    case input_library: return LinkerInput::library;
    default: return LinkerInput::other;
  }
}

std::string ptx_of(const JitLink& real, const LtoLink& of) {
  std::vector<const char*> options;
  for (const std::string& option : of.options) options.push_back(option.c_str());
  options.push_back("-ptx");
  JitLinkHandle link = nullptr;
  if (real.create(&link, std::uint32_t(options.size()), options.data()) != success) return {};
  bool made = true;
  for (const auto& [bytes, name] : of.inputs)
    made = made && real.data(link, input_lto_ir, bytes.data(), bytes.size(), name.c_str()) == success;
  std::size_t length = 0;
  std::string text;
  if (made && real.complete(link) == success && real.ptx_size(link, &length) == success && length > 1) {
    text.resize(length);
    if (real.ptx(link, text.data()) != success) text.clear();
  }
  real.destroy(&link);
  return text;
}

} // namespace

JitLink jit_link_of(void* library, Lookup lookup) noexcept {
  JitLink all;
  set_function(all.create, lookup(library, "nvJitLinkCreate"));
  set_function(all.data, lookup(library, "nvJitLinkAddData"));
  set_function(all.file, lookup(library, "nvJitLinkAddFile"));
  set_function(all.complete, lookup(library, "nvJitLinkComplete"));
  set_function(all.cubin, lookup(library, "nvJitLinkGetLinkedCubin"));
  set_function(all.ptx_size, lookup(library, "nvJitLinkGetLinkedPtxSize"));
  set_function(all.ptx, lookup(library, "nvJitLinkGetLinkedPtx"));
  set_function(all.destroy, lookup(library, "nvJitLinkDestroy"));
  return all;
}

int jit_link_create(const JitLink& real, JitLinkHandle* link, std::uint32_t count, const char** options) noexcept {
  const int status = real.create(link, count, options);
  if (status != success || !link) return status;
  try {
    const std::vector<const char*> all = compiler_options(count, options);
    linker_begins(*link, max_registers(all));
    std::lock_guard hold(LtoLinks::get().lock);
    LtoLinks::get().known.erase(*link);
    if (std::find(all.begin(), all.end(), "-lto"sv) != all.end())
      LtoLinks::get().known[*link].options.assign(all.begin(), all.end());
  } catch (...) {
  }
  return status;
}

int jit_link_give(const JitLink& real, JitLinkHandle link, int type, const void* data, std::size_t bytes,
                  const char* name) noexcept {
  const int status = real.data(link, type, data, bytes, name);
  if (status != success) return status;
  const std::string_view input(static_cast<const char*>(data), bytes);
  try {
    std::lock_guard hold(LtoLinks::get().lock);
    const auto at = type == input_lto_ir ? LtoLinks::get().known.find(link) : LtoLinks::get().known.end();
    if (at != LtoLinks::get().known.end()) {
      at->second.inputs.emplace_back(input, name ? name : "");
      return status;
    }
  } catch (...) {
  }
  if (!is_device_runtime(kind_of(type), name ? name : "")) linker_given(link, kind_of(type), input);
  return status;
}

int jit_link_give_file(const JitLink& real, JitLinkHandle link, int type, const char* path) noexcept {
  const int status = real.file(link, type, path);
  if (status == success) linker_given_file(link, kind_of(type), path);
  return status;
}

int jit_link_hand_out(const JitLink& real, JitLinkHandle link, void* cubin) noexcept {
  const int status = real.cubin(link, cubin);
  if (status != success) return status;
  try {
    LtoLink lto;
    {
      std::lock_guard hold(LtoLinks::get().lock);
      if (const auto at = LtoLinks::get().known.find(link); at != LtoLinks::get().known.end())
        lto.inputs.swap(at->second.inputs);
      if (!lto.inputs.empty()) lto.options = LtoLinks::get().known[link].options;
    }
    if (!lto.inputs.empty()) {
      const std::string text = ptx_of(real, lto);
      linker_given(link, text.empty() ? LinkerInput::other : LinkerInput::ptx, text);
    }
  } catch (...) {
    linker_given(link, LinkerInput::other, {});
  }
  linker_made(link, cubin);
  return status;
}

int jit_link_destroy(const JitLink& real, JitLinkHandle* link) noexcept {
  if (link) {
    linker_ends(*link);
    std::lock_guard hold(LtoLinks::get().lock);
    LtoLinks::get().known.erase(*link);
  }
  return real.destroy(link);
}

} // namespace deadheat::cupti
