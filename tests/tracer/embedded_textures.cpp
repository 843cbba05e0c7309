// Arrays, textures and surfaces of the stand-in for libcuda.so.1 on the embedded device (embedded_cuda.cpp). An array
// is memory with the engine's layout, an object a descriptor in memory, as the embedded runtime has them. Handles of
// objects that were destroyed are given again at once, as a GPU's driver does. What the driver refuses is not looked
// at.
//
// Thread-safety: as embedded_cuda.cpp.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/embedded_operations.h"
#include "tests/tracer/callbacks.h"
#include "tests/tracer/embedded_cuda.h"
#include "tracer/ptx/texture.h"

using namespace deadheat;
using embedded::lock;
using embedded::the_device;

namespace {

using Layout = ptx::TextureDescriptor;

struct Array {
  Layout layout;
};
Array* of(CUarray handle) { return reinterpret_cast<Array*>(handle); }
Array* of(CUmipmappedArray handle) { return reinterpret_cast<Array*>(handle); }

// Of channels of 8, 16 and 32 bits; others are not of this stand-in.
ptx::TexelFormat format_of(CUarray_format format, unsigned channels) {
  using Kind = ptx::ChannelKind;
  const auto as = [&](unsigned bits, Kind kind) {
    return ptx::TexelFormat{std::uint8_t(channels), std::uint8_t(bits), kind};
  };
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8: return as(8, Kind::unsigned_);
    case CU_AD_FORMAT_UNSIGNED_INT16: return as(16, Kind::unsigned_);
    case CU_AD_FORMAT_FLOAT: return as(32, Kind::float_);
    case CU_AD_FORMAT_SIGNED_INT32: return as(32, Kind::signed_);
    default: return as(32, Kind::unsigned_);
  }
}

std::uint64_t allocate(std::uint64_t bytes) {
  std::lock_guard hold(lock);
  const Expected<trace::Allocate> made = the_device->allocate(trace::Allocate::Kind::device, bytes, 0);
  return made ? made->address : 0;
}

CUresult make(const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned levels, Array** result) {
  auto* array = new Array;
  Layout& l = array->layout;
  l.format = format_of(d.Format, d.NumChannels);
  l.layered = d.Flags & CUDA_ARRAY3D_LAYERED;
  l.cubemap = d.Flags & CUDA_ARRAY3D_CUBEMAP;
  l.mipmapped = levels > 0;
  ptx::set_extent(l, d.Width, d.Height, d.Depth);
  l.levels = l.shown_levels = std::max(levels, 1u);
  l.base = allocate(ptx::array_bytes(l));
  *result = array;
  return l.base ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult destroy(Array* array) {
  embedded::wait(trace::HostWait::Kind::device, 0);
  std::lock_guard hold(lock);
  return the_device->release(array->layout.base, 0) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- objects

std::vector<std::uint64_t>& free_places = *new std::vector<std::uint64_t>;

CUresult add(const Layout& descriptor, CUtexObject* handle) {
  embedded::wait(trace::HostWait::Kind::device, 0); // the place may have been another's
  std::uint64_t place = 0;
  if (free_places.empty()) {
    place = allocate(2 * sizeof(Layout));
    place = (place + sizeof(Layout) - 1) / sizeof(Layout) * sizeof(Layout);
  } else {
    place = free_places.back();
    free_places.pop_back();
  }
  const CUresult copied =
      embedded::submit(nullptr, test::copy_of(place, reinterpret_cast<std::uint64_t>(&descriptor), sizeof descriptor));
  if (copied != CUDA_SUCCESS) return copied;
  *handle = place;
  return embedded::wait(trace::HostWait::Kind::device, 0);
}

Layout of_resource(const CUDA_RESOURCE_DESC& r) {
  Layout d;
  const auto& linear = r.res.linear;
  const auto& plane = r.res.pitch2D;
  switch (r.resType) {
    case CU_RESOURCE_TYPE_ARRAY: return of(r.res.array.hArray)->layout;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: return of(r.res.mipmap.hMipmappedArray)->layout;
    case CU_RESOURCE_TYPE_LINEAR:
      d.resource = Layout::Resource::linear;
      d.format = format_of(linear.format, linear.numChannels);
      d.base = linear.devPtr;
      d.width = std::uint32_t(linear.sizeInBytes / d.format.bytes());
      d.pitch = linear.sizeInBytes;
      break;
    default:
      d.resource = Layout::Resource::pitch;
      d.format = format_of(plane.format, plane.numChannels);
      d.dimensions = 2;
      d.base = plane.devPtr;
      d.width = std::uint32_t(plane.width);
      d.height = std::uint32_t(plane.height);
      d.pitch = plane.pitchInBytes;
      break;
  }
  return d;
}

CUresult make_texture(CUtexObject* object, const CUDA_RESOURCE_DESC& resource, const CUDA_TEXTURE_DESC& t,
                      const CUDA_RESOURCE_VIEW_DESC* view) {
  Layout d = of_resource(resource);
  if (view) {
    d.first_level = view->firstMipmapLevel;
    d.shown_levels = view->lastMipmapLevel - view->firstMipmapLevel + 1;
    if (d.layered) d.first_layer = view->firstLayer, d.shown_layers = view->lastLayer - view->firstLayer + 1;
  }
  d.linear = t.filterMode == CU_TR_FILTER_MODE_LINEAR;
  d.linear_levels = t.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  d.normalized_coordinates = t.flags & CU_TRSF_NORMALIZED_COORDINATES;
  for (unsigned n = 0; n < 3; ++n) d.address[n] = ptx::AddressMode(t.addressMode[n]);
  d.greatest_level = t.maxMipmapLevelClamp;
  return add(d, object);
}

// ---- copies

trace::MemoryRange end_of(const CUDA_MEMCPY3D& c, bool destination) {
  const CUmemorytype type = destination ? c.dstMemoryType : c.srcMemoryType;
  const std::uint64_t x = destination ? c.dstXInBytes : c.srcXInBytes, y = destination ? c.dstY : c.srcY,
                      z = destination ? c.dstZ : c.srcZ;
  std::uint64_t base = 0, pitch = destination ? c.dstPitch : c.srcPitch,
                slice = pitch * (destination ? c.dstHeight : c.srcHeight);
  if (type == CU_MEMORYTYPE_ARRAY) {
    const ptx::LevelLayout l = ptx::level_layout(of(destination ? c.dstArray : c.srcArray)->layout, 0);
    base = l.address;
    pitch = l.pitch;
    slice = l.slice;
  } else if (type == CU_MEMORYTYPE_HOST) {
    base = reinterpret_cast<std::uint64_t>(destination ? c.dstHost : c.srcHost);
  } else {
    base = destination ? c.dstDevice : c.srcDevice;
  }
  if (!pitch) pitch = c.WidthInBytes;
  if (!slice) slice = pitch * c.Height;
  return {base + z * slice + y * pitch + x, pitch, c.WidthInBytes, c.Height, c.Depth, slice};
}

CUDA_MEMCPY3D in_space(const CUDA_MEMCPY2D& c) {
  CUDA_MEMCPY3D v{};
  v.srcXInBytes = c.srcXInBytes, v.srcY = c.srcY;
  v.srcMemoryType = c.srcMemoryType, v.srcHost = c.srcHost, v.srcDevice = c.srcDevice;
  v.srcArray = c.srcArray, v.srcPitch = c.srcPitch;
  v.dstXInBytes = c.dstXInBytes, v.dstY = c.dstY;
  v.dstMemoryType = c.dstMemoryType, v.dstHost = c.dstHost, v.dstDevice = c.dstDevice;
  v.dstArray = c.dstArray, v.dstPitch = c.dstPitch;
  v.WidthInBytes = c.WidthInBytes, v.Height = c.Height, v.Depth = 1;
  return v;
}

// A line of an array of one dimension.
CUDA_MEMCPY3D line_of(std::size_t bytes) {
  CUDA_MEMCPY3D c{};
  c.WidthInBytes = bytes;
  c.Height = c.Depth = 1;
  return c;
}

CUresult and_wait(CUresult submitted) {
  return submitted == CUDA_SUCCESS ? embedded::wait(trace::HostWait::Kind::stream, 1) : submitted;
}

} // namespace

CUresult embedded::copy(const CUDA_MEMCPY3D& c, CUstream stream) {
  trace::Copy copy = test::copy_of(end_of(c, true).address, end_of(c, false).address, 1);
  copy.destination = end_of(c, true);
  copy.source = end_of(c, false);
  return embedded::submit(stream, copy);
}

EXPORT CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* description) {
  cuArrayCreate_v2_params p{array, description};
  return CALL(cuArrayCreate_v2, nullptr, p, {
    const CUDA_ARRAY_DESCRIPTOR& d = *p.pAllocateArray;
    return make({d.Width, d.Height, 0, d.Format, d.NumChannels, 0}, 0, reinterpret_cast<Array**>(p.pHandle));
  });
}
EXPORT CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* description) {
  cuArray3DCreate_v2_params p{array, description};
  return CALL(cuArray3DCreate_v2, nullptr, p,
              { return make(*p.pAllocateArray, 0, reinterpret_cast<Array**>(p.pHandle)); });
}
EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* description,
                                       unsigned levels) {
  cuMipmappedArrayCreate_params p{array, description, levels};
  return CALL(cuMipmappedArrayCreate, nullptr, p,
              { return make(*p.pMipmappedArrayDesc, p.numMipmapLevels, reinterpret_cast<Array**>(p.pHandle)); });
}
EXPORT CUresult cuMipmappedArrayGetLevel(CUarray* level, CUmipmappedArray array, unsigned number) {
  cuMipmappedArrayGetLevel_params p{level, array, number};
  return CALL(cuMipmappedArrayGetLevel, nullptr, p, {
    *p.pLevelArray = reinterpret_cast<CUarray>(new Array{ptx::array_of_level(of(p.hMipmappedArray)->layout, p.level)});
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuArrayDestroy(CUarray array) {
  cuArrayDestroy_params p{array};
  return CALL(cuArrayDestroy, nullptr, p, { return destroy(of(p.hArray)); });
}
EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  cuMipmappedArrayDestroy_params p{array};
  return CALL(cuMipmappedArrayDestroy, nullptr, p, { return destroy(of(p.hMipmappedArray)); });
}
EXPORT CUresult cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource,
                                  const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  cuTexObjectCreate_params p{object, resource, texture, view};
  return CALL(cuTexObjectCreate, nullptr, p,
              { return make_texture(p.pTexObject, *p.pResDesc, *p.pTexDesc, p.pResViewDesc); });
}
EXPORT CUresult cuTexObjectDestroy(CUtexObject object) {
  cuTexObjectDestroy_params p{object};
  return CALL(cuTexObjectDestroy, nullptr, p, {
    free_places.push_back(p.texObject);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuSurfObjectCreate(CUsurfObject* object, const CUDA_RESOURCE_DESC* resource) {
  cuSurfObjectCreate_params p{object, resource};
  return CALL(cuSurfObjectCreate, nullptr, p, {
    Layout d = of_resource(*p.pResDesc);
    d.surface = true;
    return add(d, p.pSurfObject);
  });
}
EXPORT CUresult cuSurfObjectDestroy(CUsurfObject object) {
  cuSurfObjectDestroy_params p{object};
  return CALL(cuSurfObjectDestroy, nullptr, p, {
    free_places.push_back(p.surfObject);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* plane) {
  cuMemcpy2D_v2_params p{plane};
  return CALL(cuMemcpy2D_v2, nullptr, p, { return and_wait(embedded::copy(in_space(*p.pCopy), nullptr)); });
}
EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* plane, CUstream stream) {
  cuMemcpy2DAsync_v2_params p{plane, stream};
  return CALL(cuMemcpy2DAsync_v2, nullptr, p, { return embedded::copy(in_space(*p.pCopy), p.hStream); });
}
EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* volume, CUstream stream) {
  cuMemcpy3DAsync_v2_params p{volume, stream};
  return CALL(cuMemcpy3DAsync_v2, nullptr, p, { return embedded::copy(*p.pCopy, p.hStream); });
}
EXPORT CUresult cuMemcpyHtoAAsync_v2(CUarray to, std::size_t offset, const void* from, std::size_t bytes,
                                     CUstream stream) {
  cuMemcpyHtoAAsync_v2_params p{to, offset, from, bytes, stream};
  return CALL(cuMemcpyHtoAAsync_v2, nullptr, p, {
    CUDA_MEMCPY3D c = line_of(p.ByteCount);
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY, c.dstArray = p.dstArray, c.dstXInBytes = p.dstOffset;
    c.srcMemoryType = CU_MEMORYTYPE_HOST, c.srcHost = p.srcHost;
    return embedded::copy(c, p.hStream);
  });
}
// As if it had been made before anybody watched.
EXPORT CUresult embedded_early_texture(CUtexObject* object, const CUDA_RESOURCE_DESC* resource,
                                       const CUDA_TEXTURE_DESC* texture) {
  return make_texture(object, *resource, *texture, nullptr);
}
