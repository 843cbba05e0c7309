// The blocks of PyTorch's caching allocator, which makes many tensors of one allocation.
//
// The allocator reports each block that it hands out or takes back to the profiler, through a function that libc10.so
// exports and libc10_cuda.so calls (c10/core/Allocator.h, reportMemoryUsageToProfiler; seen in the libraries of PyTorch
// 2.11, where alloc_found_block and free are its only callers). This library, preloaded, comes first in the search for
// that symbol: the calls come here and are handed on. The name says the types of the arguments, so that a version with
// others has another name, and is not followed. The reports come under the allocator's lock: blocks arrive in the order
// in which they were handed out, ahead of any launch that is given them.
//
// Of other ways, a tracker that is attached to the allocator is called through a virtual function whose place, and with
// a structure whose layout, change between versions; a history or a snapshot has to be asked for from Python, under its
// lock, at each launch; an allocator of ours, or cudaMallocAsync for all, would change the job.
//
// Where the library was not preloaded, or an allocator reports nothing, footprints are whole allocations.
//
// Thread-safety: any thread, under the allocator's lock. The journal's lock is the only one that is taken.
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/cupti/session.h"

#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"

namespace {

using Report = void (*)(void* block, std::int64_t bytes, std::size_t allocated, std::size_t reserved,
                        std::uint32_t device);
constexpr std::uint8_t cuda = 1; // c10::DeviceType::CUDA, the first byte of a c10::Device

} // namespace

// A c10::Device is two bytes, handed over in a register as a number is (System V ABI, AMD64, 3.2.3).
extern "C" __attribute__((visibility("default"))) void deadheat_block_report(void* block, std::int64_t bytes,
                                                                             std::size_t allocated,
                                                                             std::size_t reserved,
                                                                             std::uint32_t device) asm(REPORT);

namespace {

void note(void* block, std::int64_t bytes) noexcept {
  using deadheat::cupti::Session;
  Session* session = Session::get();
  if (!session || !block || !bytes) return;
  try {
    session->journal().push(deadheat::cupti::Journal::AllocatorBlock{reinterpret_cast<std::uint64_t>(block), bytes});
  } catch (...) {
    // Out of memory. The next block that is told of in its place, or its being given back, makes no sense then, and
    // blocks are not believed any more; until then a launch that gets it may reach less than it should.
  }
}

// The function that the caller would have called: libc10.so's, which need not be visible to the whole process.
Report real(const void* caller) {
  static std::atomic<void*> known{nullptr};
  void* found = known.load(std::memory_order_acquire);
  if (found) return reinterpret_cast<Report>(found);
  Dl_info library{};
  if (dladdr(caller, &library) && library.dli_fname) {
    if (void* handle = dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
      found = dlsym(handle, REPORT);
      dlclose(handle); // the caller is in it: it stays
    }
  }
  if (!found || found == reinterpret_cast<void*>(&deadheat_block_report)) found = dlsym(RTLD_NEXT, REPORT);
  if (!found || found == reinterpret_cast<void*>(&deadheat_block_report)) return nullptr;
  known.store(found, std::memory_order_release);
  return reinterpret_cast<Report>(found);
}

} // namespace

// Exceptions of the profiler pass through: there is nothing here that they could leave behind.
[[gnu::hot]] void deadheat_block_report(void* block, std::int64_t bytes, std::size_t allocated, std::size_t reserved,
                                        std::uint32_t device) {
  if (std::uint8_t(device) == cuda) note(block, bytes);
  if (const Report report = real(__builtin_return_address(0))) report(block, bytes, allocated, reserved, device);
}
