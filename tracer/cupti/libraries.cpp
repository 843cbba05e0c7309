#include "tracer/cupti/libraries.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace deadheat::cupti {
namespace {

Driver driver_table;
Cupti cupti_table;

// A library of that name that the process has mapped already (PyTorch brings its own CUPTI).
std::string mapped(const char* name) {
  std::string found;
  if (FILE* maps = std::fopen("/proc/self/maps", "re")) {
    char line[4352];
    while (found.empty() && std::fgets(line, sizeof line, maps)) {
      const char* path = std::strchr(line, '/');
      if (!path || !std::strstr(path, name)) continue;
      found.assign(path, std::strcspn(path, "\n"));
    }
    std::fclose(maps);
  }
  return found;
}

void* open_cupti(const std::string& path) {
  if (!path.empty()) return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::vector<std::string> places;
  if (std::string already = mapped("/libcupti.so"); !already.empty()) places.push_back(already);
  places.push_back("libcupti.so.13");
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable)) {
      places.push_back(std::string(home) + "/lib64/libcupti.so.13");
      places.push_back(std::string(home) + "/extras/CUPTI/lib64/libcupti.so.13");
    }
  }
  places.push_back("/usr/local/cuda/lib64/libcupti.so.13");
  places.push_back("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13");
  places.push_back("/usr/local/cuda-13.0/lib64/libcupti.so.13");
  places.push_back("libcupti.so.12");
  places.push_back("libcupti.so");
  for (const std::string& place : places) {
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace

const Driver& driver() { return driver_table; }
const Cupti& cupti() { return cupti_table; }

bool load_driver(std::string& why) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!library) library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    why = "libcuda.so.1 cannot be opened";
    return false;
  }
#define X(name) driver_table.name = reinterpret_cast<decltype(driver_table.name)>(dlsym(library, #name));
  DEADHEAT_DRIVER_FUNCTIONS(X)
#undef X
  if (!driver_table.cuCtxGetDevice || !driver_table.cuMemAlloc_v2 || !driver_table.cuStreamIsCapturing) {
    why = "the driver is too old";
    return false;
  }
  return true;
}

bool load_cupti(const std::string& path, std::string& why) {
  void* library = open_cupti(path);
  if (!library) {
    why =
        "libcupti.so.13 is not found: name it with cupti=PATH in DEADHEAT_OPTIONS, or install the CUDA toolkit's CUPTI";
    return false;
  }
#define X(name) cupti_table.name = reinterpret_cast<decltype(cupti_table.name)>(dlsym(library, #name));
  DEADHEAT_CUPTI_FUNCTIONS(X)
#undef X
  if (!cupti_table.cuptiSubscribe || !cupti_table.cuptiEnableCallback || !cupti_table.cuptiGetCallbackName) {
    why = "libcupti lacks functions that are needed";
    return false;
  }
  return true;
}

}  // namespace deadheat::cupti
