// CUDA arrays, by their handles: what the trace says of memory that has no address on a GPU. Each is an allocation in a
// range of its own (deadheat/address.h, array_memory), with the layout that arrays have on the embedded device
// (ptx/texture.h), so that copies and texels are ranges there.
//
// What nobody saw being made, what other libraries made (graphics, other processes' memory), and formats whose texels
// are no whole bytes apart, are not followed: a copy's side there is nobody's memory, as before.
//
// Thread-safety: under the session's lock.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/ptx/texture.h"

namespace deadheat::cupti {

// What the driver's formats mean; none: they are not followed.
std::optional<ptx::TexelFormat> texel_format(CUarray_format format, unsigned channels);

struct KnownArray {
  ptx::TextureDescriptor layout; // as ptx/texture.h has it of an object that shows all of it
  std::uint32_t allocation = 0; // that it lies in
  CUcontext context = nullptr;
  const void* whole = nullptr; // of a level: the handle of its mipmapped array
};

class Arrays {
 public:
  // The range of a new array, of `levels` levels where it is mipmapped, else 0; null: it is not followed.
  const KnownArray* made(const void* handle, CUcontext context, const CUDA_ARRAY3D_DESCRIPTOR& description,
                         unsigned levels, std::uint32_t allocation);
  void has_level(CUmipmappedArray mipmapped, unsigned level, CUarray handle);
  const KnownArray* find(const void* handle) const;
  std::optional<KnownArray> take(const void* handle); // with its levels: it is being destroyed
  void put_back(const void* handle, const KnownArray& array) { arrays_[handle] = array; }
  std::vector<std::uint32_t> context_gone(CUcontext context); // the allocations that go with it

 private:
  std::unordered_map<const void*, KnownArray> arrays_;
  std::uint64_t next_ = 0; // from the beginning of array_memory; no place is used twice
};

// The range of `width` bytes, rows and slices from there on; at address 0 where the array is not known or ends before.
trace::MemoryRange range_of(const KnownArray* array, std::uint64_t x, std::uint64_t y, std::uint64_t z,
                            std::uint64_t width, std::uint64_t rows, std::uint64_t slices);

} // namespace deadheat::cupti
