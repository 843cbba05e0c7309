#include "replay/embedded/names.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include "replay/device/fault_text.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::embedded {

std::string describe_fault(const trace::MemoryError& fault, const LaunchNote* launch, engine::LoadedModule* module) {
  const Site* site = module && fault.site < module->sites().size() ? &module->sites()[fault.site] : nullptr;
  if (!launch) return device::fault_text(fault, nullptr, site);
  const device::FaultedLaunch of{ptx::brief_name(launch->kernel), launch->grid, launch->block};
  return device::fault_text(fault, &of, site);
}

std::string static_runtime_line(const std::string& file) {
  return file +
         " links the CUDA runtime statically and has no symbols of CUDA 13's, which finds no device behind the "
         "embedded one: link it with -cudart shared";
}

std::string file_of(const void* address) {
  Dl_info info;
  link_map* map = nullptr;
  if (!dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map) return "";
  if (map->l_name && *map->l_name) return map->l_name;
  char path[4096]; // the program itself has no name here, and argv[0] may be a word from PATH
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, std::size_t(length)) : std::string(info.dli_fname ? info.dli_fname : "");
}

} // namespace deadheat::embedded
