// CUDA arrays, mipmapped ones included: what the runtime knows of each (Runtime API, "Memory Management").
//
// An array is an allocation of the device with the engine's layout (engine/texture.h, level_layout), so that a copy to
// or from one is a copy between ranges of memory like others. A level of a mipmapped array is an array of its own, in
// the same memory.
//
// Thread-safety: none; Runtime::lock.
#pragma once

#include <memory>
#include <vector>

#include "replay/embedded/copies.h"
#include "replay/engine/texture.h"

namespace deadheat::embedded {

struct Array {
  engine::TextureDescriptor layout; // base, extent, layers, levels, format, kind of array
  cudaChannelFormatDesc format = {};
  cudaExtent extent = {}; // as the program gave it
  unsigned flags = 0;
  bool mipmapped = false;
  std::vector<std::unique_ptr<Array>> levels; // of a mipmapped array
};

// The array, or the level of one, that a handle means; null for others.
Array* array_of(cudaArray_const_t handle);
Array* array_of(cudaMipmappedArray_const_t handle);
cudaArray_t handle_of(const Array* array);
// The array whose memory holds an address, and which element is there; null: none's.
const Array* array_at(std::uint64_t address, cudaPos* position);

// What a channel description means; an error where there is no such format.
cudaError_t texel_format(const cudaChannelFormatDesc& description, engine::TexelFormat* format);

// One side of a copy: where in memory the part begins, and the pitches. Units: elements, rows, slices.
struct ArrayPart {
  void* address = nullptr;
  std::uint64_t pitch = 0, slice = 0;
};
cudaError_t part_of(const Array& array, const cudaPos& at, const cudaExtent& extent, ArrayPart* part);

} // namespace deadheat::embedded
