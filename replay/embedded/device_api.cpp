// The device and the process's use of it (Runtime API, "Device Management", "Version Management", "Peer Device Memory
// Access", "Profiler Control"). There is one device, number 0.
#include <algorithm>
#include <cstring>

#include "replay/embedded/copies.h"
#include "replay/embedded/driver/lookups.h"
#include "replay/embedded/graph.h"

using namespace deadheat::embedded;

namespace {

constexpr int cuda_version = CUDART_VERSION;
constexpr char pci_bus_id[] = "0000:00:00.0";

int attribute_of(const deadheat::Profile& p, cudaDeviceAttr attribute) {
  switch (attribute) {
#define X(name, value) \
  case name: return value;
#include "replay/embedded/device_attributes.def"
#undef X
    default: return 0;
  }
}

} // namespace

DEADHEAT_API(cudaDriverGetVersion, nothing, (int* version), (version)) {
  if (!version) return cudaErrorInvalidValue;
  *version = cuda_version;
  return cudaSuccess;
}

DEADHEAT_API(cudaRuntimeGetVersion, nothing, (int* version), (version)) {
  if (!version) return cudaErrorInvalidValue;
  *version = cuda_version;
  return cudaSuccess;
}

DEADHEAT_API(cudaGetDeviceCount, initialized, (int* count), (count)) {
  if (!count) return cudaErrorInvalidValue;
  *count = 1;
  return cudaSuccess;
}

DEADHEAT_API(cudaGetDevice, initialized, (int* ordinal), (ordinal)) {
  if (!ordinal) return cudaErrorInvalidValue;
  *ordinal = 0;
  return cudaSuccess;
}

DEADHEAT_API(cudaSetDevice, initialized, (int ordinal), (ordinal)) {
  return ordinal == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

DEADHEAT_API(cudaInitDevice, initialized, (int ordinal, unsigned device_flags, unsigned flags),
             (ordinal, device_flags, flags)) {
  return ordinal == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

DEADHEAT_API(cudaSetValidDevices, device, (int* list, int count), (list, count)) {
  if (count < 0 || (count && !list)) return cudaErrorInvalidValue;
  for (int i = 0; i < count; ++i) {
    if (list[i] != 0) return cudaErrorInvalidDevice;
  }
  return cudaSuccess;
}

DEADHEAT_API(cudaChooseDevice, device, (int* ordinal, const cudaDeviceProp* wanted), (ordinal, wanted)) {
  if (!ordinal || !wanted) return cudaErrorInvalidValue;
  *ordinal = 0;
  return cudaSuccess;
}

DEADHEAT_API(cudaSetDeviceFlags, nothing, (unsigned flags), (flags)) {
  if (flags & ~unsigned(cudaDeviceMask)) return cudaErrorInvalidValue;
  call.runtime.device_flags = flags;
  return cudaSuccess;
}

DEADHEAT_API(cudaGetDeviceFlags, nothing, (unsigned* flags), (flags)) {
  if (!flags) return cudaErrorInvalidValue;
  *flags = call.runtime.device_flags | cudaDeviceMapHost | cudaDeviceLmemResizeToMax; // always on in CUDA 13
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceGetAttribute, device, (int* value, cudaDeviceAttr attribute, int ordinal),
             (value, attribute, ordinal)) {
  if (!value) return cudaErrorInvalidValue;
  if (ordinal != 0) return cudaErrorInvalidDevice;
  if (attribute < 1 || attribute >= cudaDevAttrMax) return cudaErrorInvalidValue;
  *value = attribute_of(call.device().profile(), attribute);
  return cudaSuccess;
}

static void add_textures(cudaDeviceProp& p, const deadheat::Profile& profile) {
  auto set = [&](int* field, std::initializer_list<cudaDeviceAttr> attributes) {
    for (cudaDeviceAttr attribute : attributes) *field++ = attribute_of(profile, attribute);
  };
  set(&p.maxTexture1D, {cudaDevAttrMaxTexture1DWidth});
  set(&p.maxTexture1DMipmap, {cudaDevAttrMaxTexture1DMipmappedWidth});
  set(p.maxTexture2D, {cudaDevAttrMaxTexture2DWidth, cudaDevAttrMaxTexture2DHeight});
  set(p.maxTexture2DMipmap, {cudaDevAttrMaxTexture2DMipmappedWidth, cudaDevAttrMaxTexture2DMipmappedHeight});
  set(p.maxTexture2DLinear,
      {cudaDevAttrMaxTexture2DLinearWidth, cudaDevAttrMaxTexture2DLinearHeight, cudaDevAttrMaxTexture2DLinearPitch});
  set(p.maxTexture2DGather, {cudaDevAttrMaxTexture2DGatherWidth, cudaDevAttrMaxTexture2DGatherHeight});
  set(p.maxTexture3D, {cudaDevAttrMaxTexture3DWidth, cudaDevAttrMaxTexture3DHeight, cudaDevAttrMaxTexture3DDepth});
  set(&p.maxTextureCubemap, {cudaDevAttrMaxTextureCubemapWidth});
  set(p.maxTexture1DLayered, {cudaDevAttrMaxTexture1DLayeredWidth, cudaDevAttrMaxTexture1DLayeredLayers});
  set(p.maxTexture2DLayered, {cudaDevAttrMaxTexture2DLayeredWidth, cudaDevAttrMaxTexture2DLayeredHeight,
                              cudaDevAttrMaxTexture2DLayeredLayers});
  set(p.maxTextureCubemapLayered,
      {cudaDevAttrMaxTextureCubemapLayeredWidth, cudaDevAttrMaxTextureCubemapLayeredLayers});
  set(&p.maxSurface1D, {cudaDevAttrMaxSurface1DWidth});
  set(p.maxSurface2D, {cudaDevAttrMaxSurface2DWidth, cudaDevAttrMaxSurface2DHeight});
  set(p.maxSurface3D, {cudaDevAttrMaxSurface3DWidth, cudaDevAttrMaxSurface3DHeight, cudaDevAttrMaxSurface3DDepth});
  set(p.maxSurface1DLayered, {cudaDevAttrMaxSurface1DLayeredWidth, cudaDevAttrMaxSurface1DLayeredLayers});
  set(p.maxSurface2DLayered, {cudaDevAttrMaxSurface2DLayeredWidth, cudaDevAttrMaxSurface2DLayeredHeight,
                              cudaDevAttrMaxSurface2DLayeredLayers});
  set(&p.maxSurfaceCubemap, {cudaDevAttrMaxSurfaceCubemapWidth});
  set(p.maxSurfaceCubemapLayered,
      {cudaDevAttrMaxSurfaceCubemapLayeredWidth, cudaDevAttrMaxSurfaceCubemapLayeredLayers});
}

DEADHEAT_API(cudaGetDeviceProperties, device, (cudaDeviceProp * result, int ordinal), (result, ordinal)) {
  if (!result) return cudaErrorInvalidValue;
  if (ordinal != 0) return cudaErrorInvalidDevice;
  const deadheat::Profile& profile = call.device().profile();
  auto value = [&](cudaDeviceAttr attribute) { return attribute_of(profile, attribute); };
  cudaDeviceProp& p = *result;
  p = {};
  std::strncpy(p.name, profile.name().c_str(), sizeof p.name - 1);
  std::memcpy(p.uuid.bytes, "deadheat\0\0\0\0\0\0\0\1", sizeof p.uuid.bytes);
  p.totalGlobalMem = profile.memory_bytes;
  p.sharedMemPerBlock = profile.shared_per_block;
  p.regsPerBlock = value(cudaDevAttrMaxRegistersPerBlock);
  p.warpSize = value(cudaDevAttrWarpSize);
  p.memPitch = std::size_t(value(cudaDevAttrMaxPitch));
  p.maxThreadsPerBlock = value(cudaDevAttrMaxThreadsPerBlock);
  for (int i = 0; i < 3; ++i) {
    p.maxThreadsDim[i] = value(cudaDeviceAttr(cudaDevAttrMaxBlockDimX + i));
    p.maxGridSize[i] = value(cudaDeviceAttr(cudaDevAttrMaxGridDimX + i));
  }
  p.totalConstMem = std::size_t(value(cudaDevAttrTotalConstantMemory));
  p.major = value(cudaDevAttrComputeCapabilityMajor);
  p.minor = value(cudaDevAttrComputeCapabilityMinor);
  p.textureAlignment = std::size_t(value(cudaDevAttrTextureAlignment));
  p.texturePitchAlignment = std::size_t(value(cudaDevAttrTexturePitchAlignment));
  p.surfaceAlignment = std::size_t(value(cudaDevAttrSurfaceAlignment));
  add_textures(p, profile);
  p.multiProcessorCount = value(cudaDevAttrMultiProcessorCount);
  p.canMapHostMemory = value(cudaDevAttrCanMapHostMemory);
  p.concurrentKernels = value(cudaDevAttrConcurrentKernels);
  p.asyncEngineCount = value(cudaDevAttrAsyncEngineCount);
  p.unifiedAddressing = value(cudaDevAttrUnifiedAddressing);
  p.memoryBusWidth = value(cudaDevAttrGlobalMemoryBusWidth);
  p.l2CacheSize = value(cudaDevAttrL2CacheSize);
  p.maxThreadsPerMultiProcessor = value(cudaDevAttrMaxThreadsPerMultiProcessor);
  p.streamPrioritiesSupported = value(cudaDevAttrStreamPrioritiesSupported);
  p.globalL1CacheSupported = value(cudaDevAttrGlobalL1CacheSupported);
  p.localL1CacheSupported = value(cudaDevAttrLocalL1CacheSupported);
  p.sharedMemPerMultiprocessor = profile.shared_per_multiprocessor;
  p.regsPerMultiprocessor = value(cudaDevAttrMaxRegistersPerMultiprocessor);
  p.managedMemory = value(cudaDevAttrManagedMemory);
  p.concurrentManagedAccess = value(cudaDevAttrConcurrentManagedAccess);
  p.computePreemptionSupported = value(cudaDevAttrComputePreemptionSupported);
  p.cooperativeLaunch = value(cudaDevAttrCooperativeLaunch);
  p.sharedMemPerBlockOptin = profile.shared_per_block_optin;
  p.maxBlocksPerMultiProcessor = value(cudaDevAttrMaxBlocksPerMultiprocessor);
  p.reservedSharedMemPerBlock = std::size_t(value(cudaDevAttrReservedSharedMemoryPerBlock));
  p.persistingL2CacheMaxSize = value(cudaDevAttrMaxPersistingL2CacheSize);
  p.accessPolicyMaxWindowSize = value(cudaDevAttrMaxAccessPolicyWindowSize);
  p.clusterLaunch = value(cudaDevAttrClusterLaunch);
  p.memoryPoolsSupported = value(cudaDevAttrMemoryPoolsSupported);
  p.hostNumaId = value(cudaDevAttrHostNumaId);
  p.deviceNumaId = value(cudaDevAttrNumaId);
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceGetPCIBusId, device, (char* text, int length, int ordinal), (text, length, ordinal)) {
  if (!text || length < int(sizeof pci_bus_id)) return cudaErrorInvalidValue;
  if (ordinal != 0) return cudaErrorInvalidDevice;
  std::memcpy(text, pci_bus_id, sizeof pci_bus_id);
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceGetByPCIBusId, device, (int* ordinal, const char* text), (ordinal, text)) {
  if (!ordinal || !text) return cudaErrorInvalidValue;
  if (std::strcmp(text, pci_bus_id) != 0) return cudaErrorInvalidDevice;
  *ordinal = 0;
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceSynchronize, device, (), ()) {
  for (const auto& open : call.runtime.captures) { // a capture anywhere: the call cannot be ordered with it
    if (open->mode == cudaStreamCaptureModeRelaxed && open->thread != call.thread.number) continue;
    open->invalidated = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return call.wait(deadheat::trace::HostWait::Kind::device);
}

// Everything that the program made is gone. Modules stay: their code is the same, their variables keep their values.
DEADHEAT_API(cudaDeviceReset, initialized, (), ()) {
  if (call.runtime.sticky != cudaSuccess) return cudaSuccess; // a fault outlives the reset
  const cudaError_t status = call.wait(deadheat::trace::HostWait::Kind::device);
  if (status != cudaSuccess) return status;
  Runtime& runtime = call.runtime;
  while (!runtime.captures.empty()) end_capture(call, *runtime.captures.back());
  for (const auto& [handle, stream] : runtime.streams) {
    if (stream->kind != deadheat::trace::StreamCreate::Kind::per_thread) {
      call.device().destroy_stream(stream->id, call.thread.number);
    }
  }
  std::erase_if(runtime.streams, [](const auto& entry) {
    return entry.second->kind != deadheat::trace::StreamCreate::Kind::per_thread;
  });
  runtime.events.clear();
  runtime.executables.clear();
  runtime.graphs.clear();
  runtime.next_condition = runtime.conditions_end = 0;
  runtime.host_flags.clear();
  for (const auto& allocation : call.device().live_allocations()) {
    if (allocation.kind == deadheat::trace::Allocate::Kind::symbol) continue;
    if (!call.device().release(allocation.address, call.thread.number)) return cudaErrorUnknown;
  }
  return cudaSuccess;
}

static bool has_limit(cudaLimit limit) {
  return unsigned(limit) <= cudaLimitPersistingL2CacheSize && limit != cudaLimitDevRuntimeSyncDepth;
}

DEADHEAT_API(cudaDeviceGetLimit, device, (size_t* value, cudaLimit limit), (value, limit)) {
  if (!value) return cudaErrorInvalidValue;
  if (!has_limit(limit)) return cudaErrorUnsupportedLimit;
  *value = call.runtime.limits[limit];
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceSetLimit, device, (cudaLimit limit, size_t value), (limit, value)) {
  if (!has_limit(limit)) return cudaErrorUnsupportedLimit;
  if (limit == cudaLimitMallocHeapSize && !call.device().set_heap_bytes(value)) return cudaErrorInvalidValue;
  call.runtime.limits[limit] = value;
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceGetCacheConfig, device, (cudaFuncCache * config), (config)) {
  if (!config) return cudaErrorInvalidValue;
  *config = call.runtime.cache_config;
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceSetCacheConfig, device, (cudaFuncCache config), (config)) {
  call.runtime.cache_config = config;
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceGetSharedMemConfig, device, (cudaSharedMemConfig * config), (config)) {
  if (!config) return cudaErrorInvalidValue;
  *config = cudaSharedMemBankSizeFourByte;
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceSetSharedMemConfig, device, (cudaSharedMemConfig config), (config)) { return cudaSuccess; }

DEADHEAT_API(cudaCtxResetPersistingL2Cache, device, (), ()) { return cudaSuccess; }

// ---- Other devices: there are none.

DEADHEAT_API(cudaDeviceCanAccessPeer, device, (int* can, int ordinal, int peer), (can, ordinal, peer)) {
  if (!can) return cudaErrorInvalidValue;
  if (ordinal != 0 || peer != 0) return cudaErrorInvalidDevice;
  *can = 0; // a device is no peer of itself
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceEnablePeerAccess, device, (int peer, unsigned flags), (peer, flags)) {
  return peer == 0 ? cudaErrorPeerAccessUnsupported : cudaErrorInvalidDevice;
}

DEADHEAT_API(cudaDeviceDisablePeerAccess, device, (int peer), (peer)) {
  return peer == 0 ? cudaErrorPeerAccessNotEnabled : cudaErrorInvalidDevice;
}

DEADHEAT_API(cudaDeviceGetP2PAttribute, device, (int* value, cudaDeviceP2PAttr attribute, int from, int to),
             (value, attribute, from, to)) {
  return value ? cudaErrorInvalidDevice : cudaErrorInvalidValue;
}

// An H200 behind PCI Express performs no atomic operation on the host's memory natively (cudaDevAttrHostNativeAtomic-
// Supported is 0): no capability for any of them.
DEADHEAT_API(cudaDeviceGetHostAtomicCapabilities, device,
             (unsigned* capabilities, const cudaAtomicOperation* operations, unsigned count, int device_number),
             (capabilities, operations, count, device_number)) {
  if (!capabilities || !operations || count == 0) return cudaErrorInvalidValue;
  if (device_number != 0) return cudaErrorInvalidDevice;
  std::fill(capabilities, capabilities + count, 0u);
  return cudaSuccess;
}

DEADHEAT_API(cudaDeviceGetP2PAtomicCapabilities, device,
             (unsigned* capabilities, const cudaAtomicOperation* operations, unsigned count, int from, int to),
             (capabilities, operations, count, from, to)) {
  return capabilities && operations && count ? cudaErrorInvalidDevice : cudaErrorInvalidValue; // there is one device
}

// ---- Profilers: nothing to start or stop.

extern "C" DEADHEAT_VISIBLE cudaError_t CUDARTAPI cudaProfilerStart() { return cudaSuccess; }
extern "C" DEADHEAT_VISIBLE cudaError_t CUDARTAPI cudaProfilerStop() { return cudaSuccess; }

// ---- Driver entry points

static cudaError_t entry_point(Call& call, const char* symbol, void** function, unsigned version,
                               unsigned long long flags, cudaDriverEntryPointQueryResult* result) {
  if (!symbol || !function || flags > cudaEnablePerThreadDefaultStream) return cudaErrorInvalidValue;
  if (version > unsigned(cuda_version)) return cudaErrorInvalidValue;
  const bool per_thread = flags == cudaEnablePerThreadDefaultStream ||
                          (flags == cudaEnableDefault && call.null_stream == DefaultStream::per_thread);
  const Lookup found = driver_entry_point(symbol, int(version), per_thread, function);
  if (result) {
    *result = found == Lookup::found     ? cudaDriverEntryPointSuccess
              : found == Lookup::unknown ? cudaDriverEntryPointSymbolNotFound
                                         : cudaDriverEntryPointVersionNotSufficent;
  }
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaGetDriverEntryPoint, _ptsz, nothing,
                    (const char* symbol, void** function, unsigned long long flags,
                     cudaDriverEntryPointQueryResult* result),
                    (symbol, function, flags, result)) {
  return entry_point(call, symbol, function, cuda_version, flags, result);
}

DEADHEAT_STREAM_API(cudaGetDriverEntryPointByVersion, _ptsz, nothing,
                    (const char* symbol, void** function, unsigned version, unsigned long long flags,
                     cudaDriverEntryPointQueryResult* result),
                    (symbol, function, version, flags, result)) {
  return entry_point(call, symbol, function, version, flags, result);
}

extern "C" DEADHEAT_VISIBLE cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w,
                                                                                  cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
