// Versions and the device (Driver API, "Version Management", "Device Management", "Profiler Control", "Peer Context
// Memory Access").
#include <algorithm>
#include <cstring>

#include "replay/embedded/driver/driver.h"

using namespace deadheat::embedded;

DEADHEAT_BODY(cudaDriverGetVersion, (int* version));
DEADHEAT_BODY(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int ordinal));
DEADHEAT_BODY(cudaGetDeviceProperties, (cudaDeviceProp * result, int ordinal));
DEADHEAT_BODY(cudaDeviceGetPCIBusId, (char* text, int length, int ordinal));
DEADHEAT_BODY(cudaDeviceGetByPCIBusId, (int* ordinal, const char* text));
DEADHEAT_BODY(cudaDeviceCanAccessPeer, (int* can, int ordinal, int peer));

namespace {

int value_of(Call& call, cudaDeviceAttr attribute) {
  int value = 0;
  cudaDeviceGetAttribute_body(call, &value, attribute, 0);
  return value;
}

cudaError_t uuid(Call& call, CUuuid* result, CUdevice device) {
  if (!result) return cudaErrorInvalidValue;
  cudaDeviceProp properties;
  const cudaError_t status = cudaGetDeviceProperties_body(call, &properties, device);
  if (status == cudaSuccess) std::memcpy(result->bytes, properties.uuid.bytes, sizeof result->bytes);
  return status;
}

} // namespace

DEADHEAT_DRIVER(cuDriverGetVersion, nothing, (int* version), (version)) {
  return cudaDriverGetVersion_body(call, version);
}

DEADHEAT_DRIVER(cuDeviceGetCount, initialized, (int* count), (count)) {
  if (!count) return cudaErrorInvalidValue;
  *count = 1;
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuDeviceGet, initialized, (CUdevice * device, int ordinal), (device, ordinal)) {
  if (!device) return cudaErrorInvalidValue;
  if (ordinal != 0) return cudaErrorInvalidDevice;
  *device = 0;
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuDeviceGetName, initialized, (char* name, int length, CUdevice device), (name, length, device)) {
  if (!name || length <= 0) return cudaErrorInvalidValue;
  if (device != 0) return cudaErrorInvalidDevice;
  const std::string whole = call.device().profile().name();
  const std::size_t bytes = std::min(whole.size(), std::size_t(length) - 1);
  std::memcpy(name, whole.data(), bytes);
  name[bytes] = 0;
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuDeviceGetUuid, initialized, (CUuuid * result, CUdevice device), (result, device)) {
  return uuid(call, result, device);
}
DEADHEAT_DRIVER(cuDeviceGetUuid_v2, initialized, (CUuuid * result, CUdevice device), (result, device)) {
  return uuid(call, result, device);
}

DEADHEAT_DRIVER(cuDeviceTotalMem_v2, initialized, (size_t* bytes, CUdevice device), (bytes, device)) {
  if (!bytes) return cudaErrorInvalidValue;
  if (device != 0) return cudaErrorInvalidDevice;
  *bytes = call.device().profile().memory_bytes;
  return cudaSuccess;
}

// The numbers of CU_DEVICE_ATTRIBUTE_… are those of cudaDevAttr…; what the runtime does not name, the device lacks.
DEADHEAT_DRIVER(cuDeviceGetAttribute, initialized, (int* value, CUdevice_attribute attribute, CUdevice device),
                (value, attribute, device)) {
  if (!value || attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return cudaErrorInvalidValue;
  if (device != 0) return cudaErrorInvalidDevice;
  *value = attribute < CU_DEVICE_ATTRIBUTE_MAX && int(attribute) < int(cudaDevAttrMax)
               ? value_of(call, cudaDeviceAttr(attribute))
               : 0;
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuDeviceComputeCapability, initialized, (int* major, int* minor, CUdevice device),
                (major, minor, device)) {
  if (!major || !minor) return cudaErrorInvalidValue;
  if (device != 0) return cudaErrorInvalidDevice;
  *major = value_of(call, cudaDevAttrComputeCapabilityMajor);
  *minor = value_of(call, cudaDevAttrComputeCapabilityMinor);
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuDeviceGetProperties, initialized, (CUdevprop * result, CUdevice device), (result, device)) {
  if (!result) return cudaErrorInvalidValue;
  cudaDeviceProp p;
  const cudaError_t status = cudaGetDeviceProperties_body(call, &p, device);
  if (status != cudaSuccess) return status;
  *result = {};
  result->maxThreadsPerBlock = p.maxThreadsPerBlock;
  std::copy_n(p.maxThreadsDim, 3, result->maxThreadsDim);
  std::copy_n(p.maxGridSize, 3, result->maxGridSize);
  result->sharedMemPerBlock = int(p.sharedMemPerBlock);
  result->totalConstantMemory = int(p.totalConstMem);
  result->SIMDWidth = p.warpSize;
  result->memPitch = int(p.memPitch);
  result->regsPerBlock = p.regsPerBlock;
  result->clockRate = value_of(call, cudaDevAttrClockRate);
  result->textureAlign = int(p.textureAlignment);
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuDeviceGetPCIBusId, initialized, (char* text, int length, CUdevice device), (text, length, device)) {
  return cudaDeviceGetPCIBusId_body(call, text, length, device);
}
DEADHEAT_DRIVER(cuDeviceGetByPCIBusId, initialized, (CUdevice * device, const char* text), (device, text)) {
  return cudaDeviceGetByPCIBusId_body(call, device, text);
}

DEADHEAT_DRIVER(cuDeviceGetExecAffinitySupport, initialized, (int* value, CUexecAffinityType type, CUdevice device),
                (value, type, device)) {
  if (!value) return cudaErrorInvalidValue;
  if (device != 0) return cudaErrorInvalidDevice;
  *value = 0;
  return cudaSuccess;
}

// ---- Other devices: there are none.

DEADHEAT_DRIVER(cuDeviceCanAccessPeer, initialized, (int* can, CUdevice device, CUdevice peer), (can, device, peer)) {
  return cudaDeviceCanAccessPeer_body(call, can, device, peer);
}

// Contexts of one device share its memory: an access to a peer is none.
DEADHEAT_DRIVER(cuCtxEnablePeerAccess, managed, (CUcontext peer, unsigned flags), (peer, flags)) {
  return flags ? cudaErrorInvalidValue : cudaErrorPeerAccessUnsupported;
}
DEADHEAT_DRIVER(cuCtxDisablePeerAccess, managed, (CUcontext peer), (peer)) { return cudaErrorPeerAccessNotEnabled; }

DEADHEAT_DRIVER(cuDeviceGetP2PAttribute, initialized,
                (int* value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to),
                (value, attribute, from, to)) {
  return value ? cudaErrorInvalidDevice : cudaErrorInvalidValue;
}

DEADHEAT_DRIVER(cuDeviceGetHostAtomicCapabilities, initialized,
                (unsigned* capabilities, const CUatomicOperation* operations, unsigned count, CUdevice device),
                (capabilities, operations, count, device)) {
  if (!capabilities || !operations || count == 0) return cudaErrorInvalidValue;
  if (device != 0) return cudaErrorInvalidDevice;
  std::fill(capabilities, capabilities + count, 0u);
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuDeviceGetP2PAtomicCapabilities, initialized,
                (unsigned* capabilities, const CUatomicOperation* operations, unsigned count, CUdevice from,
                 CUdevice to),
                (capabilities, operations, count, from, to)) {
  return capabilities && operations && count ? cudaErrorInvalidDevice : cudaErrorInvalidValue;
}

// ---- Profilers: nothing to start or stop.

extern "C" DEADHEAT_VISIBLE CUresult CUDAAPI cuProfilerStart() { return CUDA_SUCCESS; }
extern "C" DEADHEAT_VISIBLE CUresult CUDAAPI cuProfilerStop() { return CUDA_SUCCESS; }

// ---- Notifications: nothing that one can be notified of happens.

DEADHEAT_BODY(cudaDeviceRegisterAsyncNotification,
              (int ordinal, cudaAsyncCallback function, void* data, cudaAsyncCallbackHandle_t* result));
DEADHEAT_DRIVER(cuDeviceRegisterAsyncNotification, initialized,
                (CUdevice device, CUasyncCallback function, void* data, CUasyncCallbackHandle* result),
                (device, function, data, result)) {
  return cudaDeviceRegisterAsyncNotification_body(call, device, reinterpret_cast<cudaAsyncCallback>(function), data,
                                                  reinterpret_cast<cudaAsyncCallbackHandle_t*>(result));
}
DEADHEAT_BODY(cudaDeviceUnregisterAsyncNotification, (int ordinal, cudaAsyncCallbackHandle_t handle));
DEADHEAT_DRIVER(cuDeviceUnregisterAsyncNotification, initialized, (CUdevice device, CUasyncCallbackHandle handle),
                (device, handle)) {
  return cudaDeviceUnregisterAsyncNotification_body(call, device, reinterpret_cast<cudaAsyncCallbackHandle_t>(handle));
}
