// Allocation, pools and questions about memory (Runtime API, "Memory Management", "Stream Ordered Memory Allocator",
// "Unified Addressing").
#include <algorithm>

#include "replay/embedded/call_site.h"
#include "replay/embedded/graph_nodes.h"

using namespace deadheat::embedded;
using Kind = deadheat::trace::Allocate::Kind;

namespace {

constexpr std::uint64_t row_alignment = 512; // of cudaMallocPitch

cudaError_t allocate(Call& call, Kind kind, void** result, std::uint64_t bytes, std::uint32_t stream = 0) {
  if (!result) return cudaErrorInvalidValue;
  const cudaError_t status = forbid_while_capturing(call);
  if (status != cudaSuccess) return status;
  *result = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > call.device().profile().memory_bytes) return cudaErrorMemoryAllocation;
  deadheat::Expected<deadheat::trace::Allocate> made = call.device().allocate(kind, bytes, call.thread.number, stream);
  if (!made) return cudaErrorMemoryAllocation;
  *result = reinterpret_cast<void*>(made->address);
  if (call.runtime.options.leak_check && !call.runtime.options.output.empty()) {
    call.runtime.allocation_sites[made->allocation] = std::string("allocated by ") + call.api + " at " + call_site();
  }
  return cudaSuccess;
}

// What cannot be freed is an error of the program that it may well ignore: it is in the trace, too.
cudaError_t refuse_free(Call& call, const void* pointer) {
  using Error = deadheat::trace::MemoryError;
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const deadheat::trace::Allocate* live = call.device().find_allocation(address);
  const deadheat::trace::Allocate* freed = live ? nullptr : call.device().find_freed(address);
  Error error;
  const bool twice = freed && freed->address == address;
  error.kind = twice ? Error::Kind::double_free : Error::Kind::invalid_free;
  error.address = address;
  error.access = deadheat::AccessKind::free;
  if (live || freed) error.nearest_allocation = (live ? live : freed)->allocation;
  error.text = std::string(call.api) + (twice  ? " of memory that was freed before"
                                        : live ? (live->address == address ? " of memory of another kind"
                                                                           : " of an address inside an allocation")
                                               : " of an address that no allocation call gave");
  if (!call.runtime.options.output.empty()) {
    const std::string site = call_site();
    if (!site.empty()) error.text += " (called at " + site + ")";
  }
  call.runtime.recording->record(error);
  return cudaErrorInvalidValue;
}

// Allocation that begins at `pointer`.
const deadheat::trace::Allocate* allocation_at(Call& call, const void* pointer) {
  const Place place = place_of(call, pointer);
  const bool starts = place.allocation && place.allocation->address == reinterpret_cast<std::uint64_t>(pointer);
  return starts ? place.allocation : nullptr;
}

// The registered host memory that the pinned allocation at `place` stands for; 0: none.
std::uint64_t stands_for(Call& call, std::uint64_t place) {
  for (const auto& [host, registered] : call.runtime.registered) {
    if (registered.place == place) return host;
  }
  return 0;
}

// Outside streams: waits for all work, which may still use the memory. Of a pool's memory nobody is promised that
// (Runtime API, cudaFree): the host frees it, and whatever uses it must be known to be complete.
cudaError_t release(Call& call, void* pointer, std::uint32_t stream = 0) {
  if (stream == 0) {
    const deadheat::trace::Allocate* allocation = allocation_at(call, pointer);
    const bool pooled = allocation && allocation->kind == Kind::pool;
    const cudaError_t status = pooled ? call.complete_all() : call.wait(deadheat::trace::HostWait::Kind::device);
    if (status != cudaSuccess) return status;
    if (pooled) {
      const deadheat::Expected<std::uint32_t> freed =
          call.device().release_by_host(reinterpret_cast<std::uint64_t>(pointer), call.thread.number);
      return freed ? call.wait_operation(*freed) : cudaErrorInvalidValue;
    }
  }
  const deadheat::Expected<void> freed =
      call.device().release(reinterpret_cast<std::uint64_t>(pointer), call.thread.number, stream);
  call.runtime.fault_seen();
  if (call.runtime.sticky != cudaSuccess) return call.runtime.sticky;
  return freed ? cudaSuccess : cudaErrorInvalidValue;
}

} // namespace

DEADHEAT_API(cudaMalloc, device, (void** pointer, size_t bytes), (pointer, bytes)) {
  return allocate(call, Kind::device, pointer, bytes);
}

DEADHEAT_API(cudaFree, device, (void* pointer), (pointer)) {
  if (!pointer) return cudaSuccess;
  cudaError_t status = forbid_while_capturing(call);
  if (status != cudaSuccess) return status;
  bool handled = false;
  status = free_graph_memory(call, pointer, nullptr, &handled);
  if (handled) return status;
  const deadheat::trace::Allocate* allocation = allocation_at(call, pointer);
  const bool ours = allocation && (allocation->kind == Kind::device || allocation->kind == Kind::managed ||
                                   allocation->kind == Kind::pool);
  return ours ? release(call, pointer) : refuse_free(call, pointer);
}

static cudaError_t allocate_pinned(Call& call, void** pointer, size_t bytes, unsigned flags) {
  call.runtime.watch_host_memory();
  const cudaError_t status = allocate(call, Kind::pinned, pointer, bytes);
  if (status == cudaSuccess && *pointer) {
    call.runtime.host_flags[reinterpret_cast<std::uint64_t>(*pointer)] = flags | cudaHostAllocMapped;
  }
  return status;
}

DEADHEAT_API(cudaMallocHost, device, (void** pointer, size_t bytes), (pointer, bytes)) {
  return allocate_pinned(call, pointer, bytes, cudaHostAllocDefault);
}

DEADHEAT_API(cudaHostAlloc, device, (void** pointer, size_t bytes, unsigned flags), (pointer, bytes, flags)) {
  if (flags & ~unsigned(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined)) {
    return cudaErrorInvalidValue;
  }
  return allocate_pinned(call, pointer, bytes, flags);
}

DEADHEAT_API(cudaFreeHost, device, (void* pointer), (pointer)) {
  if (!pointer) return cudaSuccess;
  const deadheat::trace::Allocate* allocation = allocation_at(call, pointer);
  if (!allocation || allocation->kind != Kind::pinned || stands_for(call, allocation->address)) {
    return refuse_free(call, pointer);
  }
  call.runtime.host_flags.erase(allocation->address);
  return release(call, pointer);
}

DEADHEAT_API(cudaHostGetDevicePointer, device, (void** result, void* pointer, unsigned flags),
             (result, pointer, flags)) {
  if (!result || flags) return cudaErrorInvalidValue;
  const Place place = place_of(call, pointer);
  if (place.kind != Place::Kind::pinned) return cudaErrorInvalidValue;
  *result = reinterpret_cast<void*>(place.address); // registered memory apart, the same (deadheat/address.h)
  return cudaSuccess;
}

DEADHEAT_API(cudaHostRegister, device, (void* pointer, size_t bytes, unsigned flags), (pointer, bytes, flags)) {
  const auto host = reinterpret_cast<std::uint64_t>(pointer);
  if (!pointer || bytes == 0 || host + bytes < host) return cudaErrorInvalidValue;
  if (flags & ~unsigned(cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory |
                        cudaHostRegisterReadOnly)) {
    return cudaErrorInvalidValue;
  }
  if (flags & (cudaHostRegisterIoMemory | cudaHostRegisterReadOnly)) { // as the device's attributes say
    say_once("cudaHostRegister: I/O memory and read-only memory are not supported by the embedded device");
    return cudaErrorNotSupported;
  }
  const cudaError_t status = forbid_while_capturing(call);
  if (status != cudaSuccess) return status;
  const Place place = place_of(call, pointer);
  if (place.kind == Place::Kind::pinned) return cudaErrorHostMemoryAlreadyRegistered;
  if (place.kind != Place::Kind::host) return cudaErrorInvalidValue;
  const auto next = call.runtime.registered.lower_bound(host);
  if (next != call.runtime.registered.end() && next->first < host + bytes) return cudaErrorHostMemoryAlreadyRegistered;
  void* twin = nullptr;
  const cudaError_t made = allocate_pinned(call, &twin, bytes, flags);
  if (made != cudaSuccess) return made;
  call.runtime.registered[host] = {bytes, reinterpret_cast<std::uint64_t>(twin)};
  call.device().mirror(reinterpret_cast<std::uint64_t>(twin), pointer);
  return cudaSuccess;
}

DEADHEAT_API(cudaHostUnregister, device, (void* pointer), (pointer)) {
  const auto host = reinterpret_cast<std::uint64_t>(pointer);
  const auto found = call.runtime.registered.find(host);
  if (!pointer) return cudaErrorInvalidValue;
  if (found == call.runtime.registered.end()) return cudaErrorHostMemoryNotRegistered;
  const std::uint64_t place = found->second.place;
  call.runtime.host_flags.erase(place);
  const cudaError_t status = release(call, reinterpret_cast<void*>(place));
  call.runtime.registered.erase(host); // while that waited, another thread may have changed the table
  return status;
}

DEADHEAT_API(cudaHostGetFlags, device, (unsigned* flags, void* pointer), (flags, pointer)) {
  const Place place = place_of(call, pointer);
  if (!flags || place.kind != Place::Kind::pinned) return cudaErrorInvalidValue;
  *flags = call.runtime.host_flags[place.allocation->address];
  return cudaSuccess;
}

DEADHEAT_API(cudaMallocManaged, device, (void** pointer, size_t bytes, unsigned flags), (pointer, bytes, flags)) {
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) return cudaErrorInvalidValue;
  call.runtime.watch_host_memory();
  return allocate(call, Kind::managed, pointer, bytes);
}

DEADHEAT_API(cudaMallocPitch, device, (void** pointer, size_t* pitch, size_t width, size_t rows),
             (pointer, pitch, width, rows)) {
  if (!pitch) return cudaErrorInvalidValue;
  *pitch = (width + row_alignment - 1) / row_alignment * row_alignment;
  return allocate(call, Kind::device, pointer, *pitch * rows);
}

DEADHEAT_API(cudaMalloc3D, device, (cudaPitchedPtr * result, cudaExtent extent), (result, extent)) {
  if (!result) return cudaErrorInvalidValue;
  const std::uint64_t pitch = (extent.width + row_alignment - 1) / row_alignment * row_alignment;
  void* pointer = nullptr;
  const cudaError_t status = allocate(call, Kind::device, &pointer, pitch * extent.height * extent.depth);
  if (status == cudaSuccess) *result = {pointer, pitch, extent.width, extent.height};
  return status;
}

DEADHEAT_API(cudaMemGetInfo, device, (size_t* available, size_t* total), (available, total)) {
  if (!available || !total) return cudaErrorInvalidValue;
  *total = call.device().profile().memory_bytes;
  *available = *total - std::min<std::uint64_t>(*total, call.device().bytes_in_use());
  return cudaSuccess;
}

DEADHEAT_API(cudaPointerGetAttributes, device, (cudaPointerAttributes * attributes, const void* pointer),
             (attributes, pointer)) {
  if (!attributes) return cudaErrorInvalidValue;
  *attributes = {};
  attributes->device = -2; // what CUDA says of memory that is none of its own
  const Place place = place_of(call, pointer);
  switch (place.kind) {
    case Place::Kind::host:
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->hostPointer = const_cast<void*>(pointer);
      return cudaSuccess;
    case Place::Kind::bad: attributes->type = cudaMemoryTypeUnregistered; return cudaSuccess;
    case Place::Kind::pinned: attributes->type = cudaMemoryTypeHost; break;
    case Place::Kind::managed: attributes->type = cudaMemoryTypeManaged; break;
    case Place::Kind::device: attributes->type = cudaMemoryTypeDevice; break;
  }
  attributes->device = 0;
  attributes->devicePointer = reinterpret_cast<void*>(place.address);
  if (place.kind == Place::Kind::device) return cudaSuccess;
  const std::uint64_t host = stands_for(call, place.allocation->address);
  const std::uint64_t offset = place.address - place.allocation->address;
  attributes->hostPointer = host ? reinterpret_cast<void*>(host + offset) : attributes->devicePointer;
  return cudaSuccess;
}

// ---- Stream-ordered memory. Every pool hands out memory of the one device; pools differ in their settings only.

namespace {

struct Pool {
  std::uint64_t attributes[9] = {0, 1, 1, 1, 0, 0, 0, 0, 0}; // by cudaMemPoolAttr
};
std::vector<std::unique_ptr<Pool>>& pools() { // the first is the default pool
  static auto* list = new std::vector<std::unique_ptr<Pool>>;
  if (list->empty()) list->push_back(std::make_unique<Pool>());
  return *list;
}
std::size_t& current_pool() {
  static std::size_t index = 0;
  return index;
}
Pool* pool_of(cudaMemPool_t handle) {
  for (const auto& pool : pools()) {
    if (reinterpret_cast<cudaMemPool_t>(pool.get()) == handle) return pool.get();
  }
  return nullptr;
}
cudaMemPool_t handle_of(std::size_t index) { return reinterpret_cast<cudaMemPool_t>(pools()[index].get()); }

cudaError_t allocate_async(Call& call, void** pointer, size_t bytes, cudaStream_t handle) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!pointer) return cudaErrorInvalidValue;
  if (bytes == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  if (stream->capture) return capture_allocation(call, *stream, pointer, bytes);
  ++call.runtime.submitted;
  return allocate(call, Kind::pool, pointer, bytes, stream->id);
}

} // namespace

DEADHEAT_STREAM_API(cudaMallocAsync, _ptsz, device, (void** pointer, size_t bytes, cudaStream_t stream),
                    (pointer, bytes, stream)) {
  return allocate_async(call, pointer, bytes, stream);
}

DEADHEAT_STREAM_API(cudaMallocFromPoolAsync, _ptsz, device,
                    (void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                    (pointer, bytes, pool, stream)) {
  return pool_of(pool) ? allocate_async(call, pointer, bytes, stream) : cudaErrorInvalidValue;
}

DEADHEAT_STREAM_API(cudaFreeAsync, _ptsz, device, (void* pointer, cudaStream_t handle), (pointer, handle)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!pointer) return cudaSuccess;
  if (stream->capture) return capture_free(call, *stream, pointer);
  cudaError_t status = forbid_while_capturing(call);
  if (status != cudaSuccess) return status;
  bool handled = false;
  status = free_graph_memory(call, pointer, stream, &handled);
  if (handled) return status;
  const deadheat::trace::Allocate* allocation = allocation_at(call, pointer);
  if (!allocation || (allocation->kind != Kind::pool && allocation->kind != Kind::device))
    return refuse_free(call, pointer);
  ++call.runtime.submitted;
  return release(call, pointer, stream->id);
}

DEADHEAT_API(cudaDeviceGetDefaultMemPool, nothing, (cudaMemPool_t * pool, int ordinal), (pool, ordinal)) {
  if (!pool) return cudaErrorInvalidValue;
  if (ordinal != 0) return cudaErrorInvalidDevice;
  *pool = handle_of(0);
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceGetMemPool, nothing, (cudaMemPool_t * pool, int ordinal), (pool, ordinal)) {
  if (!pool) return cudaErrorInvalidValue;
  if (ordinal != 0) return cudaErrorInvalidDevice;
  *pool = handle_of(current_pool());
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceSetMemPool, nothing, (int ordinal, cudaMemPool_t handle), (ordinal, handle)) {
  if (ordinal != 0) return cudaErrorInvalidDevice;
  for (std::size_t i = 0; i < pools().size(); ++i) {
    if (handle_of(i) == handle) {
      current_pool() = i;
      return cudaSuccess;
    }
  }
  return cudaErrorInvalidValue;
}

DEADHEAT_API(cudaMemPoolCreate, nothing, (cudaMemPool_t * pool, const cudaMemPoolProps* properties),
             (pool, properties)) {
  if (!pool || !properties || properties->allocType != cudaMemAllocationTypePinned) return cudaErrorInvalidValue;
  if (properties->location.type != cudaMemLocationTypeDevice || properties->handleTypes != cudaMemHandleTypeNone) {
    return cudaErrorNotSupported;
  }
  if (properties->location.id != 0) return cudaErrorInvalidDevice;
  pools().push_back(std::make_unique<Pool>());
  *pool = handle_of(pools().size() - 1);
  return cudaSuccess;
}

DEADHEAT_API(cudaMemPoolDestroy, nothing, (cudaMemPool_t handle), (handle)) {
  Pool* pool = pool_of(handle);
  if (!pool || pool == pools()[0].get()) return cudaErrorInvalidValue;
  const auto at = std::find_if(pools().begin(), pools().end(), [&](const auto& p) { return p.get() == pool; });
  const auto index = std::size_t(at - pools().begin());
  if (current_pool() == index) current_pool() = 0;
  if (current_pool() > index) --current_pool();
  pools().erase(at);
  return cudaSuccess;
}

DEADHEAT_API(cudaMemPoolTrimTo, nothing, (cudaMemPool_t pool, size_t keep), (pool, keep)) {
  return pool_of(pool) ? cudaSuccess : cudaErrorInvalidValue;
}

DEADHEAT_API(cudaMemPoolGetAttribute, device, (cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value),
             (handle, attribute, value)) {
  Pool* pool = pool_of(handle);
  if (!pool || !value || attribute < 1 || attribute > 8) return cudaErrorInvalidValue;
  if (attribute <= cudaMemPoolReuseAllowInternalDependencies) {
    *static_cast<int*>(value) = int(pool->attributes[attribute]);
  } else if (attribute == cudaMemPoolAttrReleaseThreshold) {
    *static_cast<std::uint64_t*>(value) = pool->attributes[attribute];
  } else { // bytes reserved and used, now and at most
    std::uint64_t used = 0;
    for (const auto& allocation : call.device().live_allocations()) {
      if (allocation.kind == Kind::pool) used += allocation.bytes;
    }
    pool->attributes[attribute] = std::max(pool->attributes[attribute], used);
    const bool high = attribute == cudaMemPoolAttrReservedMemHigh || attribute == cudaMemPoolAttrUsedMemHigh;
    *static_cast<std::uint64_t*>(value) = high ? pool->attributes[attribute] : used;
  }
  return cudaSuccess;
}

DEADHEAT_API(cudaMemPoolSetAttribute, nothing, (cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value),
             (handle, attribute, value)) {
  Pool* pool = pool_of(handle);
  if (!pool || !value || attribute < 1 || attribute > 8) return cudaErrorInvalidValue;
  pool->attributes[attribute] = attribute <= cudaMemPoolReuseAllowInternalDependencies
                                    ? std::uint64_t(*static_cast<int*>(value))
                                    : *static_cast<std::uint64_t*>(value);
  return cudaSuccess;
}

DEADHEAT_API(cudaMemPoolSetAccess, nothing, (cudaMemPool_t pool, const cudaMemAccessDesc* list, size_t count),
             (pool, list, count)) {
  return pool_of(pool) ? cudaSuccess : cudaErrorInvalidValue;
}

DEADHEAT_API(cudaMemPoolGetAccess, nothing, (cudaMemAccessFlags * flags, cudaMemPool_t pool, cudaMemLocation* location),
             (flags, pool, location)) {
  if (!flags || !location || !pool_of(pool)) return cudaErrorInvalidValue;
  *flags = cudaMemAccessFlagsProtReadWrite;
  return cudaSuccess;
}

DEADHEAT_API(cudaMemGetDefaultMemPool, nothing,
             (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type), (pool, location, type)) {
  if (!pool || !location) return cudaErrorInvalidValue;
  if (location->type != cudaMemLocationTypeDevice || type != cudaMemAllocationTypePinned) return cudaErrorNotSupported;
  if (location->id != 0) return cudaErrorInvalidDevice;
  *pool = handle_of(0);
  return cudaSuccess;
}

DEADHEAT_API(cudaMemGetMemPool, nothing, (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
             (pool, location, type)) {
  const cudaError_t status = cudaMemGetDefaultMemPool_body(call, pool, location, type);
  if (status == cudaSuccess) *pool = handle_of(current_pool());
  return status;
}

DEADHEAT_API(cudaMemSetMemPool, nothing, (cudaMemLocation * location, cudaMemAllocationType type, cudaMemPool_t pool),
             (location, type, pool)) {
  if (!location || type != cudaMemAllocationTypePinned) return cudaErrorInvalidValue;
  if (location->type != cudaMemLocationTypeDevice) return cudaErrorNotSupported;
  return cudaDeviceSetMemPool_body(call, location->id, pool);
}
