// The driver API, one family a word on the command line. Each prints what came of it; embedded_driver.cpp knows what.
// Linked with libcuda alone; the kernels' PTX lies beside the program.
#ifdef KERNELS

extern "C" __device__ int counter = 5;
extern "C" __constant__ int factors[4] = {1, 2, 3, 4};

extern "C" __global__ void fill(int* data, int n, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = value;
}
extern "C" __global__ void add(int* to, const int* from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] += from[i] * factors[1] + counter;
}

#else

#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                                 \
  do {                                                                              \
    CUresult status_ = (call);                                                      \
    if (status_ != CUDA_SUCCESS) {                                                  \
      std::printf("line %d: %s: %s\n", __LINE__, #call, code(status_));             \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (0)
#define SHOW(call) std::printf("%s\n", code(call))

static const char* code(CUresult status) {
  const char* text = nullptr;
  return cuGetErrorName(status, &text) == CUDA_SUCCESS ? text : "no such code";
}

static std::string path_of_ptx() {
  char path[4096] = {};
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  return std::string(path, length) + ".ptx";
}
static std::string ptx() {
  std::ifstream file(path_of_ptx());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

static CUcontext start() {
  CHECK(cuInit(0));
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  return context;
}
static CUmodule module() {
  CUmodule made = nullptr;
  CHECK(cuModuleLoad(&made, path_of_ptx().c_str()));
  return made;
}
static CUfunction function(CUmodule module, const char* name) {
  CUfunction found = nullptr;
  CHECK(cuModuleGetFunction(&found, module, name));
  return found;
}
static CUdeviceptr zeros(size_t count) {
  CUdeviceptr memory = 0;
  CHECK(cuMemAlloc(&memory, count * sizeof(int)));
  CHECK(cuMemsetD32(memory, 0, count));
  return memory;
}
static int read(CUdeviceptr from) {
  int value = 0;
  CHECK(cuMemcpyDtoH(&value, from, sizeof value));
  return value;
}
static void launch(CUfunction function, CUstream stream, void** arguments) {
  CHECK(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, arguments, nullptr));
}

// What is an error before cuInit, without a context, and of wrong handles.
static void errors() {
  int value = 0;
  CUdeviceptr memory = 0;
  CUcontext context = nullptr, other = nullptr;
  SHOW(cuDeviceGetCount(&value));
  CHECK(cuDriverGetVersion(&value));
  SHOW(cuInit(1));
  CHECK(cuInit(0));
  SHOW(cuMemAlloc(&memory, 16));
  SHOW(cuCtxGetDevice(&value));
  SHOW(cuDeviceGet(&value, 1));
  CHECK(cuCtxGetCurrent(&context));
  std::printf("%d\n", context == nullptr);
  CHECK(cuCtxCreate(&context, nullptr, CU_CTX_SCHED_YIELD, 0));
  unsigned flags = 0, version = 0;
  CHECK(cuCtxGetFlags(&flags));
  CHECK(cuCtxGetApiVersion(context, &version));
  std::printf("%u %u\n", flags, version);
  SHOW(cuMemAlloc(&memory, 0));
  SHOW(cuMemFree(0x1234));
  SHOW(cuStreamSynchronize(reinterpret_cast<CUstream>(0x1234)));
  SHOW(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  CHECK(cuCtxPopCurrent(&other));
  std::printf("%d\n", other == context);
  SHOW(cuCtxSynchronize());
  CHECK(cuCtxPushCurrent(context));
  std::thread([] { SHOW(cuCtxSynchronize()); }).join();
  CHECK(cuCtxDestroy(context));
  SHOW(cuCtxPushCurrent(context));
  int active = 1;
  CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  std::printf("%d\n", active);
  SHOW(cuDevicePrimaryCtxRelease(0));
  const char* text = nullptr;
  SHOW(cuGetErrorString(CUresult(12345), &text));
}

static void device() {
  start();
  char name[32], id[16];
  size_t bytes = 0;
  CUuuid uuid;
  int major = 0, minor = 0, threads = 0, mapped = 0, vmm = 1;
  CHECK(cuDeviceGetName(name, sizeof name, 0));
  CHECK(cuDeviceTotalMem(&bytes, 0));
  CHECK(cuDeviceGetUuid(&uuid, 0));
  CHECK(cuDeviceComputeCapability(&major, &minor, 0));
  CHECK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0));
  CHECK(cuDeviceGetAttribute(&mapped, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 0));
  CHECK(cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  CHECK(cuDeviceGetPCIBusId(id, sizeof id, 0));
  std::printf("%s|%zu|%.8s|%d.%d|%d|%d|%d|%s\n", name, bytes, uuid.bytes, major, minor, threads, mapped, vmm, id);
  SHOW(cuDeviceGetAttribute(&threads, CUdevice_attribute(0), 0));
  size_t limit = 0;
  CHECK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
  CHECK(cuCtxGetLimit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
  std::printf("%zu\n", limit);
}

static void modules() {
  start();
  const std::string text = ptx();
  CUmodule loaded = nullptr, of_function = nullptr;
  char log[200] = "untouched", info[8] = "x";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                            CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_WALL_TIME};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log), info, reinterpret_cast<void*>(sizeof info), nullptr};
  CHECK(cuModuleLoadDataEx(&loaded, text.c_str(), 5, options, values));
  std::printf("'%s' %zu '%s'\n", log, reinterpret_cast<size_t>(values[1]), info);
  unsigned count = 0;
  CHECK(cuModuleGetFunctionCount(&count, loaded));
  CUfunction add = function(loaded, "add"), none = nullptr;
  SHOW(cuModuleGetFunction(&none, loaded, "nothing"));
  CHECK(cuFuncGetModule(&of_function, add));
  const char* called = nullptr;
  CHECK(cuFuncGetName(&called, add));
  int threads = 0, ptx_version = 0;
  CHECK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add));
  CHECK(cuFuncGetAttribute(&ptx_version, CU_FUNC_ATTRIBUTE_PTX_VERSION, add));
  size_t offset = 0, size = 0;
  CHECK(cuFuncGetParamInfo(add, 2, &offset, &size));
  std::printf("%u %d %s %d %d %zu %zu\n", count, of_function == loaded, called, threads, ptx_version, offset, size);
  CUdeviceptr counter = 0;
  CHECK(cuModuleGetGlobal(&counter, &size, loaded, "counter"));
  const int seven = 7;
  std::printf("%zu %d\n", size, read(counter));
  CHECK(cuMemcpyHtoD(counter, &seven, sizeof seven));
  CUdeviceptr to = zeros(64), from = zeros(64);
  int n = 64;
  void* arguments[] = {&to, &from, &n};
  launch(add, nullptr, arguments);
  std::printf("%d\n", read(to));
  SHOW(cuModuleGetGlobal(&counter, &size, loaded, "nothing"));
  CHECK(cuModuleUnload(loaded));
  SHOW(cuModuleGetFunction(&none, loaded, "add"));
  values[1] = reinterpret_cast<void*>(sizeof log);
  SHOW(cuModuleLoadDataEx(&loaded, "this is no PTX", 2, options, values));
  std::printf("'%s' %zu\n", log, reinterpret_cast<size_t>(values[1]));
  SHOW(cuModuleLoad(&loaded, "/no/such/file"));
  const unsigned char machine_code[64] = {0x7F, 'E', 'L', 'F', 2, 1, 1};
  SHOW(cuModuleLoadData(&loaded, machine_code));
  CUlibrary library = nullptr;
  CHECK(cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel = nullptr;
  CHECK(cuLibraryGetKernel(&kernel, library, "fill"));
  int value = 9;
  void* fill_arguments[] = {&to, &n, &value};
  CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 64, 1, 1, 0, nullptr, fill_arguments, nullptr));
  std::printf("%d\n", read(to));
}

static void linker() {
  start();
  CUlinkState state = nullptr;
  const std::string text = ptx();
  const std::string other =
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry nothing() {\n  ret;\n}\n";
  char log[100] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CHECK(cuLinkCreate(2, options, values, &state));
  SHOW(cuLinkAddFile(state, CU_JIT_INPUT_PTX, "/no/such/file", 0, nullptr, nullptr));
  CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(text.data()), text.size(), "a", 0, nullptr, nullptr));
  CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(other.data()), other.size(), "b", 0, nullptr, nullptr));
  void* image = nullptr;
  size_t bytes = 0;
  CHECK(cuLinkComplete(state, &image, &bytes));
  CUmodule loaded = nullptr;
  CHECK(cuModuleLoadData(&loaded, image));
  CHECK(cuLinkDestroy(state));
  function(loaded, "nothing");
  CUdeviceptr to = zeros(64);
  int n = 64, value = 3;
  void* arguments[] = {&to, &n, &value};
  launch(function(loaded, "fill"), nullptr, arguments);
  std::printf("%d\n", read(to));
  CHECK(cuLinkCreate(0, nullptr, nullptr, &state));
  SHOW(cuLinkAddData(state, CU_JIT_INPUT_NVVM, log, 4, "nvvm", 0, nullptr, nullptr));
  SHOW(cuLinkComplete(state, &image, &bytes));
  SHOW(cuLinkDestroy(nullptr));
}

static void memory() {
  CUcontext context = start();
  CUdeviceptr pitched = 0, base = 0, managed = 0, pooled = 0;
  size_t pitch = 0, bytes = 0;
  CHECK(cuMemAllocPitch(&pitched, &pitch, 20, 3, 4));
  CHECK(cuMemsetD2D16(pitched, pitch, 0x0102, 10, 3));
  unsigned char rows[3][24];
  std::memset(rows, 0, sizeof rows);
  CUDA_MEMCPY2D plane = {};
  plane.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  plane.srcDevice = pitched;
  plane.srcPitch = pitch;
  plane.dstMemoryType = CU_MEMORYTYPE_HOST;
  plane.dstHost = rows;
  plane.dstPitch = 24;
  plane.dstXInBytes = 2;
  plane.WidthInBytes = 20;
  plane.Height = 3;
  CHECK(cuMemcpy2D(&plane));
  std::printf("%zu %d %d %d %d\n", pitch, rows[2][1], rows[2][2], rows[2][3], rows[2][22]);
  CUDA_MEMCPY3D volume = {};
  volume.srcMemoryType = volume.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  CHECK(cuMemAlloc(&base, 2 * 3 * 8));
  CHECK(cuMemsetD8(base, 1, 48));
  CHECK(cuMemsetD32(base + 24, 0x05050505, 6));
  volume.srcDevice = base;
  volume.srcPitch = 8;
  volume.srcHeight = 3;
  volume.dstDevice = pitched;
  volume.dstPitch = 8;
  volume.dstHeight = 3;
  volume.srcZ = 1;
  volume.WidthInBytes = 8;
  volume.Height = 3;
  volume.Depth = 1;
  CHECK(cuMemcpy3D(&volume));
  std::printf("%x\n", read(pitched));
  volume.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  SHOW(cuMemcpy3D(&volume));
  SHOW(cuMemsetD32(base + 2, 0, 1));
  CUdeviceptr start_of = 0;
  CHECK(cuMemGetAddressRange(&start_of, &bytes, base + 5));
  std::printf("%d %zu\n", start_of == base, bytes);
  CHECK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemAllocAsync(&pooled, 64, nullptr));
  void* pinned = nullptr;
  CHECK(cuMemHostAlloc(&pinned, 64, CU_MEMHOSTALLOC_PORTABLE));
  CUdeviceptr as_device = 0;
  CHECK(cuMemHostGetDevicePointer(&as_device, pinned, 0));
  for (CUdeviceptr pointer : {base, managed, pooled, as_device}) {
    unsigned type = 0, is_managed = 2;
    CUcontext owner = nullptr;
    CUmemoryPool pool = nullptr;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    void* places[] = {&owner, &is_managed, &pool};
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
    CHECK(cuPointerGetAttributes(3, asked, places, pointer));
    std::printf("%u %d %u %d\n", type, owner == context, is_managed, pool != nullptr);
  }
  int local = 0;
  unsigned type = 0;
  SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&local)));
  CHECK(cuMemFreeAsync(pooled, nullptr));
  CHECK(cuMemFreeHost(pinned));
  CHECK(cuMemFree(managed));
  SHOW(cuMemFree(managed));
  CUdeviceptr reserved = 0;
  SHOW(cuMemAddressReserve(&reserved, 2 << 20, 0, 0, 0));
  SHOW(cuStreamWaitValue32(nullptr, base, 1, 0));
}

static void graphs() {
  start();
  CUmodule loaded = module();
  CUdeviceptr to = zeros(64), from = zeros(64);
  int n = 64, value = 2;
  CUgraph graph = nullptr;
  CHECK(cuGraphCreate(&graph, 0));
  void* fill_arguments[] = {&from, &n, &value};
  void* add_arguments[] = {&to, &from, &n};
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = function(loaded, "fill");
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.blockDimX = 64;
  kernel.kernelParams = fill_arguments;
  CUgraphNode first = nullptr, second = nullptr, third = nullptr;
  CHECK(cuGraphAddKernelNode(&first, graph, nullptr, 0, &kernel));
  kernel.func = function(loaded, "add");
  kernel.kernelParams = add_arguments;
  CHECK(cuGraphAddKernelNode(&second, graph, &first, 1, &kernel));
  CUgraphNodeParams any = {};
  any.type = CU_GRAPH_NODE_TYPE_MEMSET;
  any.memset.dst = from;
  any.memset.value = 100;
  any.memset.elementSize = 4;
  any.memset.width = 64;
  any.memset.height = 1;
  CHECK(cuGraphAddNode(&third, graph, &second, nullptr, 1, &any));
  CUDA_KERNEL_NODE_PARAMS back = {};
  CHECK(cuGraphKernelNodeGetParams(second, &back));
  size_t count = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &count));
  std::printf("%zu %d %u\n", count, back.func == kernel.func, back.blockDimX);
  CUgraphExec executable = nullptr;
  CHECK(cuGraphInstantiate(&executable, graph, 0));
  CHECK(cuGraphLaunch(executable, nullptr));
  std::printf("%d %d\n", read(to), read(from));
  value = 10;
  kernel.func = function(loaded, "fill");
  kernel.kernelParams = fill_arguments;
  CHECK(cuGraphExecKernelNodeSetParams(executable, first, &kernel));
  CHECK(cuGraphLaunch(executable, nullptr));
  std::printf("%d\n", read(to));
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemsetD32Async(to, 1, 64, stream));
  launch(function(loaded, "add"), stream, add_arguments);
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CHECK(cuStreamGetCaptureInfo(stream, &capturing, &id, nullptr, nullptr, nullptr, nullptr));
  CUgraph captured = nullptr;
  CHECK(cuStreamEndCapture(stream, &captured));
  CUgraphExec again = nullptr;
  CHECK(cuGraphInstantiate(&again, captured, 0));
  CHECK(cuGraphLaunch(again, stream));
  CHECK(cuStreamSynchronize(stream));
  std::printf("%d %d\n", capturing == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0, read(to));
  CUgraphExecUpdateResultInfo info = {};
  SHOW(cuGraphExecUpdate(executable, captured, &info));
}

static void launches() {
  start();
  CUmodule loaded = module();
  CUfunction fill = function(loaded, "fill");
  CUdeviceptr to = zeros(64);
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  struct { CUdeviceptr data; int n, value; } buffer = {to, 64, 6};
  size_t bytes = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, stream, nullptr, extra));
  CHECK(cuStreamSynchronize(stream));
  std::printf("%d\n", read(to));
  bytes = 12;
  SHOW(cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, stream, nullptr, extra));
  SHOW(cuLaunchKernel(fill, 1, 1, 1, 2048, 1, 1, 0, stream, nullptr, extra));
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 64;
  config.hStream = stream;
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int n = 64, value = 8;
  void* arguments[] = {&to, &n, &value};
  CHECK(cuLaunchKernelEx(&config, fill, arguments, nullptr));
  CHECK(cuStreamSynchronize(stream));
  std::printf("%d\n", read(to));
  int blocks = 0, grid = 0, threads = 0;
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 128, 0));
  CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &threads, fill, nullptr, 0, 0));
  std::printf("%d %d %d\n", blocks, grid, threads);
  CHECK(cuLaunchHostFunc(stream, [](void* text) { std::printf("%s\n", static_cast<char*>(text)); },
                         const_cast<char*>("host function")));
  CHECK(cuStreamAddCallback(stream, [](CUstream, CUresult status, void*) { std::printf("%s\n", code(status)); },
                            nullptr, 0));
  CHECK(cuStreamSynchronize(stream));
}

// Each way to find an entry point, by versions; what is refused says so.
static void lookups() {
  void* functions[4] = {};
  CUdriverProcAddressQueryResult status{};
  CHECK(cuGetProcAddress("cuMemAlloc", &functions[0], 2000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  CHECK(cuGetProcAddress("cuMemAlloc", &functions[1], 3020, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  std::printf("%d %d\n", functions[0] == dlsym(RTLD_DEFAULT, "cuMemAlloc"), functions[1] == dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
  CHECK(cuGetProcAddress("cuMemcpyAsync", &functions[2], 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
  std::printf("%d\n", functions[2] == dlsym(RTLD_DEFAULT, "cuMemcpyAsync_ptsz"));
  CHECK(cuGetProcAddress("cuGraphCreate", &functions[3], 9000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  std::printf("%d %d\n", functions[3] == nullptr, status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK(cuGetProcAddress("cuNothing", &functions[3], 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  std::printf("%d %d\n", functions[3] == nullptr, status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  SHOW(cuGetProcAddress("cuInit", &functions[3], 99000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  std::printf("%d\n", library && dlsym(library, "cuInit") == reinterpret_cast<void*>(&cuInit));
  const void* table = nullptr;
  CUuuid id = {};
  SHOW(cuGetExportTable(&table, &id));
}

// Entry points that the embedded device does not have: words are their names.
static int refused(int count, char** names) {
  int right = 0;
  for (int n = 0; n < 2 * count; ++n) {
    auto call = reinterpret_cast<CUresult (*)()>(dlsym(RTLD_DEFAULT, names[n / 2]));
    right += call && call() == CUDA_ERROR_NOT_SUPPORTED;
  }
  std::printf("%d refused\n", right);
  return 0;
}

int main(int count, char** words) {
  if (count > 1 && std::strcmp(words[1], "refused") == 0) return refused(count - 2, words + 2);
  struct { const char* name; void (*run)(); } const families[] = {
      {"errors", errors}, {"device", device}, {"modules", modules}, {"linker", linker}, {"memory", memory},
      {"graphs", graphs}, {"launches", launches}, {"lookups", lookups}};
  for (const auto& family : families) {
    if (count > 1 && std::strcmp(words[1], family.name) == 0) {
      family.run();
      return 0;
    }
  }
  return 2;
}

#endif
