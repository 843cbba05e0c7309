#include "tracer/compilers/made_code.h"

#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tracer/compilers/shared_knowledge.h"
#include "tracer/compilers/triton.h"
#include "tracer/ptx/link.h"
#include "tracer/recorder/blobs.h"

namespace deadheat::cupti {

namespace {

constexpr std::size_t most_bytes = std::size_t(256) << 20; // of texts

struct Linker {
  std::vector<std::string> texts;
  unsigned max_registers = 0;
  bool complete = true; // the texts are all of it
};

struct Store {
  std::unordered_map<std::string, DeviceCode> made; // by the machine code's hash
  std::deque<std::string> order; // of these, the oldest first
  std::size_t bytes = 0;
  std::map<const void*, Linker> linkers;
};
std::string key_of(std::string_view machine_code) {
  return trace::to_text(
      trace::hash_blob({reinterpret_cast<const std::uint8_t*>(machine_code.data()), machine_code.size()}));
}

template <typename Do>
void quietly(Do&& act) noexcept {
  try {
    auto& [lock, store] = SharedKnowledge<Store>::get();
    std::lock_guard hold(lock);
    act(store);
  } catch (...) {
  }
}

void keep(Store& all, std::string_view machine_code, DeviceCode from) {
  if (machine_code.empty() || from.text.empty()) return;
  const std::string key = key_of(machine_code);
  const auto [at, fresh] = all.made.try_emplace(key);
  if (fresh) all.order.push_back(key);
  all.bytes += from.text.size() - at->second.text.size();
  at->second = std::move(from);
  while (all.bytes > most_bytes && all.order.size() > 1) {
    const auto oldest = all.made.find(all.order.front());
    all.bytes -= oldest->second.text.size();
    all.made.erase(oldest);
    all.order.pop_front();
  }
}

void limit(Linker& link, unsigned registers) {
  if (registers && (!link.max_registers || registers < link.max_registers)) link.max_registers = registers;
}

void add(Store& all, Linker& to, LinkerInput kind, std::string_view bytes) {
  if (kind == LinkerInput::ptx) {
    to.texts.emplace_back(bytes.substr(0, bytes.find('\0')));
    return;
  }
  const auto found = kind == LinkerInput::machine_code ? all.made.find(key_of(bytes)) : all.made.end();
  if (found == all.made.end()) {
    to.complete = false;
  } else {
    to.texts.push_back(found->second.text);
    limit(to, found->second.max_registers);
  }
}

} // namespace

void keep_made_code(const void* machine_code, DeviceCode from) noexcept {
  quietly([&](Store& all) {
    keep(all, {static_cast<const char*>(machine_code), elf_size(machine_code)}, std::move(from));
  });
}

DeviceCode made_code(std::string_view machine_code) noexcept {
  DeviceCode code;
  quietly([&](Store& all) {
    if (all.made.empty()) return;
    const auto found = all.made.find(key_of(machine_code));
    if (found != all.made.end()) code = found->second;
  });
  return code;
}

void linker_begins(const void* linker, unsigned max_registers) noexcept {
  quietly([&](Store& all) { all.linkers[linker] = {.texts = {}, .max_registers = max_registers, .complete = true}; });
}

void linker_limited(const void* linker, unsigned max_registers) noexcept {
  quietly([&](Store& all) { limit(all.linkers[linker], max_registers); });
}

void linker_given(const void* linker, LinkerInput kind, std::string_view bytes) noexcept {
  quietly([&](Store& all) { add(all, all.linkers[linker], kind, bytes); });
}

bool is_device_runtime(LinkerInput kind, std::string_view path) noexcept {
  return kind == LinkerInput::library && path.substr(path.rfind('/') + 1).starts_with("libcudadevrt");
}

void linker_given_file(const void* linker, LinkerInput kind, std::string_view path) noexcept {
  quietly([&](Store& all) {
    if (is_device_runtime(kind, path)) return;
    std::ifstream file{std::string(path), std::ios::binary};
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    add(all, all.linkers[linker], file ? kind : LinkerInput::other, bytes);
  });
}

void linker_made(const void* linker, const void* machine_code) noexcept {
  quietly([&](Store& all) {
    const auto found = all.linkers.find(linker);
    if (found == all.linkers.end() || !found->second.complete || found->second.texts.empty()) return;
    const Linker& of = found->second;
    Expected<std::string> text = of.texts.size() == 1 ? of.texts.front() : ptx::link(of.texts, "linked PTX");
    if (!text) return;
    keep(all, {static_cast<const char*>(machine_code), elf_size(machine_code)},
         {.text = std::move(*text), .origin = "linked PTX", .max_registers = of.max_registers});
  });
}

void linker_ends(const void* linker) noexcept {
  quietly([&](Store& all) { all.linkers.erase(linker); });
}

} // namespace deadheat::cupti
