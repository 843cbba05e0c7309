// Texture and surface objects: what the program has the driver make of memory and arrays, so that the reader of a log
// knows the texels (device_log/texture_objects.h).
#include <algorithm>
#include <iterator>

#include "tracer/cupti/handlers.h"

namespace deadheat::cupti {

namespace {

using Resource = ptx::TextureDescriptor::Resource;
using Described = std::optional<ptx::TextureDescriptor>; // none: it is not followed

Described of_linear(const decltype(CUDA_RESOURCE_DESC::res.linear)& r) {
  const auto format = texel_format(r.format, r.numChannels);
  if (!format) return std::nullopt;
  ptx::TextureDescriptor d;
  d.resource = Resource::linear;
  d.format = *format;
  d.base = r.devPtr;
  d.width = std::uint32_t(r.sizeInBytes / format->bytes());
  d.pitch = std::max<std::uint64_t>(d.width, 1) * format->bytes();
  return d;
}

Described of_plane(const decltype(CUDA_RESOURCE_DESC::res.pitch2D)& r) {
  const auto format = texel_format(r.format, r.numChannels);
  if (!format) return std::nullopt;
  ptx::TextureDescriptor d;
  d.resource = Resource::pitch;
  d.format = *format;
  d.dimensions = 2;
  d.base = r.devPtr;
  d.width = std::uint32_t(r.width);
  d.height = std::uint32_t(r.height);
  d.pitch = r.pitchInBytes;
  return d;
}

Described of_array(const Session& session, const void* handle) {
  const KnownArray* array = session.arrays.find(handle);
  return array ? Described(array->layout) : std::nullopt;
}

Described of_resource(const Session& session, const CUDA_RESOURCE_DESC& r) {
  switch (r.resType) {
    case CU_RESOURCE_TYPE_LINEAR: return of_linear(r.res.linear);
    case CU_RESOURCE_TYPE_PITCH2D: return of_plane(r.res.pitch2D);
    case CU_RESOURCE_TYPE_ARRAY: return of_array(session, r.res.array.hArray);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: return of_array(session, r.res.mipmap.hMipmappedArray);
    default: return std::nullopt;
  }
}

Described shown(Described d, const CUDA_RESOURCE_VIEW_DESC& view) {
  if (view.lastMipmapLevel < view.firstMipmapLevel || view.lastMipmapLevel >= d->levels) return std::nullopt;
  if (view.lastLayer < view.firstLayer || view.lastLayer >= d->layers) return std::nullopt;
  d->first_level = view.firstMipmapLevel;
  d->shown_levels = view.lastMipmapLevel - view.firstMipmapLevel + 1;
  if (d->layered) {
    d->first_layer = view.firstLayer;
    d->shown_layers = view.lastLayer - view.firstLayer + 1;
  }
  if (view.format == CU_RES_VIEW_FORMAT_NONE) return d;
  const auto format = ptx::view_format(unsigned(view.format));
  if (!format || format->bytes() != d->format.bytes()) return std::nullopt;
  d->format = *format;
  return d;
}

void sample(ptx::TextureDescriptor& d, const CUDA_TEXTURE_DESC& t) {
  const bool linear_memory = d.resource == Resource::linear;
  const bool integers = d.format.kind != ptx::ChannelKind::float_;
  d.normalized_values = integers && d.format.bits < 32 && !(t.flags & CU_TRSF_READ_AS_INTEGER);
  d.linear = t.filterMode == CU_TR_FILTER_MODE_LINEAR && !linear_memory;
  d.linear_levels = d.mipmapped && t.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  d.normalized_coordinates = (t.flags & CU_TRSF_NORMALIZED_COORDINATES) && !linear_memory;
  d.srgb = t.flags & CU_TRSF_SRGB;
  d.seamless = t.flags & CU_TRSF_SEAMLESS_CUBEMAP;
  for (unsigned n = 0; n < 3; ++n) {
    const bool known = unsigned(t.addressMode[n]) <= CU_TR_ADDRESS_MODE_BORDER && !linear_memory;
    d.address[n] = known ? ptx::AddressMode(t.addressMode[n]) : ptx::AddressMode::clamp;
  }
  std::copy(std::begin(t.borderColor), std::end(t.borderColor), std::begin(d.border));
  d.bias = t.mipmapLevelBias;
  d.least_level = t.minMipmapLevelClamp;
  d.greatest_level = t.maxMipmapLevelClamp;
}

} // namespace

void make_texture(Call& call, cuTexObjectCreate_params& p) {
  if (!call.done() || !p.pTexObject || !p.pResDesc || !p.pTexDesc) return;
  Session& session = call.session;
  std::lock_guard hold(session.lock);
  Described d = of_resource(session, *p.pResDesc);
  if (d && p.pResViewDesc) d = shown(std::move(d), *p.pResViewDesc);
  if (d) sample(*d, *p.pTexDesc);
  session.textures.made(call.context, *p.pTexObject, false, d);
}

void make_surface(Call& call, cuSurfObjectCreate_params& p) {
  if (!call.done() || !p.pSurfObject || !p.pResDesc) return;
  Session& session = call.session;
  std::lock_guard hold(session.lock);
  Described d = of_resource(session, *p.pResDesc);
  if (d) d->surface = true;
  session.textures.made(call.context, *p.pSurfObject, true, d);
}

// What was launched before has it still.
void destroy_texture(Call& call, cuTexObjectDestroy_params& p) {
  std::lock_guard hold(call.session.lock);
  if (!call.exit) call.session.textures.destroyed(call.context, p.texObject, false);
}
void destroy_surface(Call& call, cuSurfObjectDestroy_params& p) {
  std::lock_guard hold(call.session.lock);
  if (!call.exit) call.session.textures.destroyed(call.context, p.surfObject, true);
}

} // namespace deadheat::cupti
