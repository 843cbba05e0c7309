// cuMemcpy* and cuMemset* (Driver API, "Memory Management").
#include "replay/embedded/driver/copies.h"

#include <vector>

namespace deadheat::embedded {

namespace {

// One side of a copy: where its memory begins, and the bytes from one row and one slice to the next.
struct Side {
  void* pointer = nullptr;
  std::uint64_t pitch = 0, slice = 0;
  bool host = false, unified = false;
};

struct Place3D {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  std::uint64_t x, y, z, pitch, rows; // rows: of a slice; 0: as many as are copied
};

cudaError_t side_of(const Call& call, const Place3D& place, std::uint64_t width, std::uint64_t height, Side* side) {
  if (place.type == CU_MEMORYTYPE_ARRAY) return refuse(call, "a copy of a CUDA array");
  if (place.type < CU_MEMORYTYPE_HOST || place.type > CU_MEMORYTYPE_UNIFIED) return cudaErrorInvalidValue;
  side->host = place.type == CU_MEMORYTYPE_HOST;
  side->unified = place.type == CU_MEMORYTYPE_UNIFIED;
  side->pitch = place.pitch ? place.pitch : place.x + width;
  side->slice = side->pitch * (place.rows ? place.rows : place.y + height);
  auto* base =
      side->host ? static_cast<char*>(const_cast<void*>(place.host)) : static_cast<char*>(pointer_of(place.device));
  side->pointer = base + place.z * side->slice + place.y * side->pitch + place.x;
  return cudaSuccess;
}

cudaError_t join(const Call& call, const Place3D& to, const Place3D& from, std::uint64_t width, std::uint64_t height,
                 std::uint64_t depth, CopyShape* shape) {
  Side destination, source;
  cudaError_t status = side_of(call, to, width, height, &destination);
  if (status == cudaSuccess) status = side_of(call, from, width, height, &source);
  if (status != cudaSuccess) return status;
  shape->destination = destination.pointer;
  shape->source = source.pointer;
  shape->width = width;
  shape->rows = height;
  shape->slices = depth;
  shape->destination_pitch = destination.pitch;
  shape->source_pitch = source.pitch;
  shape->destination_slice = destination.slice;
  shape->source_slice = source.slice;
  const bool inferred = destination.unified || source.unified;
  shape->kind = inferred           ? cudaMemcpyDefault
                : source.host      ? (destination.host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice)
                : destination.host ? cudaMemcpyDeviceToHost
                                   : cudaMemcpyDeviceToDevice;
  return cudaSuccess;
}

template <class Given>
cudaError_t volume_of(const Call& call, const Given& g, CopyShape* shape) {
  const Place3D to{g.dstMemoryType, g.dstHost, g.dstDevice, g.dstXInBytes, g.dstY, g.dstZ, g.dstPitch, g.dstHeight};
  const Place3D from{g.srcMemoryType, g.srcHost, g.srcDevice, g.srcXInBytes, g.srcY, g.srcZ, g.srcPitch, g.srcHeight};
  return join(call, to, from, g.WidthInBytes, g.Height, g.Depth, shape);
}

} // namespace

cudaError_t shape_of(const Call& call, const CUDA_MEMCPY2D* given, CopyShape* shape) {
  if (!given) return cudaErrorInvalidValue;
  const CUDA_MEMCPY2D& g = *given;
  const Place3D to{g.dstMemoryType, g.dstHost, g.dstDevice, g.dstXInBytes, g.dstY, 0, g.dstPitch, 0};
  const Place3D from{g.srcMemoryType, g.srcHost, g.srcDevice, g.srcXInBytes, g.srcY, 0, g.srcPitch, 0};
  return join(call, to, from, g.WidthInBytes, g.Height, 1, shape);
}
cudaError_t shape_of(const Call& call, const CUDA_MEMCPY3D* given, CopyShape* shape) {
  if (!given || given->reserved0 || given->reserved1) return cudaErrorInvalidValue;
  return volume_of(call, *given, shape);
}
cudaError_t shape_of(const Call& call, const CUDA_MEMCPY3D_PEER* given, CopyShape* shape) {
  return given ? volume_of(call, *given, shape) : cudaErrorInvalidValue;
}

} // namespace deadheat::embedded

using namespace deadheat::embedded;

namespace {

template <class Given>
cudaError_t copy_shaped(Call& call, const Given* given) {
  CopyShape shape;
  const cudaError_t status = shape_of(call, given, &shape);
  return status == cudaSuccess ? copy_now(call, shape) : status;
}
template <class Given>
cudaError_t copy_shaped(Call& call, const Given* given, CUstream stream) {
  CopyShape shape;
  const cudaError_t status = shape_of(call, given, &shape);
  return status == cudaSuccess ? copy_async(call, shape, stream) : status;
}

} // namespace

// ---- Copies

DEADHEAT_STREAM_DRIVER(cuMemcpy, _ptds, context, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes)) {
  return copy_now(call, line(pointer_of(to), pointer_of(from), bytes, cudaMemcpyDefault));
}
DEADHEAT_STREAM_DRIVER(cuMemcpyAsync, _ptsz, context, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
                       (to, from, bytes, stream)) {
  return copy_async(call, line(pointer_of(to), pointer_of(from), bytes, cudaMemcpyDefault), stream);
}

// The exported names end in _ptds behind the version.
DEADHEAT_STREAM_DRIVER(cuMemcpyHtoD_v2, _ptds, context, (CUdeviceptr to, const void* from, size_t bytes),
                       (to, from, bytes)) {
  return copy_now(call, line(pointer_of(to), from, bytes, cudaMemcpyHostToDevice));
}
DEADHEAT_STREAM_DRIVER(cuMemcpyDtoH_v2, _ptds, context, (void* to, CUdeviceptr from, size_t bytes), (to, from, bytes)) {
  return copy_now(call, line(to, pointer_of(from), bytes, cudaMemcpyDeviceToHost));
}
DEADHEAT_STREAM_DRIVER(cuMemcpyDtoD_v2, _ptds, context, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
                       (to, from, bytes)) {
  return copy_now(call, line(pointer_of(to), pointer_of(from), bytes, cudaMemcpyDeviceToDevice));
}
DEADHEAT_STREAM_DRIVER(cuMemcpyHtoDAsync_v2, _ptsz, context,
                       (CUdeviceptr to, const void* from, size_t bytes, CUstream stream), (to, from, bytes, stream)) {
  return copy_async(call, line(pointer_of(to), from, bytes, cudaMemcpyHostToDevice), stream);
}
DEADHEAT_STREAM_DRIVER(cuMemcpyDtoHAsync_v2, _ptsz, context,
                       (void* to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream)) {
  return copy_async(call, line(to, pointer_of(from), bytes, cudaMemcpyDeviceToHost), stream);
}
DEADHEAT_STREAM_DRIVER(cuMemcpyDtoDAsync_v2, _ptsz, context,
                       (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream)) {
  return copy_async(call, line(pointer_of(to), pointer_of(from), bytes, cudaMemcpyDeviceToDevice), stream);
}

// All contexts are of one device.
DEADHEAT_STREAM_DRIVER(cuMemcpyPeer, _ptds, context,
                       (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
                       (to, to_context, from, from_context, bytes)) {
  return copy_now(call, line(pointer_of(to), pointer_of(from), bytes, cudaMemcpyDeviceToDevice));
}
DEADHEAT_STREAM_DRIVER(cuMemcpyPeerAsync, _ptsz, context,
                       (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                        CUstream stream),
                       (to, to_context, from, from_context, bytes, stream)) {
  return copy_async(call, line(pointer_of(to), pointer_of(from), bytes, cudaMemcpyDeviceToDevice), stream);
}

DEADHEAT_STREAM_DRIVER(cuMemcpy2D_v2, _ptds, context, (const CUDA_MEMCPY2D* copy), (copy)) {
  return copy_shaped(call, copy);
}
DEADHEAT_STREAM_DRIVER(cuMemcpy2DUnaligned_v2, _ptds, context, (const CUDA_MEMCPY2D* copy), (copy)) {
  return copy_shaped(call, copy);
}
DEADHEAT_STREAM_DRIVER(cuMemcpy2DAsync_v2, _ptsz, context, (const CUDA_MEMCPY2D* copy, CUstream stream),
                       (copy, stream)) {
  return copy_shaped(call, copy, stream);
}
DEADHEAT_STREAM_DRIVER(cuMemcpy3D_v2, _ptds, context, (const CUDA_MEMCPY3D* copy), (copy)) {
  return copy_shaped(call, copy);
}
DEADHEAT_STREAM_DRIVER(cuMemcpy3DAsync_v2, _ptsz, context, (const CUDA_MEMCPY3D* copy, CUstream stream),
                       (copy, stream)) {
  return copy_shaped(call, copy, stream);
}
DEADHEAT_STREAM_DRIVER(cuMemcpy3DPeer, _ptds, context, (const CUDA_MEMCPY3D_PEER* copy), (copy)) {
  return copy_shaped(call, copy);
}
DEADHEAT_STREAM_DRIVER(cuMemcpy3DPeerAsync, _ptsz, context, (const CUDA_MEMCPY3D_PEER* copy, CUstream stream),
                       (copy, stream)) {
  return copy_shaped(call, copy, stream);
}

// ---- Batches: the same descriptions under other names.

DEADHEAT_BODY(cudaMemcpyBatchAsync,
              (void* const* to, const void* const* from, const size_t* bytes, size_t count,
               cudaMemcpyAttributes* attributes, size_t* indices, size_t attribute_count, cudaStream_t stream));
DEADHEAT_BODY(cudaMemcpy3DBatchAsync,
              (size_t count, cudaMemcpy3DBatchOp* list, unsigned long long flags, cudaStream_t stream));
static_assert(sizeof(CUmemcpyAttributes) == sizeof(cudaMemcpyAttributes));
static_assert(sizeof(CUDA_MEMCPY3D_BATCH_OP) == sizeof(cudaMemcpy3DBatchOp));

static cudaError_t batch(Call& call, CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                         CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count, CUstream stream) {
  return cudaMemcpyBatchAsync_body(call, reinterpret_cast<void* const*>(to), reinterpret_cast<const void* const*>(from),
                                   sizes, count, reinterpret_cast<cudaMemcpyAttributes*>(attributes), indices,
                                   attribute_count, stream);
}

DEADHEAT_STREAM_DRIVER(cuMemcpyBatchAsync, _ptsz, context,
                       (CUdeviceptr * to, CUdeviceptr* from, size_t* sizes, size_t count,
                        CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count, size_t* failed,
                        CUstream stream),
                       (to, from, sizes, count, attributes, indices, attribute_count, failed, stream)) {
  const cudaError_t status = batch(call, to, from, sizes, count, attributes, indices, attribute_count, stream);
  if (status != cudaSuccess && failed) *failed = SIZE_MAX; // not one of them alone
  return status;
}
DEADHEAT_STREAM_DRIVER(cuMemcpyBatchAsync_v2, _ptsz, context,
                       (CUdeviceptr * to, CUdeviceptr* from, size_t* sizes, size_t count,
                        CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count, CUstream stream),
                       (to, from, sizes, count, attributes, indices, attribute_count, stream)) {
  return batch(call, to, from, sizes, count, attributes, indices, attribute_count, stream);
}
DEADHEAT_STREAM_DRIVER(cuMemcpy3DBatchAsync, _ptsz, context,
                       (size_t count, CUDA_MEMCPY3D_BATCH_OP* list, size_t* failed, unsigned long long flags,
                        CUstream stream),
                       (count, list, failed, flags, stream)) {
  const cudaError_t status =
      cudaMemcpy3DBatchAsync_body(call, count, reinterpret_cast<cudaMemcpy3DBatchOp*>(list), flags, stream);
  if (status != cudaSuccess && failed) *failed = SIZE_MAX;
  return status;
}
DEADHEAT_STREAM_DRIVER(cuMemcpy3DBatchAsync_v2, _ptsz, context,
                       (size_t count, CUDA_MEMCPY3D_BATCH_OP* list, unsigned long long flags, CUstream stream),
                       (count, list, flags, stream)) {
  return cudaMemcpy3DBatchAsync_body(call, count, reinterpret_cast<cudaMemcpy3DBatchOp*>(list), flags, stream);
}

// ---- Sets

namespace {

// `count` elements a row; elements lie at multiples of their size (cuMemsetD2D32: pitch and address).
cudaError_t set_elements(Call& call, CUdeviceptr to, std::uint32_t value, unsigned element, size_t pitch, size_t count,
                         size_t rows, CUstream stream, bool synchronous) {
  if (to % element || (rows > 1 && pitch % element)) return cudaErrorInvalidValue;
  SetShape shape;
  shape.destination = pointer_of(to);
  shape.width = count * element;
  shape.pitch = rows > 1 ? pitch : shape.width;
  shape.rows = rows;
  shape.slice = shape.pitch * rows;
  shape.value = value;
  shape.element_bytes = std::uint8_t(element);
  return set(call, shape, stream, synchronous);
}

} // namespace

#define DEADHEAT_SETS(bits, type)                                                                                   \
  DEADHEAT_STREAM_DRIVER(cuMemsetD##bits##_v2, _ptds, context, (CUdeviceptr to, type value, size_t count),          \
                         (to, value, count)) {                                                                      \
    return set_elements(call, to, value, bits / 8, 0, count, 1, nullptr, true);                                     \
  }                                                                                                                 \
  DEADHEAT_STREAM_DRIVER(cuMemsetD##bits##Async, _ptsz, context,                                                    \
                         (CUdeviceptr to, type value, size_t count, CUstream stream), (to, value, count, stream)) { \
    return set_elements(call, to, value, bits / 8, 0, count, 1, stream, false);                                     \
  }                                                                                                                 \
  DEADHEAT_STREAM_DRIVER(cuMemsetD2D##bits##_v2, _ptds, context,                                                    \
                         (CUdeviceptr to, size_t pitch, type value, size_t count, size_t rows),                     \
                         (to, pitch, value, count, rows)) {                                                         \
    return set_elements(call, to, value, bits / 8, pitch, count, rows, nullptr, true);                              \
  }                                                                                                                 \
  DEADHEAT_STREAM_DRIVER(cuMemsetD2D##bits##Async, _ptsz, context,                                                  \
                         (CUdeviceptr to, size_t pitch, type value, size_t count, size_t rows, CUstream stream),    \
                         (to, pitch, value, count, rows, stream)) {                                                 \
    return set_elements(call, to, value, bits / 8, pitch, count, rows, stream, false);                              \
  }
DEADHEAT_SETS(8, unsigned char)
DEADHEAT_SETS(16, unsigned short)
DEADHEAT_SETS(32, unsigned)
#undef DEADHEAT_SETS
