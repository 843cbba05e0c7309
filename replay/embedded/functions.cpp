// Kernels as the host sees them: attributes, names, handles, occupancy (Runtime API, "Execution Control",
// "Occupancy").
#include <cstdlib>
#include <cstring>
#include <string>

#include "replay/embedded/launch.h"

using namespace deadheat::embedded;

DEADHEAT_API(cudaFuncGetAttributes, device, (cudaFuncAttributes * attributes, const void* function),
             (attributes, function)) {
  if (!attributes) return cudaErrorInvalidValue;
  Kernel kernel;
  const cudaError_t status = find_kernel(call, function, &kernel);
  if (status != cudaSuccess) return status;
  *attributes = {};
  attributes->sharedSizeBytes = kernel.info->static_shared;
  attributes->localSizeBytes = kernel.info->local_bytes;
  attributes->maxThreadsPerBlock = int(kernel.info->max_threads);
  attributes->numRegs = 32; // nobody allocates registers here: what most kernels have
  attributes->binaryVersion = int(call.device().profile().architecture());
  attributes->ptxVersion = attributes->binaryVersion;
  // That of the PTX, which may be older: CUB looks up what it compiled for it.
  const std::string& target = call.device().module(kernel.function->binary->module)->ptx().target; // "sm_75"
  if (target.starts_with("sm_")) attributes->ptxVersion = std::atoi(target.c_str() + 3);
  attributes->maxDynamicSharedSizeBytes = int(dynamic_shared_limit(call.device().profile(), kernel));
  attributes->preferredShmemCarveout = kernel.function->carveout;
  return cudaSuccess;
}

static cudaError_t set_attribute(Call& call, const void* function, cudaFuncAttribute attribute, int value) {
  Kernel kernel;
  const cudaError_t status = find_kernel(call, function, &kernel);
  if (status != cudaSuccess) return status;
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value < 0 ||
          std::uint64_t(value) + kernel.info->static_shared > call.device().profile().shared_per_block_optin) {
        return cudaErrorInvalidValue;
      }
      kernel.function->max_dynamic_shared = value;
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      if (value < -1 || value > 100) return cudaErrorInvalidValue;
      kernel.function->carveout = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      kernel.function->non_portable_clusters = value != 0;
      return cudaSuccess;
    case cudaFuncAttributeClusterSchedulingPolicyPreference: return cudaSuccess;
    case cudaFuncAttributeRequiredClusterWidth:
    case cudaFuncAttributeRequiredClusterHeight:
    case cudaFuncAttributeRequiredClusterDepth: return value > 1 ? cudaErrorNotSupported : cudaSuccess;
    default: return cudaErrorInvalidValue;
  }
}

DEADHEAT_API(cudaFuncSetAttribute, device, (const void* function, cudaFuncAttribute attribute, int value),
             (function, attribute, value)) {
  return set_attribute(call, function, attribute, value);
}

DEADHEAT_API(cudaKernelSetAttributeForDevice, device,
             (cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int ordinal),
             (kernel, attribute, value, ordinal)) {
  if (ordinal != 0) return cudaErrorInvalidDevice;
  return set_attribute(call, kernel, attribute, value);
}

DEADHEAT_API(cudaFuncSetCacheConfig, device, (const void* function, cudaFuncCache config), (function, config)) {
  Kernel kernel;
  return find_kernel(call, function, &kernel);
}

DEADHEAT_API(cudaFuncSetSharedMemConfig, device, (const void* function, cudaSharedMemConfig config),
             (function, config)) {
  Kernel kernel;
  return find_kernel(call, function, &kernel);
}

DEADHEAT_API(cudaFuncGetName, nothing, (const char** name, const void* function), (name, function)) {
  if (!name) return cudaErrorInvalidValue;
  Function* found = call.runtime.modules.function(function);
  if (!found) return cudaErrorInvalidDeviceFunction;
  *name = found->name.c_str();
  return cudaSuccess;
}

DEADHEAT_API(cudaFuncGetParamInfo, device, (const void* function, size_t index, size_t* offset, size_t* bytes),
             (function, index, offset, bytes)) {
  if (!offset) return cudaErrorInvalidValue;
  Kernel kernel;
  const cudaError_t status = find_kernel(call, function, &kernel);
  if (status != cudaSuccess) return status;
  if (index >= kernel.info->parameters.size()) return cudaErrorInvalidValue;
  *offset = kernel.info->parameters[index].offset;
  if (bytes) *bytes = kernel.info->parameters[index].bytes;
  return cudaSuccess;
}

DEADHEAT_API(cudaGetKernel, nothing, (cudaKernel_t * kernel, const void* function), (kernel, function)) {
  if (!kernel) return cudaErrorInvalidValue;
  Function* found = call.runtime.modules.function(function);
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return found ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

DEADHEAT_API(cudaGetFuncBySymbol, nothing, (cudaFunction_t * result, const void* function), (result, function)) {
  if (!result) return cudaErrorInvalidValue;
  Function* found = call.runtime.modules.function(function);
  *result = reinterpret_cast<cudaFunction_t>(found);
  return found ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

static cudaError_t occupancy(Call& call, int* blocks, const void* function, int threads, size_t shared) {
  if (!blocks || threads <= 0) return cudaErrorInvalidValue;
  Kernel kernel;
  const cudaError_t status = find_kernel(call, function, &kernel);
  if (status != cudaSuccess) return status;
  *blocks = int(blocks_per_multiprocessor(call.device().profile(), kernel, unsigned(threads), shared));
  return cudaSuccess;
}

DEADHEAT_API(cudaOccupancyMaxActiveBlocksPerMultiprocessor, device,
             (int* blocks, const void* function, int threads, size_t shared), (blocks, function, threads, shared)) {
  return occupancy(call, blocks, function, threads, shared);
}

DEADHEAT_API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, device,
             (int* blocks, const void* function, int threads, size_t shared, unsigned flags),
             (blocks, function, threads, shared, flags)) {
  if (flags & ~unsigned(cudaOccupancyDisableCachingOverride)) return cudaErrorInvalidValue;
  return occupancy(call, blocks, function, threads, shared);
}

DEADHEAT_API(cudaOccupancyAvailableDynamicSMemPerBlock, device,
             (size_t* bytes, const void* function, int blocks, int threads), (bytes, function, blocks, threads)) {
  if (!bytes || blocks <= 0 || threads <= 0) return cudaErrorInvalidValue;
  Kernel kernel;
  const cudaError_t status = find_kernel(call, function, &kernel);
  if (status != cudaSuccess) return status;
  const deadheat::Profile& profile = call.device().profile();
  if (unsigned(blocks) > blocks_per_multiprocessor(profile, kernel, unsigned(threads), 0)) {
    return cudaErrorInvalidValue;
  }
  const std::uint64_t taken = kernel.info->static_shared + profile.reserved_shared(),
                      each = profile.shared_per_multiprocessor / unsigned(blocks);
  const std::uint64_t most = dynamic_shared_limit(profile, kernel);
  *bytes = each <= taken ? 0 : std::min(each - taken, most);
  return cudaSuccess;
}
