// Stand-ins for libc10.so and libc10_cuda.so: what of PyTorch's caching allocator the preload library sees. The names
// are c10's, since what counts is how they are mangled.
//
// Thread-safety: as the allocator's: one lock for all.
#pragma once

#include <cstddef>
#include <cstdint>

#define EXPORT __attribute__((visibility("default")))

namespace c10 {

enum class DeviceType : std::int8_t { CPU = 0, CUDA = 1 };
struct Device {
  Device(DeviceType type, std::int8_t index) : type_(type), index_(index) {}
  DeviceType type_;
  std::int8_t index_;
};

EXPORT void reportMemoryUsageToProfiler(void* ptr, std::int64_t alloc_size, std::size_t total_allocated,
                                        std::size_t total_reserved, Device device);
// As PyTorch 1.8 had it.
EXPORT void reportMemoryUsageToProfiler(void* ptr, std::int64_t alloc_size, Device device);

}  // namespace c10

// What fake_c10_cuda.cpp has for torch_job.cpp, found with dlsym. `how`: "new" or "old", as above.
extern "C" {
EXPORT std::uint64_t fake_block(std::size_t bytes, const char* how); // of 512 bytes and up, out of a segment of 2 MiB
EXPORT void fake_give(std::uint64_t block, const char* how);
EXPORT void fake_tell(std::uint64_t block, std::int64_t bytes); // reports that much, and does nothing
EXPORT long fake_reports(); // that libc10.so got, of both kinds and of all devices
}
