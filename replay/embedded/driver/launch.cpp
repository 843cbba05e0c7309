// Launches and occupancy (Driver API, "Execution Control", "Occupancy").
#include "replay/embedded/launch.h"

#include <algorithm>
#include <array>

#include "replay/embedded/driver/driver.h"

using namespace deadheat::embedded;

DEADHEAT_BODY(cudaLaunchKernelExC, (const cudaLaunchConfig_t* config, const void* function, void** arguments));
DEADHEAT_BODY(cudaOccupancyMaxPotentialClusterSize,
              (int* size, const void* function, const cudaLaunchConfig_t* config));
DEADHEAT_BODY(cudaOccupancyMaxActiveClusters, (int* clusters, const void* function, const cudaLaunchConfig_t* config));
DEADHEAT_BODY(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
              (int* blocks, const void* function, int threads, size_t shared, unsigned flags));
DEADHEAT_BODY(cudaOccupancyAvailableDynamicSMemPerBlock,
              (size_t* bytes, const void* function, int blocks, int threads));
static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute) &&
              int(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) == int(cudaLaunchAttributeLaunchCompletionEvent));

namespace {

// Arguments come as pointers or in one buffer, not as both (cuLaunchKernel).
template <class Launch>
cudaError_t with_arguments(Call& call, CUfunction function, void** arguments, void** extra, Launch&& launch) {
  if (!extra) return launch(arguments);
  if (arguments) return cudaErrorInvalidValue;
  std::vector<void*> found;
  const cudaError_t status = find_arguments(call, function, extra, &found);
  return status == cudaSuccess ? launch(found.data()) : status;
}

cudaLaunchConfig_t configuration_of(const CUlaunchConfig& config) {
  cudaLaunchConfig_t same{};
  same.gridDim = dim3(config.gridDimX, config.gridDimY, config.gridDimZ);
  same.blockDim = dim3(config.blockDimX, config.blockDimY, config.blockDimZ);
  same.dynamicSmemBytes = config.sharedMemBytes;
  same.stream = config.hStream;
  same.attrs = reinterpret_cast<cudaLaunchAttribute*>(config.attrs);
  same.numAttrs = config.numAttrs;
  return same;
}

} // namespace

DEADHEAT_STREAM_DRIVER(cuLaunchKernel, _ptsz, context,
                       (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** arguments,
                        void** extra),
                       (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments,
                        extra)) {
  const LaunchConfiguration configuration{dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), shared,
                                          stream};
  return with_arguments(call, function, arguments, extra,
                        [&](void** found) { return launch_kernel(call, function, configuration, {}, found); });
}

DEADHEAT_STREAM_DRIVER(cuLaunchCooperativeKernel, _ptsz, context,
                       (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** arguments),
                       (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments)) {
  LaunchAttributes attributes;
  attributes.cooperative = true;
  return launch_kernel(call, function, {dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), shared, stream},
                       attributes, arguments);
}

DEADHEAT_STREAM_DRIVER(cuLaunchKernelEx, _ptsz, context,
                       (const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra),
                       (config, function, arguments, extra)) {
  if (!config) return cudaErrorInvalidValue;
  const cudaLaunchConfig_t same = configuration_of(*config);
  return with_arguments(call, function, arguments, extra,
                        [&](void** found) { return cudaLaunchKernelExC_body(call, &same, function, found); });
}

// ---- Occupancy

DEADHEAT_DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor, context,
                (int* blocks, CUfunction function, int threads, size_t shared), (blocks, function, threads, shared)) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_body(call, blocks, function, threads, shared, 0);
}
DEADHEAT_DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, context,
                (int* blocks, CUfunction function, int threads, size_t shared, unsigned flags),
                (blocks, function, threads, shared, flags)) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_body(call, blocks, function, threads, shared, flags);
}
DEADHEAT_DRIVER(cuOccupancyAvailableDynamicSMemPerBlock, context,
                (size_t* bytes, CUfunction function, int blocks, int threads), (bytes, function, blocks, threads)) {
  return cudaOccupancyAvailableDynamicSMemPerBlock_body(call, bytes, function, blocks, threads);
}
DEADHEAT_DRIVER(cuOccupancyMaxPotentialClusterSize, context,
                (int* size, CUfunction function, const CUlaunchConfig* config), (size, function, config)) {
  if (!config) return cudaErrorInvalidValue;
  const cudaLaunchConfig_t same = configuration_of(*config);
  return cudaOccupancyMaxPotentialClusterSize_body(call, size, function, &same);
}
DEADHEAT_DRIVER(cuOccupancyMaxActiveClusters, context,
                (int* clusters, CUfunction function, const CUlaunchConfig* config), (clusters, function, config)) {
  if (!config) return cudaErrorInvalidValue;
  const cudaLaunchConfig_t same = configuration_of(*config);
  return cudaOccupancyMaxActiveClusters_body(call, clusters, function, &same);
}

namespace {

constexpr int warp = 32, most_threads = 1024;
using SharedBytes = std::array<size_t, most_threads / warp + 1>; // dynamic ones of a block, by its warps

// The block of whole warps of which most threads fit on a multiprocessor; of several the largest.
cudaError_t best_block(Call& call, int* grid, int* threads, CUfunction function, const SharedBytes& shared, int limit) {
  if (!grid || !threads) return cudaErrorInvalidValue;
  Kernel kernel;
  const cudaError_t status = find_kernel(call, function, &kernel);
  if (status != cudaSuccess) return status;
  const deadheat::Profile& profile = call.device().profile();
  int most = std::min(int(kernel.info->max_threads), most_threads), best = 0;
  if (limit > 0) most = std::min(most, limit);
  *grid = *threads = 0;
  for (int count = most; count > 0; count = (count - 1) / warp * warp) {
    const int warps = (count + warp - 1) / warp;
    const int blocks =
        int(blocks_per_multiprocessor(profile, kernel, std::uint32_t(count), shared[std::size_t(warps)]));
    if (blocks * count <= best) continue;
    best = blocks * count;
    *threads = count;
    *grid = blocks * int(profile.multiprocessors);
  }
  return cudaSuccess;
}

// The program's function is asked before the call begins: it may call CUDA.
CUresult potential_block(const char* api, int* grid, int* threads, CUfunction function, CUoccupancyB2DSize of,
                         size_t shared, int limit) {
  SharedBytes bytes;
  for (std::size_t warps = 0; warps < bytes.size(); ++warps) bytes[warps] = of ? of(int(warps) * warp) : shared;
  return enter_driver(api, DefaultStream::legacy, DriverNeed::context,
                      [&](Call& call) { return best_block(call, grid, threads, function, bytes, limit); });
}

} // namespace

extern "C" DEADHEAT_VISIBLE CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int* grid, int* threads,
                                                                              CUfunction function,
                                                                              CUoccupancyB2DSize of, size_t shared,
                                                                              int limit) {
  return potential_block("cuOccupancyMaxPotentialBlockSize", grid, threads, function, of, shared, limit);
}
extern "C" DEADHEAT_VISIBLE CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* grid, int* threads, CUfunction function, CUoccupancyB2DSize of, size_t shared, int limit, unsigned flags) {
  if (flags & ~unsigned(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) return CUDA_ERROR_INVALID_VALUE;
  return potential_block("cuOccupancyMaxPotentialBlockSizeWithFlags", grid, threads, function, of, shared, limit);
}
