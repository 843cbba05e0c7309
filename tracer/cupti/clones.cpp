#include "tracer/cupti/clones.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <optional>

#include "tracer/cupti/libraries.h"

namespace deadheat::cupti {

namespace {

void copy_arguments(const Kernel& kernel, void** parameters, std::uint8_t* to) {
  if (kernel.gaps) std::memset(to, 0, kernel.arguments_bytes);
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Kernel::Parameter& p = kernel.parameters[i];
    if (parameters[i])
      std::memcpy(to + p.offset, parameters[i], p.bytes);
    else
      std::memset(to + p.offset, 0, p.bytes);
  }
}

constexpr std::uint64_t most_blocks = std::uint64_t(1) << 31; // segments and places have 31 bits for a block's number
constexpr std::uint64_t portable_cluster =
    8;  // blocks, on any device (CUDA C++ Programming Guide, thread block clusters)

// What the program set on the original, on its clone.
void set_attribute(const Kernel& kernel, CUfunction_attribute attribute, int value) {
  if (!kernel.code->library) {
    driver().cuFuncSetAttribute(kernel.clone, attribute, value);
    return;
  }
  CUdevice device = 0;
  driver().cuCtxGetDevice(&device);
  driver().cuKernelSetAttribute(attribute, value, reinterpret_cast<CUkernel>(kernel.clone), device);
}

int attribute(const Kernel& kernel, CUfunction handle, CUfunction_attribute which) {
  int value = 0;
  CUdevice device = 0;
  CUresult got = CUDA_ERROR_NOT_SUPPORTED;
  if (kernel.handle == Kernel::Handle::library_kernel && driver().cuKernelGetAttribute &&
      driver().cuCtxGetDevice(&device) == CUDA_SUCCESS)
    got = driver().cuKernelGetAttribute(&value, which, reinterpret_cast<CUkernel>(handle), device);
  else if (kernel.handle == Kernel::Handle::function && driver().cuFuncGetAttribute)
    got = driver().cuFuncGetAttribute(&value, which, handle);
  return got == CUDA_SUCCESS ? value : 0;
}

// How many of the launch's blocks can be on the device at the same time, if they are the clone's: what the program
// asked of the original (CUDA driver API, 6.30 Occupancy). Nothing where the driver does not say.
std::optional<std::uint64_t> resident_blocks(const Kernel& kernel, const Journal::LaunchFacts& launch) {
  const Driver& d = driver();
  int count = 0;
  if (launch.cluster.count() > 1) {
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
    CUlaunchConfig config{};
    config.gridDimX = launch.grid.x;
    config.gridDimY = launch.grid.y;
    config.gridDimZ = launch.grid.z;
    config.blockDimX = launch.block.x;
    config.blockDimY = launch.block.y;
    config.blockDimZ = launch.block.z;
    config.sharedMemBytes = launch.dynamic_shared;
    config.attrs = &cluster;
    config.numAttrs = 1;
    if (!d.cuOccupancyMaxActiveClusters ||
        d.cuOccupancyMaxActiveClusters(&count, kernel.clone, &config) != CUDA_SUCCESS) {
      return std::nullopt;
    }
    return std::uint64_t(std::max(count, 0)) * launch.cluster.count();
  }
  CUdevice device = 0;
  int multiprocessors = 0;
  if (!d.cuOccupancyMaxActiveBlocksPerMultiprocessor ||
      d.cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel.clone, int(launch.block.count()),
                                                    launch.dynamic_shared) != CUDA_SUCCESS ||
      d.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      d.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return std::uint64_t(std::max(count, 0)) * std::uint64_t(std::max(multiprocessors, 0));
}

} // namespace

void arguments_of(const Kernel& kernel, void** parameters, void** extra, std::vector<std::uint8_t>& block) {
  block.clear();
  if (parameters) {
    block.resize(kernel.arguments_bytes);
    copy_arguments(kernel, parameters, block.data());
  } else if (extra) {
    const void* bytes = nullptr;
    std::size_t size = 0;
    for (void** at = extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
      if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
        bytes = at[1];
      else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE)
        size = *static_cast<std::size_t*>(at[1]);
      else
        break;
    }
    if (bytes) block.assign(static_cast<const std::uint8_t*>(bytes), static_cast<const std::uint8_t*>(bytes) + size);
  }
}

namespace {
constexpr CUfunction_attribute which[] = {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
                                          CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
                                          CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH};
std::atomic<bool> clusters_are_asked_for{false};
} // namespace

void attribute_set(int attribute) {
  if (std::find(std::begin(which), std::end(which), attribute) != std::end(which)) clusters_are_asked_for = true;
}

Dim3 own_cluster(const Kernel& kernel, CUfunction handle) {
  if (!kernel.instrumented || kernel.instrumented->cluster || !kernel.clone || !clusters_are_asked_for)
    return compiled_cluster(kernel);
  int wanted[3] = {attribute(kernel, handle, which[0]), 0, 0};
  for (int i = 1; wanted[0] && i < 3; ++i) wanted[i] = attribute(kernel, handle, which[i]);
  for (int i = 0; !kernel.is_clone && i < 3; ++i) {
    const int told = kernel.told_cluster[i].exchange(wanted[i]);
    if (told != wanted[i]) set_attribute(kernel, which[i], wanted[i]);
  }
  if (wanted[0] <= 0 || wanted[1] <= 0 || wanted[2] <= 0) return {};
  return {std::uint32_t(wanted[0]), std::uint32_t(wanted[1]), std::uint32_t(wanted[2])};
}

bool fits(Session& session, const Kernel& kernel, const Journal::LaunchFacts& launch) {
  if (!kernel.clone || kernel.forgone) return false;
  if (launch.clusters_vary) {
    const std::string line = "kernel " + kernel.name +
                             " is not recorded where it is launched with clusters of a preferred size: nothing tells "
                             "which of its clusters have it";
    say_once(line);
    session.incident("opaque", line);
    return false;
  }
  if (launch.block.count() > kernel.most_threads) {
    say_once("kernel " + kernel.name + " is not recorded: instrumented, it needs too many registers for blocks of " +
             std::to_string(launch.block.count()) + " threads");
    session.incident("opaque", "a kernel needs too many registers when it is instrumented: " + kernel.name);
    return false;
  }
  if (launch.grid.count() > most_blocks) {
    say_once("kernel " + kernel.name + " is not recorded: a launch has more than 2^31 blocks");
    session.incident("opaque", "a launch has more than 2^31 blocks: " + kernel.name);
    return false;
  }
  if (launch.dynamic_shared > 0) {
    set_attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, int(launch.dynamic_shared));
  }
  if (launch.cluster.count() > portable_cluster) {
    set_attribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  }
  const bool clusters = launch.cluster.count() > 1;
  if (!launch.cooperative && !clusters) return true;
  const std::optional<std::uint64_t> resident = resident_blocks(kernel, launch);
  const std::uint64_t needed = launch.cooperative ? launch.grid.count() : launch.cluster.count();
  if (resident && *resident < needed) {
    say_once("kernel " + kernel.name + " is not recorded: instrumented, " + std::to_string(*resident) +
             " of its blocks fit on the device at the same time, not " + std::to_string(needed));
    session.incident("opaque", "too few blocks of a kernel fit on the device when it is instrumented: " + kernel.name);
    return false;
  }
  return true;
}

} // namespace deadheat::cupti
