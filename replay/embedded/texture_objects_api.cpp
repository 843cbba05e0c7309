// Texture and surface objects (Runtime API, "Texture Object Management", "Surface Object Management").
//
// An object is a descriptor in the device's memory (engine/texture.h), written by a copy in a stream of the runtime's
// own, which orders nothing but itself: a call that makes an object waits for no kernel. Places are never used again,
// so that a handle that was destroyed stays one. Launches that were submitted before its destruction may go on with it.
#include <algorithm>
#include <bit>
#include <map>

#include "replay/embedded/arrays.h"
#include "replay/embedded/call_site.h"

using namespace deadheat::embedded;
namespace engine = deadheat::engine;
namespace trace = deadheat::trace;
using engine::TextureDescriptor;

namespace {

struct Object {
  TextureDescriptor descriptor;
  cudaResourceDesc resource = {};
  cudaTextureDesc texture = {};
  cudaResourceViewDesc view = {};
};

struct Objects {
  std::map<std::uint64_t, Object> live; // by handle
  std::uint64_t next = 0, end = 0; // free places
  std::uint32_t stream = 0;
};
Objects& objects() { // never destroyed: see Runtime
  static auto* all = new Objects;
  return *all;
}

const Object* find(std::uint64_t handle, bool surface) {
  const auto found = objects().live.find(handle);
  return found != objects().live.end() && found->second.descriptor.surface == surface ? &found->second : nullptr;
}

cudaError_t write(Call& call, std::uint64_t place, const TextureDescriptor& descriptor) {
  Objects& all = objects();
  if (!all.stream)
    all.stream = call.device().create_stream(trace::StreamCreate::Kind::non_blocking, 0, call.thread.number);
  constexpr std::uint64_t bytes = sizeof descriptor;
  trace::Copy copy;
  copy.api = call.api;
  copy.direction = trace::Copy::Direction::h2d;
  copy.pageable_source = true;
  copy.destination = {place, bytes, bytes, 1, 1, bytes};
  copy.source = {reinterpret_cast<std::uint64_t>(&descriptor), bytes, bytes, 1, 1, bytes};
  Work work{std::move(copy)};
  if (!call.runtime.options.output.empty()) work.call_site = call_site();
  call.device().next_is_waited_for();
  std::uint32_t operation = 0;
  const cudaError_t status = submit_now(call, all.stream, work, {}, &operation);
  return status == cudaSuccess ? call.wait_operation(operation) : status;
}

cudaError_t add(Call& call, Object object, std::uint64_t* handle) {
  constexpr std::uint64_t places = 1024;
  Objects& all = objects();
  if (all.next == all.end) {
    trace::Allocate memory; // with a name: no allocation of the program's, and no leak
    memory.bytes = (places + 1) * sizeof(TextureDescriptor);
    memory.name = "texture and surface objects";
    deadheat::Expected<trace::Allocate> made =
        call.device().allocate(memory.kind, memory.bytes, call.thread.number, 0, &memory);
    if (!made) return cudaErrorMemoryAllocation;
    all.next = (made->address + sizeof(TextureDescriptor) - 1) / sizeof(TextureDescriptor) * sizeof(TextureDescriptor);
    all.end = all.next + places * sizeof(TextureDescriptor);
  }
  const std::uint64_t place = all.next;
  all.next += sizeof(TextureDescriptor);
  const cudaError_t status = write(call, place, object.descriptor);
  if (status != cudaSuccess) return status;
  all.live[place] = std::move(object);
  *handle = place;
  return cudaSuccess;
}

cudaError_t destroy(Call& call, std::uint64_t handle, bool surface) {
  if (!find(handle, surface)) return cudaErrorInvalidValue;
  TextureDescriptor descriptor = objects().live[handle].descriptor;
  objects().live.erase(handle);
  descriptor.last_launch = call.runtime.recording->last_launch();
  return write(call, handle, descriptor);
}

// ---- resources

constexpr std::uint64_t base_alignment = 512, pitch_alignment = 32; // cudaDeviceProp: textureAlignment, …PitchAlignment
constexpr std::uint64_t most_linear = std::uint64_t(1) << 30; // elements, of every format
constexpr std::uint64_t most_pitch_width = 131072, most_pitch_height = 65000, most_pitch = 2097120;

// How far it goes beyond its allocation is not looked at, as on a GPU: fetches are.
cudaError_t memory_of(Call& call, void* pointer, std::uint64_t* address) {
  const Place place = place_of(call, pointer);
  if (!pointer || !place.allocation || place.address % base_alignment) return cudaErrorInvalidValue;
  *address = place.address;
  return cudaSuccess;
}

cudaError_t linear(Call& call, const cudaResourceDesc& r, TextureDescriptor* d) {
  cudaError_t status = texel_format(r.res.linear.desc, &d->format);
  if (status == cudaSuccess) status = memory_of(call, r.res.linear.devPtr, &d->base);
  if (status != cudaSuccess) return status;
  const std::uint64_t elements = r.res.linear.sizeInBytes / d->format.bytes();
  if (elements > most_linear) return cudaErrorInvalidValue;
  d->resource = TextureDescriptor::Resource::linear;
  d->width = std::uint32_t(elements);
  d->pitch = std::max<std::uint64_t>(elements, 1) * d->format.bytes();
  return cudaSuccess;
}

cudaError_t pitched(Call& call, const cudaResourceDesc& r, TextureDescriptor* d) {
  const auto& p = r.res.pitch2D;
  cudaError_t status = texel_format(p.desc, &d->format);
  if (status != cudaSuccess) return status;
  if (!p.width || !p.height || p.width > most_pitch_width || p.height > most_pitch_height ||
      p.pitchInBytes > most_pitch || !p.pitchInBytes || p.pitchInBytes % pitch_alignment)
    return cudaErrorInvalidValue;
  status = memory_of(call, p.devPtr, &d->base);
  d->resource = TextureDescriptor::Resource::pitch;
  d->dimensions = 2;
  d->width = std::uint32_t(p.width);
  d->height = std::uint32_t(p.height);
  d->pitch = p.pitchInBytes;
  return status;
}

cudaError_t resource(Call& call, const cudaResourceDesc& r, TextureDescriptor* d) {
  const Array* array = nullptr;
  switch (r.resType) {
    case cudaResourceTypeLinear: return linear(call, r, d);
    case cudaResourceTypePitch2D: return pitched(call, r, d);
    case cudaResourceTypeArray: array = array_of(r.res.array.array); break;
    case cudaResourceTypeMipmappedArray: array = array_of(r.res.mipmap.mipmap); break;
    default: return cudaErrorInvalidValue;
  }
  if (!array) return cudaErrorInvalidValue;
  *d = array->layout;
  return cudaSuccess;
}

// ---- views

cudaError_t view_format(cudaResourceViewFormat given, engine::TexelFormat* format) {
  if (given == cudaResViewFormatNone) return cudaSuccess;
  const std::optional<engine::TexelFormat> result = deadheat::ptx::view_format(unsigned(given));
  if (!result) {
    say_once("formats of compressed blocks are not supported by the embedded device");
    return cudaErrorNotSupported;
  }
  if (result->bytes() != format->bytes()) return cudaErrorInvalidValue;
  *format = *result;
  return cudaSuccess;
}

cudaError_t apply_view(const cudaResourceViewDesc& view, const Array& array, TextureDescriptor* d) {
  if (view.width != array.extent.width || view.height != array.extent.height || view.depth != array.extent.depth)
    return cudaErrorInvalidValue;
  if (view.firstMipmapLevel > view.lastMipmapLevel || view.lastMipmapLevel >= d->levels) return cudaErrorInvalidValue;
  if (view.firstLayer > view.lastLayer || view.lastLayer >= d->layers) return cudaErrorInvalidValue;
  d->first_level = view.firstMipmapLevel;
  d->shown_levels = view.lastMipmapLevel - view.firstMipmapLevel + 1;
  if (d->layered) {
    d->first_layer = view.firstLayer;
    d->shown_layers = view.lastLayer - view.firstLayer + 1;
  }
  return view_format(view.format, &d->format);
}

// ---- sampling

cudaError_t sampling(const cudaTextureDesc& t, cudaResourceType type, TextureDescriptor* d) {
  const bool is_linear_memory = type == cudaResourceTypeLinear;
  if (unsigned(t.filterMode) > cudaFilterModeLinear || unsigned(t.readMode) > cudaReadModeNormalizedFloat ||
      unsigned(t.mipmapFilterMode) > cudaFilterModeLinear)
    return cudaErrorInvalidValue;
  for (cudaTextureAddressMode mode : t.addressMode)
    if (unsigned(mode) > cudaAddressModeBorder) return cudaErrorInvalidValue;
  const bool mipmapped = type == cudaResourceTypeMipmappedArray;
  if (t.seamlessCubemap && !d->cubemap) return cudaErrorInvalidValue;
  const bool integers = d->format.kind != engine::ChannelKind::float_;
  d->normalized_values = integers && d->format.bits < 32 && t.readMode == cudaReadModeNormalizedFloat;
  d->linear = t.filterMode == cudaFilterModeLinear && !is_linear_memory;
  d->linear_levels = mipmapped && t.mipmapFilterMode == cudaFilterModeLinear;
  // Of linear memory too, where the filter is ignored.
  const bool filters = t.filterMode == cudaFilterModeLinear || d->linear_levels;
  if (filters && integers && !d->normalized_values) return cudaErrorInvalidFilterSetting;
  if (mipmapped && t.maxAnisotropy > 1) say_once("anisotropic filtering is that of one probe on the embedded device");
  for (unsigned n = 0; n < 3; ++n)
    d->address[n] = is_linear_memory ? engine::AddressMode::clamp : engine::AddressMode(t.addressMode[n]);
  d->normalized_coordinates = t.normalizedCoords && !is_linear_memory;
  d->srgb = t.sRGB != 0;
  d->seamless = t.seamlessCubemap != 0;
  d->mipmapped = mipmapped;
  std::copy(std::begin(t.borderColor), std::end(t.borderColor), std::begin(d->border));
  d->bias = t.mipmapLevelBias;
  d->least_level = t.minMipmapLevelClamp;
  d->greatest_level = t.maxMipmapLevelClamp;
  return cudaSuccess;
}

} // namespace

DEADHEAT_API(cudaCreateTextureObject, device,
             (cudaTextureObject_t * result, const cudaResourceDesc* resource_desc, const cudaTextureDesc* texture_desc,
              const cudaResourceViewDesc* view),
             (result, resource_desc, texture_desc, view)) {
  if (!result || !resource_desc || !texture_desc) return cudaErrorInvalidValue;
  Object object;
  TextureDescriptor& d = object.descriptor;
  cudaError_t status = resource(call, *resource_desc, &d);
  if (status == cudaSuccess && view) {
    const bool mipmap = resource_desc->resType == cudaResourceTypeMipmappedArray;
    const Array* array = mipmap                                            ? array_of(resource_desc->res.mipmap.mipmap)
                         : resource_desc->resType == cudaResourceTypeArray ? array_of(resource_desc->res.array.array)
                                                                           : nullptr;
    status = array ? apply_view(*view, *array, &d) : cudaErrorInvalidValue;
    object.view = *view;
  }
  if (status == cudaSuccess) status = sampling(*texture_desc, resource_desc->resType, &d);
  if (status != cudaSuccess) return status;
  object.resource = *resource_desc;
  object.texture = *texture_desc;
  std::uint64_t handle = 0;
  status = add(call, std::move(object), &handle);
  if (status == cudaSuccess) *result = handle;
  return status;
}

DEADHEAT_API(cudaDestroyTextureObject, device, (cudaTextureObject_t handle), (handle)) {
  return handle ? destroy(call, handle, false) : cudaSuccess;
}

DEADHEAT_API(cudaGetTextureObjectResourceDesc, device, (cudaResourceDesc * result, cudaTextureObject_t handle),
             (result, handle)) {
  const Object* object = find(handle, false);
  if (!result || !object) return cudaErrorInvalidValue;
  *result = object->resource;
  return cudaSuccess;
}

DEADHEAT_API(cudaGetTextureObjectTextureDesc, device, (cudaTextureDesc * result, cudaTextureObject_t handle),
             (result, handle)) {
  const Object* object = find(handle, false);
  if (!result || !object) return cudaErrorInvalidValue;
  *result = object->texture;
  return cudaSuccess;
}

DEADHEAT_API(cudaGetTextureObjectResourceViewDesc, device, (cudaResourceViewDesc * result, cudaTextureObject_t handle),
             (result, handle)) {
  const Object* object = find(handle, false);
  if (!result || !object) return cudaErrorInvalidValue;
  *result = object->view; // zeros where none was given
  return cudaSuccess;
}

DEADHEAT_API(cudaCreateSurfaceObject, device, (cudaSurfaceObject_t * result, const cudaResourceDesc* resource_desc),
             (result, resource_desc)) {
  if (!result || !resource_desc || resource_desc->resType != cudaResourceTypeArray) return cudaErrorInvalidValue;
  const Array* array = array_of(resource_desc->res.array.array);
  if (!array) return cudaErrorInvalidValue; // cudaArraySurfaceLoadStore is not asked for: drivers do not, either
  Object object;
  object.descriptor = array->layout;
  object.descriptor.surface = true;
  object.resource = *resource_desc;
  std::uint64_t handle = 0;
  const cudaError_t status = add(call, std::move(object), &handle);
  if (status == cudaSuccess) *result = handle;
  return status;
}

DEADHEAT_API(cudaDestroySurfaceObject, device, (cudaSurfaceObject_t handle), (handle)) {
  return handle ? destroy(call, handle, true) : cudaSuccess;
}

DEADHEAT_API(cudaGetSurfaceObjectResourceDesc, device, (cudaResourceDesc * result, cudaSurfaceObject_t handle),
             (result, handle)) {
  const Object* object = find(handle, true);
  if (!result || !object) return cudaErrorInvalidValue;
  *result = object->resource;
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceGetTexture1DLinearMaxWidth, nothing,
             (size_t* result, const cudaChannelFormatDesc* format, int ordinal), (result, format, ordinal)) {
  if (!result || !format) return cudaErrorInvalidValue;
  if (ordinal != 0) return cudaErrorInvalidDevice;
  engine::TexelFormat texel;
  const cudaError_t status = texel_format(*format, &texel);
  if (status == cudaSuccess) *result = most_linear;
  return status;
}
