#include "replay/embedded/launch.h"

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "replay/embedded/copies.h"
#include "replay/embedded/names.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::embedded {

// Blocks of a cluster (CUDA C++ Programming Guide, "Thread Block Clusters").
static constexpr std::uint64_t portable_cluster_blocks = 8, max_cluster_blocks = 16;

// In the trace, once a kernel: what the program did on this device is not all that it does.
static void note_refusal(Call& call, Function& function, const std::string& why) {
  call.refusal_noted = true;
  if (std::exchange(function.refused, true)) return;
  call.runtime.recording->record(trace::Incident{"refused", 1, "not run: " + why});
}

cudaError_t find_kernel(Call& call, const void* function, Kernel* kernel) {
  kernel->function = call.runtime.modules.function(function);
  if (!kernel->function) return cudaErrorInvalidResourceHandle; // so says CUDA 13
  FatBinary& binary = *kernel->function->binary;
  const cudaError_t status = call.runtime.modules.load(binary, call.device());
  if (status != cudaSuccess) {
    note_refusal(
        call, *kernel->function,
        binary.origin + ": kernel " + ptx::brief_name(kernel->function->name) + ": its module could not be loaded");
    return status;
  }
  kernel->info = call.device().module(binary.module)->kernel(kernel->function->name);
  return kernel->info ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

std::uint32_t blocks_per_multiprocessor(const Profile& profile, const Kernel& kernel, std::uint32_t threads,
                                        std::uint64_t dynamic_shared) {
  const std::uint64_t shared = kernel.info->static_shared + dynamic_shared;
  if (threads == 0 || threads > kernel.info->max_threads) return 0;
  if (dynamic_shared > dynamic_shared_limit(profile, kernel) || shared > profile.shared_per_block_optin) return 0;
  return std::uint32_t(profile.blocks_at_once(threads, shared));
}

std::uint64_t dynamic_shared_limit(const Profile& profile, const Kernel& kernel) {
  if (kernel.function->max_dynamic_shared >= 0) return std::uint64_t(kernel.function->max_dynamic_shared);
  return profile.shared_per_block - std::min(profile.shared_per_block, kernel.info->static_shared);
}

static Dim3 extent_of(const dim3& d) { return {d.x, d.y, d.z}; }

// The cluster that the launch asks for, or else the one that the kernel was compiled for (.reqnctapercluster).
static Dim3 cluster_of(const Kernel& kernel, const LaunchAttributes& attributes) {
  const dim3& asked = attributes.cluster;
  const bool none = asked.x == 0 && asked.y == 0 && asked.z == 0;
  if (!none) return extent_of(asked);
  return kernel.info->cluster.x ? kernel.info->cluster : Dim3{};
}

// Limits: Programming Guide, "Compute Capabilities"; errors as CUDA 13 on an H200 gives them.
static cudaError_t check_configuration(const Profile& profile, const Kernel& kernel,
                                       const LaunchConfiguration& configuration, const LaunchAttributes& attributes) {
  const Dim3 grid = extent_of(configuration.grid), block = extent_of(configuration.block);
  if (grid.count() == 0 || grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535) return cudaErrorInvalidValue;
  if (block.count() == 0 || block.x > 1024 || block.y > 1024 || block.z > 64 || block.count() > 1024) {
    return cudaErrorInvalidValue;
  }
  if (configuration.shared > dynamic_shared_limit(profile, kernel)) return cudaErrorInvalidValue;
  if (kernel.info->static_shared + configuration.shared > profile.shared_per_block_optin) return cudaErrorInvalidValue;
  if (block.count() > kernel.info->max_threads) return cudaErrorInvalidValue;
  const Dim3 cluster = cluster_of(kernel, attributes);
  const std::uint64_t blocks = cluster.count();
  const std::uint64_t most = kernel.function->non_portable_clusters ? max_cluster_blocks : portable_cluster_blocks;
  if (blocks == 0 || blocks > most || (blocks > 1 && !profile.has_clusters())) return cudaErrorInvalidClusterSize;
  if (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z) return cudaErrorInvalidClusterSize;
  if (attributes.cooperative) {
    const std::uint64_t most =
        std::uint64_t(profile.multiprocessors) *
        blocks_per_multiprocessor(profile, kernel, std::uint32_t(block.count()), configuration.shared);
    if (grid.count() > most) return cudaErrorCooperativeLaunchTooLarge;
  }
  return cudaSuccess;
}

cudaError_t make_launch(Call& call, const Kernel& kernel, const LaunchConfiguration& configuration,
                        const LaunchAttributes& attributes, void** arguments, trace::Launch* launch) {
  const engine::KernelInfo& info = *kernel.info;
  const cudaError_t status = check_configuration(call.device().profile(), kernel, configuration, attributes);
  if (status != cudaSuccess) return status;
  if (!info.refused.empty()) {
    const std::string line = refusal(*kernel.function->binary, info);
    say_once(line);
    note_refusal(call, *kernel.function, line);
    return cudaErrorNotSupported;
  }
  launch->module = kernel.function->binary->module;
  launch->kernel = kernel.function->name;
  launch->grid = extent_of(configuration.grid);
  launch->block = extent_of(configuration.block);
  launch->dynamic_shared = std::uint32_t(configuration.shared);
  launch->static_shared = info.static_shared;
  launch->cluster = cluster_of(kernel, attributes);
  launch->cooperative = attributes.cooperative;
  launch->programmatic = attributes.programmatic;
  std::vector<std::uint8_t>& block = launch->arguments.inlined;
  block.assign(info.parameter_bytes, 0);
  for (std::size_t i = 0; i < info.parameters.size(); ++i) {
    if (!arguments || !arguments[i]) return cudaErrorInvalidValue;
    std::memcpy(block.data() + info.parameters[i].offset, arguments[i], info.parameters[i].bytes);
  }
  // Pointers into registered host memory, which kernels may be given as they are (Runtime API, cudaHostRegister).
  for (std::size_t i = 0; !call.runtime.registered.empty() && i + 8 <= block.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, block.data() + i, 8);
    word = registered_place(call.runtime, word);
    std::memcpy(block.data() + i, &word, 8);
  }
  launch->arguments.size = block.size();
  return cudaSuccess;
}

// Programming Guide, "Driver API", kernel execution: a buffer of arguments laid out as the kernel's parameters are.
cudaError_t find_arguments(Call& call, const void* function, void** extra, std::vector<void*>* arguments) {
  char* buffer = nullptr;
  const std::size_t* bytes = nullptr;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = static_cast<char*>(extra[1]);
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = static_cast<const std::size_t*>(extra[1]);
    else
      return cudaErrorInvalidValue;
  }
  Kernel kernel;
  const cudaError_t status = find_kernel(call, function, &kernel);
  if (status != cudaSuccess) return status;
  for (const auto& parameter : kernel.info->parameters) {
    if (!buffer || !bytes || parameter.offset + parameter.bytes > *bytes) return cudaErrorInvalidValue;
    arguments->push_back(buffer + parameter.offset);
  }
  return cudaSuccess;
}

cudaError_t launch_kernel(Call& call, const void* function, const LaunchConfiguration& configuration,
                          const LaunchAttributes& attributes, void** arguments) {
  Stream* stream = call.stream(configuration.stream);
  if (!stream) return cudaErrorInvalidResourceHandle;
  Kernel kernel;
  cudaError_t status = find_kernel(call, function, &kernel);
  trace::Launch launch;
  if (status == cudaSuccess) status = make_launch(call, kernel, configuration, attributes, arguments, &launch);
  if (status == cudaSuccess) call.runtime.watch_running_code();
  if (status == cudaSuccess) status = submit(call, *stream, {std::move(launch)});
  const bool refused = status == cudaErrorNotSupported; // by the embedded device, which has said so: no fault of theirs
  if (status != cudaSuccess && !refused && kernel.function && !call.of_driver)
    call.runtime.launch_failed(kernel.function->name, status, call.thread);
  return status;
}

} // namespace deadheat::embedded

using namespace deadheat::embedded;

DEADHEAT_STREAM_API(cudaLaunchKernel, _ptsz, device,
                    (const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream),
                    (function, grid, block, arguments, shared, stream)) {
  return launch_kernel(call, function, {grid, block, shared, stream}, {}, arguments);
}

DEADHEAT_STREAM_API(cudaLaunchCooperativeKernel, _ptsz, device,
                    (const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream),
                    (function, grid, block, arguments, shared, stream)) {
  LaunchAttributes attributes;
  attributes.cooperative = true;
  return launch_kernel(call, function, {grid, block, shared, stream}, attributes, arguments);
}

static cudaError_t refuse_attribute(const Call& call, const char* name) {
  const char* const api = call.of_driver ? call.api : "cudaLaunchKernelEx";
  say_once(std::string(api) + ": " + std::string(name) + " is not supported by the embedded device");
  return cudaErrorNotSupported;
}

static cudaError_t read_attributes(const Call& call, const cudaLaunchConfig_t* config, LaunchAttributes* read) {
  if (!config || (config->numAttrs && !config->attrs)) return cudaErrorInvalidValue;
  LaunchAttributes& attributes = *read;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeCooperative: attributes.cooperative = attribute.val.cooperative != 0; break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        attributes.programmatic = attribute.val.programmaticStreamSerializationAllowed != 0;
        break;
      case cudaLaunchAttributeClusterDimension:
        attributes.cluster = dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z);
        break;
      case cudaLaunchAttributeLaunchCompletionEvent:
        attributes.begun = attribute.val.launchCompletionEvent.event;
        break;
      case cudaLaunchAttributeProgrammaticEvent: return refuse_attribute(call, "cudaLaunchAttributeProgrammaticEvent");
      case cudaLaunchAttributeDeviceUpdatableKernelNode:
        return refuse_attribute(call, "cudaLaunchAttributeDeviceUpdatableKernelNode");
      default: break; // hints
    }
  }
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaLaunchKernelExC, _ptsz, device,
                    (const cudaLaunchConfig_t* config, const void* function, void** arguments),
                    (config, function, arguments)) {
  LaunchAttributes attributes;
  cudaError_t status = read_attributes(call, config, &attributes);
  if (status != cudaSuccess) return status;
  if (attributes.begun) {
    // Triggered once all blocks have begun, or later (cudaLaunchAttributeLaunchCompletionEvent): all that is certain
    // then is that what the launch waited for is complete. It is recorded just in front of the launch.
    const Stream* stream = call.stream(config->stream);
    if (stream && (stream->capture || attributes.programmatic)) {
      return refuse_attribute(call, "cudaLaunchAttributeLaunchCompletionEvent of a captured or dependent launch");
    }
    status = record_event(call, attributes.begun, config->stream, cudaEventRecordDefault);
    if (status != cudaSuccess) return status;
  }
  return launch_kernel(call, function, {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream},
                       attributes, arguments);
}

// ---- Clusters that fit. A cluster lies within one group of multiprocessors (a GPC), of which an H200 has eight with
// 16 or 18 each; they count as 16 here.

static constexpr std::uint64_t multiprocessors_of_group = 16;

DEADHEAT_API(cudaOccupancyMaxPotentialClusterSize, device,
             (int* size, const void* function, const cudaLaunchConfig_t* config), (size, function, config)) {
  if (!size || !config) return cudaErrorInvalidValue;
  Kernel kernel;
  const cudaError_t status = find_kernel(call, function, &kernel);
  if (status != cudaSuccess) return status;
  const std::uint64_t threads = extent_of(config->blockDim).count();
  const std::uint64_t most = kernel.function->non_portable_clusters ? max_cluster_blocks : portable_cluster_blocks;
  const bool fits =
      blocks_per_multiprocessor(call.device().profile(), kernel, std::uint32_t(threads), config->dynamicSmemBytes) > 0;
  *size = fits ? int(most) : 0;
  return cudaSuccess;
}

DEADHEAT_API(cudaOccupancyMaxActiveClusters, device,
             (int* clusters, const void* function, const cudaLaunchConfig_t* config), (clusters, function, config)) {
  if (!clusters) return cudaErrorInvalidValue;
  LaunchAttributes attributes;
  cudaError_t status = read_attributes(call, config, &attributes);
  if (status != cudaSuccess) return status;
  Kernel kernel;
  status = find_kernel(call, function, &kernel);
  if (status != cudaSuccess) return status;
  const deadheat::Profile& profile = call.device().profile();
  const LaunchConfiguration asked{config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream};
  status = check_configuration(profile, kernel, asked, attributes);
  if (status != cudaSuccess) return status;
  const std::uint64_t of_group =
      multiprocessors_of_group * blocks_per_multiprocessor(profile, kernel,
                                                           std::uint32_t(extent_of(config->blockDim).count()),
                                                           config->dynamicSmemBytes);
  *clusters =
      int(profile.multiprocessors / multiprocessors_of_group * (of_group / cluster_of(kernel, attributes).count()));
  return cudaSuccess;
}
