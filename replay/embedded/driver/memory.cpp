// Allocation, host memory, pools and questions about memory (Driver API, "Memory Management", "Stream Ordered Memory
// Allocator", "Unified Addressing").
#include <algorithm>
#include <cstring>

#include "replay/embedded/copies.h"
#include "replay/embedded/driver/driver.h"

using namespace deadheat::embedded;

DEADHEAT_BODY(cudaMalloc, (void** pointer, size_t bytes));
DEADHEAT_BODY(cudaMallocPitch, (void** pointer, size_t* pitch, size_t width, size_t rows));
DEADHEAT_BODY(cudaMallocHost, (void** pointer, size_t bytes));
DEADHEAT_BODY(cudaMallocManaged, (void** pointer, size_t bytes, unsigned flags));
DEADHEAT_BODY(cudaFree, (void* pointer));
DEADHEAT_BODY(cudaHostGetDevicePointer, (void** result, void* pointer, unsigned flags));
DEADHEAT_BODY(cudaHostRegister, (void* pointer, size_t bytes, unsigned flags));
DEADHEAT_BODY(cudaMallocAsync, (void** pointer, size_t bytes, cudaStream_t stream));
DEADHEAT_BODY(cudaMallocFromPoolAsync, (void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream));
DEADHEAT_BODY(cudaFreeAsync, (void* pointer, cudaStream_t stream));
DEADHEAT_BODY(cudaMemPoolCreate, (cudaMemPool_t * pool, const cudaMemPoolProps* properties));
DEADHEAT_BODY(cudaMemPoolGetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value));
DEADHEAT_BODY(cudaMemPoolSetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value));
DEADHEAT_BODY(cudaMemPoolSetAccess, (cudaMemPool_t pool, const cudaMemAccessDesc* list, size_t count));
DEADHEAT_BODY(cudaMemPoolGetAccess, (cudaMemAccessFlags * flags, cudaMemPool_t pool, cudaMemLocation* location));
DEADHEAT_BODY(cudaMemGetDefaultMemPool, (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type));
DEADHEAT_BODY(cudaMemGetMemPool, (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type));
DEADHEAT_BODY(cudaMemSetMemPool, (cudaMemLocation * location, cudaMemAllocationType type, cudaMemPool_t pool));
DEADHEAT_BODY(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int ordinal));
DEADHEAT_BODY(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int ordinal));
DEADHEAT_BODY(cudaDeviceSetMemPool, (int ordinal, cudaMemPool_t pool));
DEADHEAT_BODY(cudaPointerGetAttributes, (cudaPointerAttributes * attributes, const void* pointer));
DEADHEAT_BODY(cudaMemAdvise, (const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location));
DEADHEAT_BODY(cudaMemRangeGetAttribute,
              (void* data, size_t size, cudaMemRangeAttribute attribute, const void* pointer, size_t bytes));
DEADHEAT_BODY(cudaMemRangeGetAttributes, (void** data, size_t* sizes, cudaMemRangeAttribute* attributes, size_t count,
                                          const void* pointer, size_t bytes));
DEADHEAT_BODY(cudaMemPrefetchAsync,
              (const void* pointer, size_t bytes, cudaMemLocation location, unsigned flags, cudaStream_t stream));
DEADHEAT_BODY(cudaMemPrefetchBatchAsync,
              (void** pointers, size_t* sizes, size_t count, cudaMemLocation* locations, size_t* indices,
               size_t location_count, unsigned long long flags, cudaStream_t stream));
DEADHEAT_BODY(cudaMemDiscardBatchAsync,
              (void** pointers, size_t* sizes, size_t count, unsigned long long flags, cudaStream_t stream));
DEADHEAT_BODY(cudaMemDiscardAndPrefetchBatchAsync,
              (void** pointers, size_t* sizes, size_t count, cudaMemLocation* locations, size_t* indices,
               size_t location_count, unsigned long long flags, cudaStream_t stream));

// The structures and numbers that both name (driver_types.h, cuda.h).
static_assert(sizeof(CUmemLocation) == sizeof(cudaMemLocation) &&
              int(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT) == int(cudaMemLocationTypeHostNumaCurrent));
static_assert(sizeof(CUmemAccessDesc) == sizeof(cudaMemAccessDesc));
static_assert(sizeof(CUmemPoolProps) == sizeof(cudaMemPoolProps));
static_assert(int(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == int(cudaMemPoolAttrUsedMemHigh));

namespace {

// Zero bytes are nothing to the runtime, and an error to the driver.
template <class Body>
cudaError_t allocate(CUdeviceptr* result, size_t bytes, Body&& body) {
  if (!result || bytes == 0) return cudaErrorInvalidValue;
  void* pointer = nullptr;
  const cudaError_t status = body(&pointer);
  if (status == cudaSuccess) *result = address_of(pointer);
  return status;
}

cudaMemLocation location_of(const CUmemLocation& location) {
  cudaMemLocation result{};
  result.type = cudaMemLocationType(location.type);
  result.id = location.id;
  return result;
}
cudaMemLocation location_of(CUdevice device) { // before CUDA 12.2: a device, or the host
  cudaMemLocation result{};
  result.type = device == CU_DEVICE_CPU ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  result.id = device == CU_DEVICE_CPU ? 0 : device;
  return result;
}

void** pointers_of(CUdeviceptr* list) { return reinterpret_cast<void**>(list); }

} // namespace

// ---- Allocation

DEADHEAT_DRIVER(cuMemAlloc_v2, context, (CUdeviceptr * result, size_t bytes), (result, bytes)) {
  return allocate(result, bytes, [&](void** pointer) { return cudaMalloc_body(call, pointer, bytes); });
}
DEADHEAT_DRIVER(cuMemAllocPitch_v2, context,
                (CUdeviceptr * result, size_t* pitch, size_t width, size_t rows, unsigned element),
                (result, pitch, width, rows, element)) {
  if (element != 4 && element != 8 && element != 16) return cudaErrorInvalidValue;
  return allocate(result, width * rows,
                  [&](void** pointer) { return cudaMallocPitch_body(call, pointer, pitch, width, rows); });
}
DEADHEAT_DRIVER(cuMemAllocManaged, context, (CUdeviceptr * result, size_t bytes, unsigned flags),
                (result, bytes, flags)) {
  return allocate(result, bytes, [&](void** pointer) { return cudaMallocManaged_body(call, pointer, bytes, flags); });
}
DEADHEAT_DRIVER(cuMemFree_v2, context, (CUdeviceptr address), (address)) {
  return cudaFree_body(call, pointer_of(address));
}
DEADHEAT_BODY(cudaMemGetInfo, (size_t* available, size_t* total));
DEADHEAT_DRIVER(cuMemGetInfo_v2, context, (size_t* available, size_t* total), (available, total)) {
  return cudaMemGetInfo_body(call, available, total);
}
DEADHEAT_DRIVER(cuMemGetAddressRange_v2, context, (CUdeviceptr * base, size_t* bytes, CUdeviceptr address),
                (base, bytes, address)) {
  const Place place = place_of(call, pointer_of(address));
  if (!place.allocation) return cudaErrorSymbolNotFound; // CUDA_ERROR_NOT_FOUND
  if (base) *base = place.allocation->address;
  if (bytes) *bytes = place.allocation->bytes;
  return cudaSuccess;
}

// ---- Host memory

static cudaError_t allocate_host(Call& call, void** result, size_t bytes) {
  return result && bytes ? cudaMallocHost_body(call, result, bytes) : cudaErrorInvalidValue;
}
DEADHEAT_DRIVER(cuMemAllocHost_v2, context, (void** result, size_t bytes), (result, bytes)) {
  return allocate_host(call, result, bytes);
}
DEADHEAT_SAME(cuMemHostAlloc, cudaHostAlloc, (void** pointer, size_t bytes, unsigned flags), (pointer, bytes, flags))
DEADHEAT_SAME(cuMemFreeHost, cudaFreeHost, (void* pointer), (pointer))
DEADHEAT_SAME(cuMemHostGetFlags, cudaHostGetFlags, (unsigned* flags, void* pointer), (flags, pointer))
DEADHEAT_SAME(cuMemHostUnregister, cudaHostUnregister, (void* pointer), (pointer))
DEADHEAT_DRIVER(cuMemHostGetDevicePointer_v2, context, (CUdeviceptr * result, void* pointer, unsigned flags),
                (result, pointer, flags)) {
  return cudaHostGetDevicePointer_body(call, pointers_of(result), pointer, flags);
}
DEADHEAT_DRIVER(cuMemHostRegister, context, (void* pointer, size_t bytes, unsigned flags), (pointer, bytes, flags)) {
  return cudaHostRegister_body(call, pointer, bytes, flags);
}
DEADHEAT_DRIVER(cuMemHostRegister_v2, context, (void* pointer, size_t bytes, unsigned flags), (pointer, bytes, flags)) {
  return cudaHostRegister_body(call, pointer, bytes, flags);
}

// ---- Stream-ordered memory

DEADHEAT_STREAM_DRIVER(cuMemAllocAsync, _ptsz, context, (CUdeviceptr * result, size_t bytes, CUstream stream),
                       (result, bytes, stream)) {
  return allocate(result, bytes, [&](void** pointer) { return cudaMallocAsync_body(call, pointer, bytes, stream); });
}
DEADHEAT_STREAM_DRIVER(cuMemAllocFromPoolAsync, _ptsz, context,
                       (CUdeviceptr * result, size_t bytes, CUmemoryPool pool, CUstream stream),
                       (result, bytes, pool, stream)) {
  return allocate(result, bytes,
                  [&](void** pointer) { return cudaMallocFromPoolAsync_body(call, pointer, bytes, pool, stream); });
}
DEADHEAT_STREAM_DRIVER(cuMemFreeAsync, _ptsz, context, (CUdeviceptr address, CUstream stream), (address, stream)) {
  return cudaFreeAsync_body(call, pointer_of(address), stream);
}

DEADHEAT_DRIVER(cuMemPoolCreate, initialized, (CUmemoryPool * pool, const CUmemPoolProps* properties),
                (pool, properties)) {
  if (!properties) return cudaErrorInvalidValue;
  cudaMemPoolProps same{};
  same.allocType = cudaMemAllocationType(properties->allocType);
  same.handleTypes = cudaMemAllocationHandleType(properties->handleTypes);
  same.location = location_of(properties->location);
  same.maxSize = properties->maxSize;
  return cudaMemPoolCreate_body(call, pool, &same);
}
DEADHEAT_BODY(cudaMemPoolDestroy, (cudaMemPool_t pool));
DEADHEAT_DRIVER(cuMemPoolDestroy, initialized, (CUmemoryPool pool), (pool)) {
  return cudaMemPoolDestroy_body(call, pool);
}
DEADHEAT_BODY(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep));
DEADHEAT_DRIVER(cuMemPoolTrimTo, initialized, (CUmemoryPool pool, size_t keep), (pool, keep)) {
  return cudaMemPoolTrimTo_body(call, pool, keep);
}
DEADHEAT_DRIVER(cuMemPoolGetAttribute, initialized, (CUmemoryPool pool, CUmemPool_attribute attribute, void* value),
                (pool, attribute, value)) {
  return cudaMemPoolGetAttribute_body(call, pool, cudaMemPoolAttr(attribute), value);
}
DEADHEAT_DRIVER(cuMemPoolSetAttribute, initialized, (CUmemoryPool pool, CUmemPool_attribute attribute, void* value),
                (pool, attribute, value)) {
  return cudaMemPoolSetAttribute_body(call, pool, cudaMemPoolAttr(attribute), value);
}
DEADHEAT_DRIVER(cuMemPoolSetAccess, initialized, (CUmemoryPool pool, const CUmemAccessDesc* list, size_t count),
                (pool, list, count)) {
  return cudaMemPoolSetAccess_body(call, pool, reinterpret_cast<const cudaMemAccessDesc*>(list), count);
}
DEADHEAT_DRIVER(cuMemPoolGetAccess, initialized,
                (CUmemAccess_flags * flags, CUmemoryPool pool, CUmemLocation* location), (flags, pool, location)) {
  return cudaMemPoolGetAccess_body(call, reinterpret_cast<cudaMemAccessFlags*>(flags), pool,
                                   reinterpret_cast<cudaMemLocation*>(location));
}
DEADHEAT_DRIVER(cuMemGetDefaultMemPool, initialized,
                (CUmemoryPool * pool, CUmemLocation* location, CUmemAllocationType type), (pool, location, type)) {
  return cudaMemGetDefaultMemPool_body(call, pool, reinterpret_cast<cudaMemLocation*>(location),
                                       cudaMemAllocationType(type));
}
DEADHEAT_DRIVER(cuMemGetMemPool, initialized, (CUmemoryPool * pool, CUmemLocation* location, CUmemAllocationType type),
                (pool, location, type)) {
  return cudaMemGetMemPool_body(call, pool, reinterpret_cast<cudaMemLocation*>(location), cudaMemAllocationType(type));
}
DEADHEAT_DRIVER(cuMemSetMemPool, initialized, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool),
                (location, type, pool)) {
  return cudaMemSetMemPool_body(call, reinterpret_cast<cudaMemLocation*>(location), cudaMemAllocationType(type), pool);
}
DEADHEAT_DRIVER(cuDeviceGetDefaultMemPool, initialized, (CUmemoryPool * pool, CUdevice device), (pool, device)) {
  return cudaDeviceGetDefaultMemPool_body(call, pool, device);
}
DEADHEAT_DRIVER(cuDeviceGetMemPool, initialized, (CUmemoryPool * pool, CUdevice device), (pool, device)) {
  return cudaDeviceGetMemPool_body(call, pool, device);
}
DEADHEAT_DRIVER(cuDeviceSetMemPool, initialized, (CUdevice device, CUmemoryPool pool), (device, pool)) {
  return cudaDeviceSetMemPool_body(call, device, pool);
}

// ---- Pointers

namespace {

template <class Value>
cudaError_t give(void* data, Value value) {
  std::memcpy(data, &value, sizeof value);
  return cudaSuccess;
}

// Of memory that is none of CUDA's there is nothing to say but that (cuPointerGetAttribute: INVALID_VALUE).
cudaError_t attribute_of(Call& call, void* data, CUpointer_attribute attribute, const void* pointer) {
  const Place place = place_of(call, pointer);
  if (attribute == CU_POINTER_ATTRIBUTE_MAPPED) return give(data, int(place.allocation != nullptr));
  if (!place.allocation) return cudaErrorInvalidValue;
  cudaPointerAttributes known;
  const cudaError_t status = cudaPointerGetAttributes_body(call, &known, pointer);
  if (status != cudaSuccess) return status;
  const bool pooled = place.allocation->kind == deadheat::trace::Allocate::Kind::pool;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return give(data, current_context(call));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(data, unsigned(known.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return give(data, known.devicePointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return known.hostPointer ? give(data, known.hostPointer) : cudaErrorInvalidValue;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return give(data, std::uint64_t(place.allocation->allocation));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return give(data, int(known.type == cudaMemoryTypeManaged));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return give(data, int(0));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return give(data, place.allocation->address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return give(data, std::uint64_t(place.allocation->bytes));
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return give(data, std::uint64_t(0));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give(data, unsigned(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ | CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return give(data, int(0));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: {
      cudaMemPool_t pool = nullptr;
      if (pooled) cudaDeviceGetMemPool_body(call, &pool, 0);
      return pooled ? give(data, pool) : cudaErrorInvalidValue;
    }
    default: return cudaErrorInvalidValue;
  }
}

} // namespace

DEADHEAT_DRIVER(cuPointerGetAttribute, context, (void* data, CUpointer_attribute attribute, CUdeviceptr address),
                (data, attribute, address)) {
  return data ? attribute_of(call, data, attribute, pointer_of(address)) : cudaErrorInvalidValue;
}

// What a pointer does not have is null or zero here, and no error.
DEADHEAT_DRIVER(cuPointerGetAttributes, context,
                (unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address),
                (count, attributes, data, address)) {
  if (count == 0 || !attributes || !data) return cudaErrorInvalidValue;
  for (unsigned i = 0; i < count; ++i) {
    if (attribute_of(call, data[i], attributes[i], pointer_of(address)) == cudaSuccess) continue;
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: give(data[i], int(0)); break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: give(data[i], int(-2)); break; // CU_DEVICE_INVALID
      default: give(data[i], std::uint64_t(0));
    }
  }
  return cudaSuccess;
}

// Of a hint, or of what holds anyway: copies of host memory are made when the call returns.
DEADHEAT_DRIVER(cuPointerSetAttribute, context, (const void* value, CUpointer_attribute attribute, CUdeviceptr address),
                (value, attribute, address)) {
  if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return cudaErrorInvalidValue;
  if (!place_of(call, pointer_of(address)).allocation) return cudaErrorInvalidValue;
  return *static_cast<const unsigned*>(value) ? refuse(call, "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS") : cudaSuccess;
}

// ---- Managed memory

DEADHEAT_DRIVER(cuMemAdvise, context, (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device),
                (address, bytes, advice, device)) {
  return cudaMemAdvise_body(call, pointer_of(address), bytes, cudaMemoryAdvise(advice), location_of(device));
}
DEADHEAT_DRIVER(cuMemAdvise_v2, context,
                (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location),
                (address, bytes, advice, location)) {
  return cudaMemAdvise_body(call, pointer_of(address), bytes, cudaMemoryAdvise(advice), location_of(location));
}
DEADHEAT_DRIVER(cuMemRangeGetAttribute, context,
                (void* data, size_t size, CUmem_range_attribute attribute, CUdeviceptr address, size_t bytes),
                (data, size, attribute, address, bytes)) {
  return cudaMemRangeGetAttribute_body(call, data, size, cudaMemRangeAttribute(attribute), pointer_of(address), bytes);
}
DEADHEAT_DRIVER(cuMemRangeGetAttributes, context,
                (void** data, size_t* sizes, CUmem_range_attribute* attributes, size_t count, CUdeviceptr address,
                 size_t bytes),
                (data, sizes, attributes, count, address, bytes)) {
  return cudaMemRangeGetAttributes_body(call, data, sizes, reinterpret_cast<cudaMemRangeAttribute*>(attributes), count,
                                        pointer_of(address), bytes);
}
DEADHEAT_STREAM_DRIVER(cuMemPrefetchAsync, _ptsz, context,
                       (CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream),
                       (address, bytes, device, stream)) {
  return cudaMemPrefetchAsync_body(call, pointer_of(address), bytes, location_of(device), 0, stream);
}
DEADHEAT_STREAM_DRIVER(cuMemPrefetchAsync_v2, _ptsz, context,
                       (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream),
                       (address, bytes, location, flags, stream)) {
  return cudaMemPrefetchAsync_body(call, pointer_of(address), bytes, location_of(location), flags, stream);
}
DEADHEAT_STREAM_DRIVER(cuMemPrefetchBatchAsync, _ptsz, context,
                       (CUdeviceptr * list, size_t* sizes, size_t count, CUmemLocation* locations, size_t* indices,
                        size_t location_count, unsigned long long flags, CUstream stream),
                       (list, sizes, count, locations, indices, location_count, flags, stream)) {
  return cudaMemPrefetchBatchAsync_body(call, pointers_of(list), sizes, count,
                                        reinterpret_cast<cudaMemLocation*>(locations), indices, location_count, flags,
                                        stream);
}
DEADHEAT_STREAM_DRIVER(cuMemDiscardBatchAsync, _ptsz, context,
                       (CUdeviceptr * list, size_t* sizes, size_t count, unsigned long long flags, CUstream stream),
                       (list, sizes, count, flags, stream)) {
  return cudaMemDiscardBatchAsync_body(call, pointers_of(list), sizes, count, flags, stream);
}
DEADHEAT_STREAM_DRIVER(cuMemDiscardAndPrefetchBatchAsync, _ptsz, context,
                       (CUdeviceptr * list, size_t* sizes, size_t count, CUmemLocation* locations, size_t* indices,
                        size_t location_count, unsigned long long flags, CUstream stream),
                       (list, sizes, count, locations, indices, location_count, flags, stream)) {
  return cudaMemDiscardAndPrefetchBatchAsync_body(call, pointers_of(list), sizes, count,
                                                  reinterpret_cast<cudaMemLocation*>(locations), indices,
                                                  location_count, flags, stream);
}
