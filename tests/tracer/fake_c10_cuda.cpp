// A stand-in for libc10_cuda.so: hands out blocks of a segment that it asked the driver for, the lowest that is free,
// and reports each of them as PyTorch's allocator does: under its lock, what it hands out as soon as it has it, what it
// takes back when it is told to.
#include <cuda.h>

#include <map>
#include <mutex>
#include <string>

#include "tests/tracer/fake_c10.h"

namespace {

constexpr std::size_t segment_bytes = 2 << 20;
std::recursive_mutex lock;
std::map<std::uint64_t, std::size_t> blocks;
std::size_t allocated = 0;

void report(std::uint64_t block, std::int64_t bytes, const std::string& how) {
  void* const pointer = reinterpret_cast<void*>(block);
  const c10::Device device(c10::DeviceType::CUDA, 0);
  if (how == "old") return c10::reportMemoryUsageToProfiler(pointer, bytes, device);
  c10::reportMemoryUsageToProfiler(pointer, bytes, allocated, segment_bytes, device);
}

} // namespace

std::uint64_t fake_block(std::size_t bytes, const char* how) {
  std::lock_guard hold(lock);
  static CUdeviceptr segment = 0;
  if (!segment) cuMemAlloc(&segment, segment_bytes);
  bytes = (bytes + 511) / 512 * 512;
  std::uint64_t at = segment;
  for (const auto& [address, size] : blocks) {
    if (address - at >= bytes) break;
    at = address + size;
  }
  blocks[at] = bytes;
  allocated += bytes;
  report(at, std::int64_t(bytes), how);
  return at;
}

void fake_give(std::uint64_t block, const char* how) {
  std::lock_guard hold(lock);
  const std::size_t bytes = blocks.at(block);
  blocks.erase(block);
  allocated -= bytes;
  report(block, -std::int64_t(bytes), how);
}

void fake_tell(std::uint64_t block, std::int64_t bytes) {
  std::lock_guard hold(lock);
  report(block, bytes, "new");
}
