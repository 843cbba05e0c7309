// The table of entry points by name. They are declared without parameters, since cuda.h declares not all of them: so
// this file must not see it.
#include <cstring>

#include "replay/embedded/driver/lookups.h"

extern "C" {
#define X(name, version, symbol, per_thread) \
  int symbol();                              \
  int per_thread();
#include "replay/embedded/driver/entry_points.def"
#undef X
}

namespace deadheat::embedded {

namespace {

struct EntryPoint {
  const char* name;
  int version; // of CUDA, since which the name means this
  int (*legacy)();
  int (*per_thread)();
};
const EntryPoint entry_points[] = {
#define X(name, version, symbol, per_thread) {#name, version, &symbol, &per_thread},
#include "replay/embedded/driver/entry_points.def"
#undef X
};

} // namespace

Lookup driver_entry_point(const char* name, int version, bool per_thread, void** function) noexcept {
  const EntryPoint* best = nullptr;
  bool known = false;
  for (const EntryPoint& entry : entry_points) {
    if (std::strcmp(entry.name, name) != 0) continue;
    known = true;
    if (entry.version <= version && (!best || entry.version > best->version)) best = &entry;
  }
  *function = best ? reinterpret_cast<void*>(per_thread ? best->per_thread : best->legacy) : nullptr;
  return best ? Lookup::found : known ? Lookup::too_old : Lookup::unknown;
}

} // namespace deadheat::embedded
