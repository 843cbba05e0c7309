// Programs and libraries that carry the CUDA runtime in themselves (nvcc -cudart static, the default), and its symbols:
// each of its functions becomes a jump to the function of that name of the library libcudart.so.13, which is preloaded
// beside this one. That has to come before their constructors, which register their kernels: the dynamic linker calls
// this library's constructor before all others (DF_1_INITFIRST), and where libraries are loaded later, a function of
// its own before it calls theirs, which is there for debuggers to stop at (<link.h>, r_brk), and empty: it becomes a
// jump, too.
//
// A library of its own, since others' constructors have not run when it works: it uses what needs none.
//
// Thread-safety: the dynamic linker calls it under its lock.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tracer/ptx/static_runtime.h"

namespace {

using deadheat::ptx::StaticRuntime;

constexpr const char* runtime = "libcudart.so.13";

bool is_runtime(const char* path) { return path && std::string_view(path).ends_with(runtime); }

// Of the preloaded library; null: it has none of that name.
const void* replacement(const std::string& name) {
  const void* found = dlsym(RTLD_DEFAULT, name.c_str());
  Dl_info info;
  return found && dladdr(found, &info) && is_runtime(info.dli_fname) ? found : nullptr;
}

// The pages of [begin, end) may be written, for as long as this lives.
class Writable {
 public:
  Writable(std::uintptr_t begin, std::uintptr_t end) {
    const std::uintptr_t page = std::uintptr_t(sysconf(_SC_PAGESIZE));
    begin_ = begin / page * page;
    bytes_ = end - begin_;
    good_ = mprotect(reinterpret_cast<void*>(begin_), bytes_, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
  }
  ~Writable() {
    if (good_) mprotect(reinterpret_cast<void*>(begin_), bytes_, PROT_READ | PROT_EXEC);
  }
  Writable(const Writable&) = delete;
  Writable& operator=(const Writable&) = delete;
  bool good() const { return good_; }

 private:
  std::uintptr_t begin_ = 0, bytes_ = 0;
  bool good_ = false;
};

// jmp *0(%rip), and what it finds there.
void lead(std::uintptr_t at, const void* to) {
  constexpr std::uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
  static_assert(sizeof jump + sizeof to == StaticRuntime::room);
  std::memcpy(reinterpret_cast<void*>(at), jump, sizeof jump);
  std::memcpy(reinterpret_cast<void*>(at + sizeof jump), &to, sizeof to);
}

void replace(const char* path, std::uintptr_t base) {
  const StaticRuntime found = deadheat::ptx::static_runtime(path);
  if (found.functions.empty() || !found.of_13) return;
  const Writable code(base + found.functions.front().address,
                      base + found.functions.back().address + StaticRuntime::room);
  if (!code.good()) return;
  for (const StaticRuntime::Function& function : found.functions) {
    if (const void* to = replacement(function.name)) lead(base + function.address, to);
  }
}

r_debug* linker() {
  static r_debug* const found = static_cast<r_debug*>(dlsym(RTLD_DEFAULT, "_r_debug"));
  return found;
}

// What has been loaded since the last call, and has not run yet.
void look() noexcept {
  static std::set<std::pair<const link_map*, ElfW(Addr)>>& known =
      *new std::set<std::pair<const link_map*, ElfW(Addr)>>;
  try {
    std::set<std::pair<const link_map*, ElfW(Addr)>> loaded;
    const link_map* const program = linker()->r_map;
    for (const link_map* object = program; object; object = object->l_next) {
      if (!loaded.emplace(object, object->l_addr).second || known.count({object, object->l_addr})) continue;
      const char* path = object == program ? "/proc/self/exe" : object->l_name;
      if (path && *path == '/' && !is_runtime(path)) replace(path, object->l_addr);
    }
    known.swap(loaded);
  } catch (...) { // what is not replaced finds no device, and says so
  }
}

void changed() {
  if (linker()->r_state == r_debug::RT_CONSISTENT) look();
}

// Where the linker's function does nothing, and has room.
void follow() {
  const std::uintptr_t at = linker()->r_brk;
  if (!at) return;
  const auto* code = reinterpret_cast<const std::uint8_t*>(at);
  constexpr std::uint8_t marker[] = {0xf3, 0x0f, 0x1e, 0xfa}, ret = 0xc3; // endbr64
  std::size_t i = std::memcmp(code, marker, sizeof marker) == 0 ? sizeof marker : 0;
  if (code[i] != ret || at % 16 != 0) return;
  const Writable page(at, at + StaticRuntime::room);
  if (page.good()) lead(at, reinterpret_cast<const void*>(&changed));
}

__attribute__((constructor)) void begin() {
  if (!linker() || !replacement("cudaMalloc")) return;
  look();
  follow();
}

} // namespace
