// The driver's entry points that replaying on a GPU uses (replay/hardware/driver_calls.def), on the embedded device:
// `deadheat replay --device gpu --driver` takes this library where there is no GPU, so that rewritten PTX, turnstiles,
// gates and the worker process run in tests.
//
// DEADHEAT_TEST_DRIVER_KEEP names a directory that gets every module's PTX, for ptxas to judge.
// DEADHEAT_TEST_DRIVER_ENDS is "hang" or "die": what the process does when it launches a kernel.
//
// Handles are numbers: streams, events and modules those of the device, streams moved beyond the driver's special ones.
#include <cuda.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <string>

#include "replay/device/device.h"
#include "tests/embedded_operations.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace deadheat;

using namespace deadheat::test;
using Kernel = EmbeddedKernel;

device::Device* the_device = nullptr;
std::deque<Kernel> kernels; // CUfunction points into it
std::uint32_t per_thread = 0;

device::Device& device_here() { return *the_device; }

std::uint32_t stream_of(CUstream stream) {
  const auto number = reinterpret_cast<std::uint64_t>(stream);
  if (number <= 1) return 1;
  if (number == 2) {
    if (!per_thread) per_thread = device_here().create_stream(trace::StreamCreate::Kind::per_thread, 0, 0);
    return per_thread;
  }
  return std::uint32_t(number - special_streams);
}

template <typename Handle>
Handle handle(std::uint64_t number) {
  return reinterpret_cast<Handle>(number);
}

CUresult result(device::Progress progress) {
  switch (progress) {
    case device::Progress::fault: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case device::Progress::hang: return CUDA_ERROR_LAUNCH_TIMEOUT;
    default: return CUDA_SUCCESS;
  }
}

CUresult submit(CUstream stream, decltype(trace::Operation::what) what) {
  trace::Operation operation;
  operation.stream = stream_of(stream);
  operation.what = std::move(what);
  return device_here().submit(std::move(operation)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult set(CUdeviceptr at, std::uint32_t value, std::size_t count, unsigned element, CUstream stream) {
  return submit(stream, set_of(at, value, count, element));
}

} // namespace

EXPORT CUresult cuInit(unsigned) {
  if (the_device) return CUDA_SUCCESS;
  device::DeviceOptions options;
  options.seed = 7;
  Expected<std::unique_ptr<device::Device>> made = device::Device::create(options);
  if (!made) return CUDA_ERROR_NO_DEVICE;
  the_device = made->release();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_ILLEGAL_ADDRESS  ? "a fault of the embedded device"
          : error == CUDA_ERROR_LAUNCH_TIMEOUT ? "the embedded device hangs"
                                               : "refused by the embedded device";
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice* device, int) {
  *device = 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, device_here().profile().name().c_str(), std::size_t(size));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  const Profile& profile = device_here().profile();
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = int(profile.multiprocessors); return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = int(profile.shared_per_block_optin);
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = handle<CUcontext>(1);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxSynchronize() {
  return result(device_here().wait({trace::HostWait::Kind::device, 0, 0, false, 0}));
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  if (const char* directory = std::getenv("DEADHEAT_TEST_DRIVER_KEEP")) {
    static int number = 0;
    std::ofstream(directory + ("/" + std::to_string(getpid())) + "-" + std::to_string(number++) + ".ptx")
        << static_cast<const char*>(image);
  }
  Expected<std::uint32_t> id = device_here().load_module(static_cast<const char*>(image), "module");
  if (!id) {
    std::fprintf(stderr, "%s\n", id.error().message().c_str());
    return CUDA_ERROR_INVALID_PTX;
  }
  *module = handle<CUmodule>(*id);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  engine::LoadedModule* loaded = device_here().module(number(module));
  if (!loaded || !loaded->kernel(name)) return CUDA_ERROR_NOT_FOUND;
  kernels.push_back({number(module), name});
  *function = reinterpret_cast<CUfunction>(&kernels.back());
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* at, std::size_t* bytes, CUmodule module, const char* name) {
  std::uint64_t size = 0;
  *at = device_here().symbol_address(number(module), name, &size);
  *bytes = size;
  return *at ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, std::size_t) {
  *blocks = int(device_here().profile().max_threads_per_multiprocessor) / (threads ? threads : 1);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* at, std::size_t bytes) {
  Expected<trace::Allocate> made = device_here().allocate(trace::Allocate::Kind::device, bytes, 0);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  *at = made->address;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAllocAsync(CUdeviceptr* at, std::size_t bytes, CUstream stream) {
  Expected<trace::Allocate> made = device_here().allocate(trace::Allocate::Kind::pool, bytes, 0, stream_of(stream));
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  *at = made->address;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
  return device_here().release(at, 0, stream_of(stream)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool, std::size_t) { return CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) {
  *pool = handle<CUmemoryPool>(1);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostAlloc(void** at, std::size_t bytes, unsigned) {
  Expected<trace::Allocate> made = device_here().allocate(trace::Allocate::Kind::pinned, bytes, 0);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  *at = reinterpret_cast<void*>(made->host_address);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return submit(stream, copy_of(to, from, bytes));
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, std::size_t count, CUstream stream) {
  return set(at, value, count, 1, stream);
}
EXPORT CUresult cuMemsetD16Async(CUdeviceptr at, unsigned short value, std::size_t count, CUstream stream) {
  return set(at, value, count, 2, stream);
}
EXPORT CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, std::size_t count, CUstream stream) {
  return set(at, value, count, 4, stream);
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  const auto kind =
      flags & CU_STREAM_NON_BLOCKING ? trace::StreamCreate::Kind::non_blocking : trace::StreamCreate::Kind::blocking;
  *stream = handle<CUstream>(device_here().create_stream(kind, priority, 0) + special_streams);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  return result(device_here().wait({trace::HostWait::Kind::stream, stream_of(stream), 0, false, 0}));
}
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  device_here().stream_wait(stream_of(stream), number(event), 0);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventCreate(CUevent* event, unsigned) {
  *event = handle<CUevent>(device_here().create_event());
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy_v2(CUevent) { return CUDA_SUCCESS; }
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  device_here().record_event(number(event), stream_of(stream), 0);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventSynchronize(CUevent event) {
  return result(device_here().wait({trace::HostWait::Kind::event, number(event), 0, false, 0}));
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void** extra) {
  if (const char* ends = std::getenv("DEADHEAT_TEST_DRIVER_ENDS")) {
    if (std::strcmp(ends, "hang") == 0) pause();
    if (std::strcmp(ends, "die") == 0) std::abort();
  }
  const Kernel& kernel = *reinterpret_cast<const Kernel*>(function);
  trace::Launch launch;
  launch.module = kernel.module;
  launch.kernel = kernel.name;
  launch.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  launch.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  launch.dynamic_shared = config->sharedMemBytes;
  for (unsigned n = 0; n < config->numAttrs; ++n) {
    const CUlaunchAttribute& attribute = config->attrs[n];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.cooperative = attribute.value.cooperative != 0;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      launch.programmatic = attribute.value.programmaticStreamSerializationAllowed != 0;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& d = attribute.value.clusterDim;
      launch.cluster = {d.x, d.y, d.z};
    }
  }
  const void* data = nullptr;
  std::size_t size = 0;
  for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) data = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<std::size_t*>(extra[1]);
  }
  launch.arguments.size = size;
  launch.arguments.inlined.assign(static_cast<const std::uint8_t*>(data),
                                  static_cast<const std::uint8_t*>(data) + size);
  return submit(config->hStream, launch);
}
