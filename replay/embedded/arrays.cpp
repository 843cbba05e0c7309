// Arrays: making, freeing and asking about them.
#include "replay/embedded/arrays.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "replay/embedded/call_site.h"
#include "replay/embedded/graph.h"

using namespace deadheat::embedded;
using deadheat::engine::ChannelKind;
using deadheat::engine::LevelLayout;
using deadheat::engine::TexelFormat;

namespace {

using Index = std::unordered_map<const void*, std::unique_ptr<Array>>;
Index& arrays() { // never destroyed: see Runtime
  static auto* index = new Index;
  return *index;
}

Array* find(const void* handle, bool mipmapped) {
  const auto found = arrays().find(handle);
  if (found != arrays().end()) return found->second->mipmapped == mipmapped ? found->second.get() : nullptr;
  if (mipmapped) return nullptr;
  for (const auto& [whole, array] : arrays())
    for (const auto& level : array->levels)
      if (level.get() == handle) return level.get();
  return nullptr;
}

constexpr unsigned known_flags =
    cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayCubemap | cudaArrayTextureGather | cudaArrayColorAttachment;

cudaError_t check_flags(unsigned flags) {
  if (flags & (cudaArraySparse | cudaArrayDeferredMapping)) {
    say_once("sparse arrays and arrays that are mapped later are not supported by the embedded device");
    return cudaErrorNotSupported;
  }
  return flags & ~known_flags ? cudaErrorInvalidValue : cudaSuccess;
}

// Largest extents by kind, with the layers (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability", 9.0).
struct Limit {
  std::uint64_t width, height, depth, layers;
};
Limit limit_of(const Array& array) {
  const auto& l = array.layout;
  if (l.cubemap) return {32768, 32768, 1, l.layered ? 2046u : 6u};
  if (array.mipmapped && l.dimensions < 3) return {32768, l.dimensions == 1 ? 1u : 32768u, 1, l.layered ? 2048u : 1u};
  if (l.layered) return {32768, l.dimensions == 1 ? 1u : 32768u, 1, 2048};
  if (array.flags & cudaArrayTextureGather) return {32768, 32768, 1, 1};
  if (l.dimensions == 1) return {array.flags & cudaArraySurfaceLoadStore ? 32768u : 131072u, 1, 1, 1};
  if (l.dimensions == 2) return {131072, 65536, 1, 1};
  return {16384, 16384, 16384, 1};
}

// Fills in kind and extents from the extent that was given: cudaMalloc3DArray's page has the rules.
cudaError_t shape(Array& array) {
  auto& l = array.layout;
  const cudaExtent& e = array.extent;
  l.layered = array.flags & cudaArrayLayered;
  l.cubemap = array.flags & cudaArrayCubemap;
  const bool slices_are_layers = l.layered || l.cubemap;
  if (e.width == 0 || (!slices_are_layers && e.depth && !e.height)) return cudaErrorInvalidValue;
  if (slices_are_layers && e.depth == 0) return cudaErrorInvalidValue;
  if (l.cubemap && (e.width != e.height || e.depth % 6 || (!l.layered && e.depth != 6))) return cudaErrorInvalidValue;
  deadheat::ptx::set_extent(l, e.width, e.height, e.depth);
  if (array.flags & cudaArrayTextureGather && (l.dimensions != 2 || slices_are_layers)) return cudaErrorInvalidValue;
  const Limit most = limit_of(array);
  const std::uint64_t deep = std::max<std::uint64_t>(e.depth, 1);
  if (e.width > most.width || e.height > most.height) return cudaErrorInvalidValue;
  if (deep > (slices_are_layers ? most.layers : most.depth)) return cudaErrorInvalidValue;
  return cudaSuccess;
}

void make_levels(Array& whole) {
  for (unsigned n = 0; n < whole.layout.levels; ++n) {
    auto level = std::make_unique<Array>();
    const auto& at = level->layout = deadheat::ptx::array_of_level(whole.layout, n);
    level->format = whole.format;
    level->flags = whole.flags;
    level->extent = {at.width, whole.extent.height ? at.height : 0,
                     whole.layout.dimensions == 3 ? at.depth : whole.extent.depth};
    whole.levels.push_back(std::move(level));
  }
}

cudaError_t make(Call& call, const cudaChannelFormatDesc* format, const cudaExtent& extent, unsigned flags,
                 unsigned levels, Array** result) {
  if (!format) return cudaErrorInvalidValue;
  auto array = std::make_unique<Array>();
  array->format = *format;
  array->extent = extent;
  array->flags = flags;
  array->mipmapped = array->layout.mipmapped = levels > 0;
  cudaError_t status = check_flags(flags);
  if (status == cudaSuccess) status = texel_format(*format, &array->layout.format);
  if (status == cudaSuccess) status = shape(*array);
  if (status == cudaSuccess) status = forbid_while_capturing(call);
  if (status != cudaSuccess) return status;
  auto& l = array->layout;
  const unsigned most_levels = unsigned(std::bit_width(std::max({l.width, l.height, l.depth})));
  l.levels = l.shown_levels = std::clamp(levels, 1u, most_levels);
  const std::uint64_t bytes = array_bytes(l);
  if (bytes > call.device().profile().memory_bytes) return cudaErrorMemoryAllocation;
  deadheat::Expected<deadheat::trace::Allocate> memory =
      call.device().allocate(deadheat::trace::Allocate::Kind::device, bytes, call.thread.number);
  if (!memory) return cudaErrorMemoryAllocation;
  l.base = memory->address;
  if (call.runtime.options.leak_check && !call.runtime.options.output.empty())
    call.runtime.allocation_sites[memory->allocation] = std::string("allocated by ") + call.api + " at " + call_site();
  if (array->mipmapped) make_levels(*array);
  *result = array.get();
  arrays()[array.get()] = std::move(array);
  return cudaSuccess;
}

cudaError_t free_array(Call& call, const void* handle, bool mipmapped) {
  if (!handle) return cudaSuccess;
  cudaError_t status = forbid_while_capturing(call);
  if (status != cudaSuccess) return status;
  Array* array = arrays().count(handle) ? find(handle, mipmapped) : nullptr;
  if (!array) return cudaErrorInvalidValue; // levels go with their array
  status = call.wait(deadheat::trace::HostWait::Kind::device); // what is under way may use it
  if (status != cudaSuccess) return status;
  const auto found = arrays().find(handle); // while that waited, another thread may have freed it
  if (found == arrays().end()) return cudaErrorInvalidValue;
  const deadheat::Expected<void> freed = call.device().release(found->second->layout.base, call.thread.number);
  arrays().erase(found);
  return freed ? cudaSuccess : cudaErrorInvalidValue;
}

} // namespace

namespace deadheat::embedded {

Array* array_of(cudaArray_const_t handle) { return find(handle, false); }
Array* array_of(cudaMipmappedArray_const_t handle) { return find(handle, true); }
cudaArray_t handle_of(const Array* array) { return reinterpret_cast<cudaArray_t>(const_cast<Array*>(array)); }

const Array* array_at(std::uint64_t address, cudaPos* position) {
  for (const auto& [handle, whole] : arrays()) {
    if (address < whole->layout.base || address - whole->layout.base >= array_bytes(whole->layout)) continue;
    const Array* array = whole.get();
    for (const auto& level : whole->levels)
      if (level->layout.base <= address) array = level.get();
    const LevelLayout at = level_layout(array->layout, 0);
    const std::uint64_t offset = address - at.address;
    *position = {offset % at.slice % at.pitch / array->layout.format.bytes(), offset % at.slice / at.pitch,
                 offset / at.slice};
    return array;
  }
  return nullptr;
}

cudaError_t texel_format(const cudaChannelFormatDesc& d, TexelFormat* format) {
  if (d.f > cudaChannelFormatKindNone) {
    say_once(
        "formats of compressed blocks, of several planes and of normalized channels are not supported by the "
        "embedded device");
    return cudaErrorNotSupported;
  }
  const int bits[4] = {d.x, d.y, d.z, d.w};
  unsigned channels = 0;
  while (channels < 4 && bits[channels] != 0) ++channels;
  for (unsigned n = 0; n < 4; ++n)
    if (bits[n] != (n < channels ? d.x : 0)) return cudaErrorInvalidChannelDescriptor;
  const bool floats = d.f == cudaChannelFormatKindFloat;
  const bool width = d.x == 16 || d.x == 32 || (d.x == 8 && !floats);
  if (!width || channels == 0 || channels == 3 || d.f == cudaChannelFormatKindNone)
    return cudaErrorInvalidChannelDescriptor;
  format->channels = std::uint8_t(channels);
  format->bits = std::uint8_t(d.x);
  format->kind = floats                               ? ChannelKind::float_
                 : d.f == cudaChannelFormatKindSigned ? ChannelKind::signed_
                                                      : ChannelKind::unsigned_;
  return cudaSuccess;
}

cudaError_t part_of(const Array& array, const cudaPos& at, const cudaExtent& extent, ArrayPart* part) {
  const LevelLayout l = level_layout(array.layout, 0);
  const auto fits = [](std::uint64_t from, std::uint64_t count, std::uint64_t size) {
    return from <= size && count <= size - from;
  };
  if (!fits(at.x, extent.width, l.width) || !fits(at.y, extent.height, l.height) || !fits(at.z, extent.depth, l.slices))
    return cudaErrorInvalidValue;
  part->address =
      reinterpret_cast<void*>(l.address + at.z * l.slice + at.y * l.pitch + at.x * array.layout.format.bytes());
  part->pitch = l.pitch;
  part->slice = l.slice;
  return cudaSuccess;
}

} // namespace deadheat::embedded

// ---- entry points

DEADHEAT_API(cudaMallocArray, device,
             (cudaArray_t * result, const cudaChannelFormatDesc* format, size_t width, size_t height, unsigned flags),
             (result, format, width, height, flags)) {
  if (!result || flags & (cudaArrayLayered | cudaArrayCubemap)) return cudaErrorInvalidValue;
  Array* array = nullptr;
  const cudaError_t status = make(call, format, {width, height, 0}, flags, 0, &array);
  if (status == cudaSuccess) *result = handle_of(array);
  return status;
}

DEADHEAT_API(cudaMalloc3DArray, device,
             (cudaArray_t * result, const cudaChannelFormatDesc* format, cudaExtent extent, unsigned flags),
             (result, format, extent, flags)) {
  if (!result) return cudaErrorInvalidValue;
  Array* array = nullptr;
  const cudaError_t status = make(call, format, extent, flags, 0, &array);
  if (status == cudaSuccess) *result = handle_of(array);
  return status;
}

DEADHEAT_API(cudaMallocMipmappedArray, device,
             (cudaMipmappedArray_t * result, const cudaChannelFormatDesc* format, cudaExtent extent, unsigned levels,
              unsigned flags),
             (result, format, extent, levels, flags)) {
  if (!result) return cudaErrorInvalidValue;
  Array* array = nullptr;
  const cudaError_t status = make(call, format, extent, flags, std::max(levels, 1u), &array);
  if (status == cudaSuccess) *result = reinterpret_cast<cudaMipmappedArray_t>(array);
  return status;
}

DEADHEAT_API(cudaFreeArray, device, (cudaArray_t array), (array)) { return free_array(call, array, false); }

DEADHEAT_API(cudaFreeMipmappedArray, device, (cudaMipmappedArray_t array), (array)) {
  return free_array(call, array, true);
}

DEADHEAT_API(cudaGetMipmappedArrayLevel, device,
             (cudaArray_t * result, cudaMipmappedArray_const_t handle, unsigned level), (result, handle, level)) {
  const Array* array = array_of(handle);
  if (!result || !array || level >= array->levels.size()) return cudaErrorInvalidValue;
  *result = handle_of(array->levels[level].get());
  return cudaSuccess;
}

DEADHEAT_API(cudaGetChannelDesc, device, (cudaChannelFormatDesc * result, cudaArray_const_t handle), (result, handle)) {
  const Array* array = array_of(handle);
  if (!result || !array) return cudaErrorInvalidValue;
  *result = array->format;
  return cudaSuccess;
}

DEADHEAT_API(cudaArrayGetInfo, device,
             (cudaChannelFormatDesc * format, cudaExtent* extent, unsigned* flags, cudaArray_t handle),
             (format, extent, flags, handle)) {
  const Array* array = array_of(handle);
  if (!array) return cudaErrorInvalidValue;
  if (format) *format = array->format;
  if (extent) *extent = array->extent;
  if (flags) *flags = array->flags;
  return cudaSuccess;
}

// ---- of arrays of kinds that are not made here: planes, and memory that is mapped later (no array has it)

DEADHEAT_API(cudaArrayGetPlane, device, (cudaArray_t * result, cudaArray_t handle, unsigned plane),
             (result, handle, plane)) {
  return cudaErrorInvalidValue;
}

DEADHEAT_API(cudaArrayGetMemoryRequirements, device,
             (cudaArrayMemoryRequirements * result, cudaArray_t array, int ordinal), (result, array, ordinal)) {
  return cudaErrorInvalidValue;
}

DEADHEAT_API(cudaMipmappedArrayGetMemoryRequirements, device,
             (cudaArrayMemoryRequirements * result, cudaMipmappedArray_t array, int ordinal),
             (result, array, ordinal)) {
  return cudaErrorInvalidValue;
}
