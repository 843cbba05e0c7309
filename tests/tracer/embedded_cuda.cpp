// A stand-in for libcuda.so.1 on the embedded device: what the preload library loads and launches really runs, its
// instrumented kernels and its own included. PTX only; "assembling" it gives it back. Cubins are those of
// fake_ptxas.py, which carry it.
//
// Thread-safety: one call at a time. A subscriber is called without the lock.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <elf.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <string>
#include <thread>

#include "replay/device/device.h"
#include "tests/embedded_operations.h"
#include "tests/tracer/callbacks.h"
#include "tests/tracer/embedded_cuda.h"
#include "tracer/compilers/triton.h"
#include "tracer/device_log/layout.h"
#include "tracer/ptx/elf.h"
#include "tracer/ptx/fatbin.h"
#include "tracer/ptx/instrument.h"
#include "tracer/ptx/link.h"

using namespace deadheat;
using namespace deadheat::test;

std::recursive_mutex& embedded::lock = *new std::recursive_mutex;
device::Device* embedded::the_device = nullptr;

namespace {

CUresult result(device::Progress progress) {
  switch (progress) {
    case device::Progress::done: return CUDA_SUCCESS;
    case device::Progress::pending: return CUDA_ERROR_NOT_READY;
    default: return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
}

} // namespace

std::uint32_t embedded::stream_of(CUstream stream) {
  const auto number = reinterpret_cast<std::uint64_t>(stream);
  return number < special_streams ? 1 : std::uint32_t(number - special_streams);
}

CUresult embedded::submit(CUstream stream, decltype(trace::Operation::what) what) {
  std::lock_guard hold(lock);
  trace::Operation operation;
  operation.stream = stream_of(stream);
  operation.what = std::move(what);
  Expected<std::uint32_t> id = the_device->submit(std::move(operation));
  if (!id) std::fprintf(stderr, "embedded_cuda: %s\n", id.error().message().c_str());
  return id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult embedded::wait(trace::HostWait::Kind kind, std::uint32_t id) {
  // Kernels that find nothing to do may wait for another host thread: the one that makes room for their accesses.
  for (int left = 5000;; --left) {
    std::unique_lock hold(lock);
    const device::Progress progress = the_device->wait({kind, id, 0, false, 0});
    if (progress != device::Progress::hang) return result(progress);
    if (!left) {
      std::fprintf(stderr, "embedded_cuda: %s\n", the_device->stuck_description().c_str());
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    }
    hold.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

namespace {

using Kernel = EmbeddedKernel;

constexpr unsigned multiprocessors = 132;
using embedded::lock;
using embedded::stream_of;
using embedded::submit;
using embedded::the_device;
using embedded::wait;
std::deque<Kernel>& kernels = *new std::deque<Kernel>;  // a CUfunction points into it

CUresult copy(std::uint64_t to, std::uint64_t from, std::size_t bytes, CUstream stream) {
  return submit(stream, copy_of(to, from, bytes));
}
CUresult set(std::uint64_t at, std::uint32_t value, std::size_t count, unsigned element, CUstream stream) {
  return submit(stream, set_of(at, value, count, element));
}

// What a kernel called gives_up leaves behind, once it is instrumented: a warp of it found no room for long enough in
// the first ring, and let nobody wait there any more (tracer/ptx/instrument_function.cpp).
std::uint64_t rings = 0;
int allocations = 0; // of device memory that live
std::atomic<bool> no_answer{false};
void give_up(CUstream stream, const device_log::Control& control) {
  rings = control.rings;
  set(rings + offsetof(device_log::Head, gave_up), 1, 1, 4, stream);
  set(rings + sizeof(device_log::Head) + offsetof(device_log::RingState, limit), ~0u, 2, 4, stream);
}

const engine::KernelInfo* info_of(CUfunction function) {
  const auto& kernel = *reinterpret_cast<const Kernel*>(function);
  engine::LoadedModule* module = the_device->module(kernel.module);
  return module ? module->kernel(kernel.name) : nullptr;
}

std::uint64_t number_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

}  // namespace

EXPORT CUresult cuInit(unsigned) {
  if (the_device) return CUDA_SUCCESS;
  device::DeviceOptions options;
  options.seed = 7;
  Expected<std::unique_ptr<device::Device>> made = device::Device::create(options);
  if (!made) return CUDA_ERROR_NO_DEVICE;
  the_device = made->release();
  the_device->others_may_help(true); // who makes room for accesses
  fake::inject();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetDevice(CUdevice* device) { return *device = 0, CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetCurrent(CUcontext* context) { return *context = fake::context, CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned*, int* active) { return *active = 1, CUDA_SUCCESS; }
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  return *context = fake::context, CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
// All memory goes; the context has the same handle again.
EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  cuDevicePrimaryCtxReset_v2_params p{device};
  return CALL(cuDevicePrimaryCtxReset_v2, nullptr, p, {
    wait(trace::HostWait::Kind::device, 0);
    std::lock_guard hold(lock);
    for (const trace::Allocate& memory : the_device->live_allocations()) {
      const bool kept = memory.kind == trace::Allocate::Kind::symbol || !the_device->release(memory.address, 0);
      if (!kept && memory.kind == trace::Allocate::Kind::device) --allocations;
    }
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  return std::strncpy(name, "No GPU", std::size_t(size)), CUDA_SUCCESS;
}
// The second one, where EMBEDDED_OTHER_DEVICE is set, is another one, which nobody uses.
EXPORT CUresult cuDeviceGetCount(int* count) {
  return *count = std::getenv("EMBEDDED_OTHER_DEVICE") ? 2 : 1, CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice* device, int number) { return *device = number, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9 - device
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                       : int(multiprocessors);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) { return *bytes = 1 << 30, CUDA_SUCCESS; }
EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr at) {
  if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT) {
    std::lock_guard hold(lock);
    if (!the_device->find_allocation(at)) return CUDA_ERROR_INVALID_VALUE;
    return *static_cast<CUcontext*>(data) = fake::context, CUDA_SUCCESS;
  }
  if (!on_device(at)) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int*>(data) = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? int(CU_MEMORYTYPE_DEVICE) : 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }
EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = embedded::is_captured(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph* graph,
                                          const CUgraphNode**, const CUgraphEdgeData**, std::size_t*) {
  *graph = embedded::captured_graph(stream);
  return cuStreamIsCapturing(stream, status);
}

// ---- code

namespace {

// Of what fake_ptxas.py writes the PTX that it was given. Empty of other machine code, and of all where
// EMBEDDED_NO_CUBINS is set; where that is "modules", not of the one by which the library asks.
std::string text_of_cubin(std::string_view bytes) {
  const Expected<ptx::ElfFile> file = ptx::read_elf(bytes, "module");
  const std::string none = std::getenv("EMBEDDED_NO_CUBINS") ? std::getenv("EMBEDDED_NO_CUBINS") : "";
  const bool asks = bytes.find("deadheat_empty") != bytes.npos;
  if (!file || (!none.empty() && !(asks && none == "modules"))) return {};
  for (const ptx::ElfSection& section : file->sections) {
    if (section.name == ".ptx") return std::string(section.bytes);
  }
  return {};
}

// PTX text as it is; of a fat binary's wrapper all that its parts have, linked.
std::string text_of(const void* image) {
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0) {
    return text_of_cubin({static_cast<const char*>(image), cupti::elf_size(image)});
  }
  const Expected<std::vector<std::vector<ptx::FatbinEntry>>> parts = ptx::fatbin_parts_of_wrapper(image);
  if (!parts) return static_cast<const char*>(image);
  std::vector<std::string> texts;
  for (const std::vector<ptx::FatbinEntry>& part : *parts) {
    for (const ptx::FatbinEntry& entry : part) {
      if (entry.kind == ptx::FatbinEntry::Kind::ptx) texts.push_back(*ptx::unpack(entry, "module"));
    }
  }
  return *ptx::link(texts, "module");
}

std::map<std::uint32_t, std::string> texts; // of modules

}  // namespace

bool embedded::has_clones(CUfunction f) {
  std::lock_guard hold(lock);
  return texts[reinterpret_cast<const Kernel*>(f)->module].find(ptx::clone_prefix) != std::string::npos;
}
namespace {
bool refused(const std::string& text) {
  return text.empty() || (embedded::refuses("images") && text.find(ptx::clone_prefix) != text.npos);
}

} // namespace

CUresult embedded::load(CUmodule* module, const void* image) {
  std::lock_guard hold(lock);
  const std::string text = text_of(image);
  if (refused(text)) return CUDA_ERROR_INVALID_IMAGE;
  Expected<std::uint32_t> id = the_device->load_module(text, "module");
  if (!id) std::fprintf(stderr, "embedded_cuda: %s\n", id.error().message().c_str());
  if (!id) return CUDA_ERROR_INVALID_PTX;
  texts[*id] = text;
  *module = reinterpret_cast<CUmodule>(std::uint64_t(*id));
  return CUDA_SUCCESS;
}

CUfunction embedded::function(CUmodule module, const char* name) {
  std::lock_guard hold(lock);
  engine::LoadedModule* loaded = the_device->module(number(module));
  if (!loaded || !loaded->kernel(name)) return nullptr;
  kernels.push_back({number(module), name});
  return reinterpret_cast<CUfunction>(&kernels.back());
}

// NVRTC asks, and is content to get nothing.
EXPORT CUresult cuGetExportTable(const void** table, const CUuuid*) {
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  cuModuleLoadData_params p{module, image};
  return CALL(cuModuleLoadData, nullptr, p, { return embedded::load(p.module, p.image); });
}
EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options,
                                   void** values) {
  cuModuleLoadDataEx_params p{module, image, count, options, values};
  return CALL(cuModuleLoadDataEx, nullptr, p, {
    const CUresult loaded = embedded::load(p.module, p.image);
    embedded::tell(loaded != CUDA_SUCCESS, p.numOptions, p.options, p.optionValues);
    return loaded;
  });
}
EXPORT CUresult cuModuleLoad(CUmodule* module, const char* path) {
  cuModuleLoad_params p{module, path};
  return CALL(cuModuleLoad, nullptr, p, {
    std::ifstream file(p.fname);
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (text.starts_with(ELFMAG)) text = text_of_cubin(text);
    if (refused(text)) return CUDA_ERROR_INVALID_IMAGE;
    std::lock_guard hold(lock);
    const Expected<std::uint32_t> id = the_device->load_module(text, p.fname);
    if (!id) return CUDA_ERROR_INVALID_IMAGE;
    texts[*id] = text;
    *p.module = reinterpret_cast<CUmodule>(std::uint64_t(*id));
    return CUDA_SUCCESS;
  });
}
// Its code and variables stay.
EXPORT CUresult cuModuleUnload(CUmodule module) {
  cuModuleUnload_params p{module};
  return CALL(cuModuleUnload, nullptr, p, { return CUDA_SUCCESS; });
}
// All kernels, in no order that means something: here clones come first.
namespace {
std::vector<std::string> names_of(CUmodule module) {
  std::lock_guard hold(lock);
  const std::string& text = texts[number(module)];
  std::vector<std::string> names;
  const std::regex entry(R"(\.entry\s+([\w$]+))");
  for (std::sregex_iterator at(text.begin(), text.end(), entry), end; at != end; ++at) names.push_back((*at)[1]);
  std::sort(names.begin(), names.end());
  return names;
}
} // namespace
EXPORT CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  cuModuleGetFunctionCount_params p{count, module};
  return CALL(cuModuleGetFunctionCount, nullptr, p, {
    *p.count = unsigned(names_of(p.mod).size());
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned room, CUmodule module) {
  cuModuleEnumerateFunctions_params p{functions, room, module};
  return CALL(cuModuleEnumerateFunctions, nullptr, p, {
    const std::vector<std::string> names = names_of(p.mod);
    std::lock_guard hold(lock);
    for (unsigned i = 0; i < p.numFunctions && i < names.size(); ++i) {
      kernels.push_back({number(p.mod), names[i]});
      p.functions[i] = reinterpret_cast<CUfunction>(&kernels.back());
    }
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  cuModuleGetFunction_params p{function, module, name};
  return CALL(cuModuleGetFunction, nullptr, p, {
    *p.hfunc = embedded::function(p.hmod, p.name);
    return *p.hfunc ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
}
EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* at, std::size_t* bytes, CUmodule module, const char* name) {
  std::lock_guard hold(lock);
  std::uint64_t size = 0;
  *at = the_device->symbol_address(number(module), name, &size);
  if (bytes) *bytes = std::strcmp(name, "empty") == 0 ? 0 : size;
  return *at ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuFuncGetName(const char** name, CUfunction function) {
  *name = reinterpret_cast<const Kernel*>(function)->name.c_str();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncGetParamInfo(CUfunction function, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  std::lock_guard hold(lock);
  const engine::KernelInfo* info = info_of(function);
  if (!info || index >= info->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  // Where it lies on a device, whose parameters begin at no multiple of 64: what is aligned to that lies further
  // behind.
  const auto to = info->parameters.begin() + std::ptrdiff_t(index) + 1;
  const bool aligned = std::any_of(info->parameters.begin(), to, [](const auto& p) { return p.bytes >= 64; });
  *offset = info->parameters[index].offset + (aligned ? 48 : 0);
  *bytes = info->parameters[index].bytes;
  return CUDA_SUCCESS;
}

// ---- memory

// EMBEDDED_MEMORY: of how many MiB the device has.
std::size_t free_memory() {
  const char* text = std::getenv("EMBEDDED_MEMORY");
  std::size_t taken = 0, all = std::size_t(text ? std::atoi(text) : 4096) << 20;
  for (const trace::Allocate& memory : the_device->live_allocations()) {
    if (memory.kind == trace::Allocate::Kind::device) taken += memory.bytes;
  }
  return all - std::min(all, taken);
}
EXPORT CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  cuMemGetInfo_v2_params p{free, total};
  return CALL(cuMemGetInfo_v2, nullptr, p, {
    std::lock_guard hold(lock);
    *p.free = free_memory();
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  cuMemAlloc_v2_params p{address, bytes};
  return CALL(cuMemAlloc_v2, nullptr, p, {
    std::lock_guard hold(lock);
    if (p.bytesize > free_memory()) return CUDA_ERROR_OUT_OF_MEMORY;
    Expected<trace::Allocate> made = the_device->allocate(trace::Allocate::Kind::device, p.bytesize, 0);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    ++allocations;
    *p.dptr = made->address;
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  cuMemFree_v2_params p{address};
  return CALL(cuMemFree_v2, nullptr, p, {
    std::lock_guard hold(lock);
    if (!the_device->release(p.dptr, 0)) return CUDA_ERROR_INVALID_VALUE;
    --allocations;
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemFreeHost(void* at) {
  cuMemFreeHost_params p{at};
  return CALL(cuMemFreeHost, nullptr, p, {
    std::lock_guard hold(lock);
    return the_device->release(number_of(p.p), 0) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
EXPORT CUresult cuMemHostAlloc(void** at, std::size_t bytes, unsigned flags) {
  cuMemHostAlloc_params p{at, bytes, flags};
  return CALL(cuMemHostAlloc, nullptr, p, {
    if (std::getenv("EMBEDDED_NO_PAGE_LOCKED")) return CUDA_ERROR_OUT_OF_MEMORY;
    std::lock_guard hold(lock);
    Expected<trace::Allocate> made = the_device->allocate(trace::Allocate::Kind::pinned, p.bytesize, 0);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *p.pp = reinterpret_cast<void*>(made->host_address);
    return CUDA_SUCCESS;
  });
}
// Memory of other devices, which is only noted.
EXPORT CUresult cuMemHostRegister_v2(void* page, std::size_t bytes, unsigned flags) {
  cuMemHostRegister_v2_params p{page, bytes, flags};
  return CALL(cuMemHostRegister_v2, nullptr, p,
              { return p.Flags & CU_MEMHOSTREGISTER_IOMEMORY ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED; });
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  cuMemcpyHtoDAsync_v2_params p{to, from, bytes, stream};
  return CALL(cuMemcpyHtoDAsync_v2, nullptr, p,
              { return copy(p.dstDevice, number_of(p.srcHost), p.ByteCount, p.hStream); });
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  cuMemcpyDtoHAsync_v2_params p{to, from, bytes, stream};
  return CALL(cuMemcpyDtoHAsync_v2, nullptr, p, {
    embedded::CapturedWork work;
    work.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    work.copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    work.copy.srcDevice = p.srcDevice;
    work.copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    work.copy.dstHost = p.dstHost;
    work.copy.WidthInBytes = p.ByteCount;
    work.copy.Height = work.copy.Depth = 1;
    if (embedded::captured(p.hStream, work)) return CUDA_SUCCESS;
    while (no_answer) std::this_thread::sleep_for(std::chrono::seconds(1));
    return copy(number_of(p.dstHost), p.srcDevice, p.ByteCount, p.hStream);
  });
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  cuMemcpyDtoDAsync_v2_params p{to, from, bytes, stream};
  return CALL(cuMemcpyDtoDAsync_v2, nullptr, p, { return copy(p.dstDevice, p.srcDevice, p.ByteCount, p.hStream); });
}
EXPORT CUresult cuMemsetD8_v2(CUdeviceptr at, unsigned char value, std::size_t count) {
  cuMemsetD8_v2_params p{at, value, count};
  return CALL(cuMemsetD8_v2, nullptr, p, { return set(p.dstDevice, p.uc, p.N, 1, nullptr); });
}
EXPORT CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, std::size_t count, CUstream stream) {
  cuMemsetD32Async_params p{at, value, count, stream};
  return CALL(cuMemsetD32Async, nullptr, p, { return set(p.dstDevice, p.ui, p.N, 4, p.hStream); });
}

// ---- streams

EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  cuStreamCreateWithPriority_params p{stream, flags, priority};
  return CALL(cuStreamCreateWithPriority, nullptr, p, {
    std::lock_guard hold(lock);
    const auto kind = p.flags & CU_STREAM_NON_BLOCKING ? trace::StreamCreate::Kind::non_blocking
                                                       : trace::StreamCreate::Kind::blocking;
    *p.phStream = reinterpret_cast<CUstream>(the_device->create_stream(kind, p.priority, 0) + special_streams);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuStreamGetFlags(CUstream, unsigned* flags) { return *flags = CU_STREAM_NON_BLOCKING, CUDA_SUCCESS; }
EXPORT CUresult cuStreamGetPriority(CUstream, int* priority) { return *priority = 0, CUDA_SUCCESS; }
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  cuStreamSynchronize_params p{stream};
  return CALL(cuStreamSynchronize, nullptr, p, {
    embedded::late_graphs(p.hStream);
    embedded::late_functions(stream_of(p.hStream));
    return wait(trace::HostWait::Kind::stream, stream_of(p.hStream));
  });
}
// Within the call.
EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  cuStreamAddCallback_params p{stream, callback, data, flags};
  return CALL(cuStreamAddCallback, nullptr, p, {
    const CUresult status = wait(trace::HostWait::Kind::stream, stream_of(p.hStream));
    p.callback(p.hStream, status, p.userData);
    return CUDA_SUCCESS;
  });
}
namespace {
std::mutex& functions_lock = *new std::mutex;
std::condition_variable& functions_over = *new std::condition_variable;
std::map<std::uint32_t, int>& functions = *new std::map<std::uint32_t, int>; // that are not over, by stream
} // namespace

void embedded::run_function(CUstream stream, const CUDA_HOST_NODE_PARAMS& function) {
  {
    std::lock_guard hold(functions_lock);
    ++functions[stream_of(stream)];
  }
  std::thread([stream, function] {
    wait(trace::HostWait::Kind::stream, stream_of(stream));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    function.fn(function.userData);
    std::lock_guard hold(functions_lock);
    --functions[stream_of(stream)];
    functions_over.notify_all();
  }).detach();
}
void embedded::late_functions(std::uint32_t stream) {
  std::unique_lock hold(functions_lock);
  functions_over.wait(hold, [&] {
    return std::all_of(functions.begin(), functions.end(),
                       [&](const auto& of) { return of.second == 0 || (stream && of.first != stream); });
  });
}
// In a thread of its own, some time after the call.
EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  cuLaunchHostFunc_params p{stream, function, data};
  return CALL(cuLaunchHostFunc, nullptr, p, {
    embedded::CapturedWork work;
    work.type = CU_GRAPH_NODE_TYPE_HOST;
    work.host = {p.fn, p.userData};
    if (embedded::captured(p.hStream, work)) return CUDA_SUCCESS;
    embedded::run_function(p.hStream, {p.fn, p.userData});
    return CUDA_SUCCESS;
  });
}
// Work goes on while the host asks.
EXPORT CUresult cuStreamQuery(CUstream stream) {
  cuStreamQuery_params p{stream};
  return CALL(cuStreamQuery, nullptr, p, {
    std::lock_guard hold(lock);
    return result(the_device->query({trace::HostWait::Kind::stream, stream_of(p.hStream), 0, true, 0}));
  });
}
EXPORT CUresult cuCtxSynchronize() {
  char none = 0;
  return CALL(cuCtxSynchronize, nullptr, none, {
    embedded::late_functions(0);
    return wait(trace::HostWait::Kind::device, 0);
  });
}
EXPORT CUresult cuProfilerStart() {
  char none = 0;
  return CALL(cuProfilerStart, nullptr, none, { return CUDA_SUCCESS; });
}
EXPORT CUresult cuProfilerStop() {
  char none = 0;
  return CALL(cuProfilerStop, nullptr, none, { return CUDA_SUCCESS; });
}

namespace {

// A clone fills a multiprocessor, of its original there is room for two.
int blocks_at_once(CUfunction f) {
  return reinterpret_cast<const Kernel*>(f)->name.starts_with(ptx::clone_prefix) ? 1 : 2;
}

template <typename P>
CUresult launch(const P& p) {
  std::unique_lock hold(lock);
  const engine::KernelInfo* info = info_of(p.f);
  if (!info || (!p.kernelParams && !info->parameters.empty())) return CUDA_ERROR_INVALID_VALUE;
  if (embedded::cannot_launch(p.f)) return CUDA_ERROR_OUT_OF_MEMORY;
  embedded::CapturedWork work;
  work.type = CU_GRAPH_NODE_TYPE_KERNEL;
  work.kernel = {p.f,         p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
                 p.blockDimZ, p.sharedMemBytes, p.kernelParams, nullptr,    nullptr,     nullptr};
  if (embedded::captured(p.hStream, work)) return CUDA_SUCCESS;
  const std::vector<std::uint8_t> arguments = embedded::arguments_of(p.f, p.kernelParams);
  hold.unlock();
  const CUresult launched =
      embedded::launch(p.f, {p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ},
                       p.sharedMemBytes, arguments, p.hStream);
  if (reinterpret_cast<const Kernel*>(p.f)->name == std::string(ptx::clone_prefix) + "gives_up") {
    give_up(p.hStream, *static_cast<const device_log::Control*>(p.kernelParams[info->parameters.size() - 1]));
  }
  return launched;
}

}  // namespace

std::vector<std::uint8_t> embedded::arguments_of(CUfunction f, void** parameters) {
  std::lock_guard hold(lock);
  const engine::KernelInfo& info = *info_of(f);
  std::vector<std::uint8_t> block(info.parameter_bytes);
  for (std::size_t i = 0; i < info.parameters.size(); ++i) {
    std::memcpy(block.data() + info.parameters[i].offset, parameters[i], info.parameters[i].bytes);
  }
  return block;
}

CUresult embedded::launch(CUfunction f, Dim3 grid, Dim3 block, std::uint32_t shared,
                          const std::vector<std::uint8_t>& arguments, CUstream stream) {
  trace::Launch launch;
  launch.module = reinterpret_cast<const Kernel*>(f)->module;
  launch.kernel = reinterpret_cast<const Kernel*>(f)->name;
  launch.grid = grid;
  launch.block = block;
  launch.dynamic_shared = shared;
  launch.cluster = cluster_of(f);
  launch.arguments.inlined = arguments;
  launch.arguments.size = arguments.size();
  return submit(stream, launch);
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra) {
  cuLaunchKernel_params p{f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra};
  const std::string& name = reinterpret_cast<const Kernel*>(f)->name;
  return CALL(cuLaunchKernel, name.c_str(), p, { return p.gridDimX ? launch(p) : CUDA_ERROR_INVALID_VALUE; });
}
EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                          unsigned bz, unsigned shared, CUstream stream, void** parameters) {
  cuLaunchCooperativeKernel_params p{f, gx, gy, gz, bx, by, bz, shared, stream, parameters};
  const std::string& name = reinterpret_cast<const Kernel*>(f)->name;
  return CALL(cuLaunchCooperativeKernel, name.c_str(), p, {
    const unsigned most = unsigned(blocks_at_once(p.f)) * multiprocessors;
    return p.gridDimX * p.gridDimY * p.gridDimZ > most ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : launch(p);
  });
}
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction f, int, std::size_t) {
  return *blocks = blocks_at_once(f), CUDA_SUCCESS;
}

// From here on who copies to the host waits for ever.
EXPORT void embedded_stops_answering() { no_answer = true; }
// Where the buffers lie into which gives_up wrote.
EXPORT CUdeviceptr embedded_rings() { return rings; }
// Of device memory, that live.
EXPORT int embedded_allocations() { return allocations; }
