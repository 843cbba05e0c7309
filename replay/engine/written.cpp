#include "replay/engine/written.h"

#include <sys/mman.h>

#include <cstring>

namespace deadheat::engine {

bool map_written_shadow() {
  static const bool mapped = [] {
    const std::uint64_t begin = written_anywhere, bytes = written_shadow - begin + device_arena_bytes + 4096;
    void* at = reinterpret_cast<void*>(begin);
    void* got = mmap(at, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != at) {
      if (got != MAP_FAILED) munmap(got, bytes);
      return false;
    }
    madvise(at, bytes, MADV_NOHUGEPAGE); // it is sparse
    std::memset(at, 0xff, 4096);
    return true;
  }();
  return mapped;
}

} // namespace deadheat::engine
