// Entry points beyond the everyday ones, one family a word on the command line. Each prints what came of it;
// embedded_entry_points.cpp knows what.
#include <dlfcn.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

#define SHOW(call) std::printf("%s\n", cudaGetErrorName(call))

__device__ int numbers[4] = {1, 2, 3, 4};

__global__ void fill(int* data, int n, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = value;
}
__global__ void add(int* to, const int* from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] += from[i];
}

static int read(const int* pointer) {
  int value = 0;
  CHECK(cudaMemcpy(&value, pointer, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}
static cudaGraphNode_t kernel_node(cudaGraph_t graph, std::vector<cudaGraphNode_t> after, void* function, void** arguments) {
  cudaKernelNodeParams p = {};
  p.func = function;
  p.gridDim = dim3(1);
  p.blockDim = dim3(64);
  p.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  CHECK(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &p));
  return node;
}

// Memory that the graph allocates, uses and frees; then memory that outlives its launch.
static void graph_memory() {
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams p = {};
  p.poolProps.allocType = cudaMemAllocationTypePinned;
  p.poolProps.location = {cudaMemLocationTypeDevice, 0};
  p.bytesize = 64 * sizeof(int);
  cudaGraphNode_t allocate = nullptr, release = nullptr;
  CHECK(cudaGraphAddMemAllocNode(&allocate, graph, nullptr, 0, &p));
  int* scratch = static_cast<int*>(p.dptr);
  int* out = nullptr;
  CHECK(cudaMalloc(&out, 64 * sizeof(int)));
  CHECK(cudaMemset(out, 0, 64 * sizeof(int)));
  int n = 64, value = 7;
  void* first[] = {&scratch, &n, &value};
  void* second[] = {&out, &scratch, &n};
  cudaGraphNode_t write = kernel_node(graph, {allocate}, reinterpret_cast<void*>(fill), first);
  cudaGraphNode_t use = kernel_node(graph, {write}, reinterpret_cast<void*>(add), second);
  CHECK(cudaGraphAddMemFreeNode(&release, graph, &use, 1, scratch));
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, 0));
  CHECK(cudaGraphLaunch(executable, 0));
  CHECK(cudaDeviceSynchronize());
  cudaMemAllocNodeParams back = {};
  CHECK(cudaGraphMemAllocNodeGetParams(allocate, &back));
  void* freed = nullptr;
  CHECK(cudaGraphMemFreeNodeGetParams(release, &freed));
  std::uint64_t current = 1, high = 0;
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &current));
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &high));
  std::printf("%d %d %d %d %d\n", read(out), back.dptr == scratch, freed == scratch, int(current), int(high));
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &high));
  std::printf("%d left\n", int(high));

  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  int* kept = nullptr;
  CHECK(cudaMallocAsync(&kept, 64 * sizeof(int), stream));
  fill<<<1, 64, 0, stream>>>(kept, 64, 9);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  std::printf("%d\n", read(kept));
  SHOW(cudaGraphLaunch(executable, stream)); // still allocated
  CHECK(cudaFreeAsync(kept, stream));
  SHOW(cudaFreeAsync(kept, stream));
  SHOW(cudaGraphLaunch(executable, stream));
  CHECK(cudaFree(kept));
  cudaGraphExec_t frees = nullptr;
  CHECK(cudaGraphInstantiate(&frees, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(frees, stream));
  CHECK(cudaStreamSynchronize(stream));
  std::printf("%d\n", read(kept));
}

// Two graphs on two streams, ordered by event nodes alone.
static void graph_events() {
  int *a = nullptr, *b = nullptr;
  CHECK(cudaMalloc(&a, 64 * sizeof(int)));
  CHECK(cudaMalloc(&b, 64 * sizeof(int)));
  CHECK(cudaMemset(b, 0, 64 * sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  cudaEvent_t event = nullptr, other = nullptr;
  CHECK(cudaEventCreate(&event));
  CHECK(cudaEventCreate(&other));
  cudaGraph_t writes = nullptr, reads = nullptr;
  CHECK(cudaGraphCreate(&writes, 0));
  CHECK(cudaGraphCreate(&reads, 0));
  int n = 64, value = 5;
  void* first[] = {&a, &n, &value};
  void* second[] = {&b, &a, &n};
  cudaGraphNode_t fills = kernel_node(writes, {}, reinterpret_cast<void*>(fill), first), records = nullptr, waits = nullptr;
  CHECK(cudaGraphAddEventRecordNode(&records, writes, &fills, 1, other));
  CHECK(cudaGraphEventRecordNodeSetEvent(records, event));
  CHECK(cudaGraphAddEventWaitNode(&waits, reads, nullptr, 0, event));
  kernel_node(reads, {waits}, reinterpret_cast<void*>(add), second);
  cudaEvent_t found = nullptr;
  CHECK(cudaGraphEventWaitNodeGetEvent(waits, &found));
  std::printf("%d\n", found == event);
  SHOW(cudaGraphEventWaitNodeGetEvent(records, &found));
  cudaStream_t one = nullptr, two = nullptr;
  CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  cudaGraphExec_t writer = nullptr, reader = nullptr;
  CHECK(cudaGraphInstantiate(&writer, writes, 0));
  CHECK(cudaGraphInstantiate(&reader, reads, 0));
  CHECK(cudaGraphLaunch(writer, one));
  CHECK(cudaGraphLaunch(reader, two));
  CHECK(cudaStreamSynchronize(two));
  std::printf("%d %s\n", read(b), cudaGetErrorName(cudaEventQuery(event)));
  cudaGraph_t captured = nullptr;
  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeRelaxed));
  CHECK(cudaEventRecordWithFlags(other, one, cudaEventRecordExternal));
  CHECK(cudaStreamWaitEvent(one, event, cudaEventWaitExternal));
  CHECK(cudaStreamEndCapture(one, &captured));
  size_t count = 4;
  cudaGraphNode_t nodes[4];
  cudaGraphNodeType types[2];
  CHECK(cudaGraphGetNodes(captured, nodes, &count));
  for (size_t i = 0; i < count; ++i) CHECK(cudaGraphNodeGetType(nodes[i], &types[i]));
  std::printf("%zu %d %d\n", count, types[0] == cudaGraphNodeTypeEventRecord, types[1] == cudaGraphNodeTypeWaitEvent);
}

static void graph_symbols() {
  cudaGraph_t graph = nullptr, child = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphCreate(&child, 0));
  int in[2] = {70, 80}, out[2] = {0, 0}, more[2] = {71, 81};
  cudaGraphNode_t to = nullptr, from = nullptr, inner = nullptr;
  CHECK(cudaGraphAddMemcpyNodeToSymbol(&to, graph, nullptr, 0, numbers, in, sizeof in, 4, cudaMemcpyHostToDevice));
  CHECK(cudaGraphAddMemcpyNodeFromSymbol(&from, graph, &to, 1, out, numbers, sizeof out, 4, cudaMemcpyDeviceToHost));
  SHOW(cudaGraphMemcpyNodeSetParamsToSymbol(to, numbers, in, sizeof in, 12, cudaMemcpyHostToDevice)); // beyond its end
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, 0));
  CHECK(cudaDeviceSynchronize());
  std::printf("%d %d\n", out[0], out[1]);
  CHECK(cudaGraphExecMemcpyNodeSetParamsToSymbol(executable, to, numbers, more, sizeof more, 4, cudaMemcpyHostToDevice));
  CHECK(cudaGraphLaunch(executable, 0));
  CHECK(cudaDeviceSynchronize());
  std::printf("%d %d\n", out[0], out[1]);
  // The child graph of an executable is exchanged.
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 64 * sizeof(int)));
  int n = 64, one = 1, two = 2;
  void* first[] = {&data, &n, &one};
  void* second[] = {&data, &n, &two};
  kernel_node(child, {}, reinterpret_cast<void*>(fill), first);
  CHECK(cudaGraphAddChildGraphNode(&inner, graph, &from, 1, child));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  cudaGraph_t replacement = nullptr, wrong = nullptr;
  CHECK(cudaGraphCreate(&replacement, 0));
  CHECK(cudaGraphCreate(&wrong, 0));
  cudaGraphNode_t kernel = kernel_node(replacement, {}, reinterpret_cast<void*>(fill), second);
  SHOW(cudaGraphExecChildGraphNodeSetParams(executable, inner, wrong));
  CHECK(cudaGraphExecChildGraphNodeSetParams(executable, inner, replacement));
  CHECK(cudaGraphLaunch(executable, 0));
  CHECK(cudaDeviceSynchronize());
  std::printf("%d\n", read(data + 63));
  cudaKernelNodeAttrValue value = {};
  value.cooperative = 1;
  CHECK(cudaGraphKernelNodeSetAttribute(kernel, cudaLaunchAttributeCooperative, &value));
  value = {};
  CHECK(cudaGraphKernelNodeGetAttribute(kernel, cudaLaunchAttributeCooperative, &value));
  std::printf("cooperative %d\n", value.cooperative);
}

static void user_objects() {
  static int destroyed = 0;
  cudaHostFn_t destroy = [](void* value) { destroyed += *static_cast<int*>(value); };
  int value = 10;
  cudaUserObject_t object = nullptr;
  SHOW(cudaUserObjectCreate(&object, &value, destroy, 1, 0)); // the flag is missing
  CHECK(cudaUserObjectCreate(&object, &value, destroy, 1, cudaUserObjectNoDestructorSync));
  cudaGraph_t graph = nullptr, clone = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  CHECK(cudaGraphClone(&clone, graph));
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(clone));
  std::printf("%d\n", destroyed);
  CHECK(cudaGraphExecDestroy(executable));
  std::printf("%d\n", destroyed);
  SHOW(cudaUserObjectRelease(object, 1));
}

// As code from NVRTC comes: text.
static const char* text =
    ".version 7.8\n.target sm_80\n.address_size 64\n"
    ".visible .global .align 4 .u32 scale = 3;\n"
    ".visible .entry times(.param .u64 times_p) {\n"
    "  .reg .u64 %rd<3>; .reg .u32 %r<4>;\n"
    "  ld.param.u64 %rd1, [times_p]; cvta.to.global.u64 %rd2, %rd1;\n"
    "  ld.global.u32 %r1, [scale]; ld.global.u32 %r2, [%rd2]; mul.lo.u32 %r3, %r1, %r2;\n"
    "  st.global.u32 [%rd2], %r3; ret;\n}\n";

static void library() {
  cudaLibrary_t library = nullptr;
  CHECK(cudaLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  CHECK(cudaLibraryGetKernelCount(&count, library));
  cudaKernel_t kernel = nullptr, listed = nullptr;
  CHECK(cudaLibraryEnumerateKernels(&listed, 1, library));
  CHECK(cudaLibraryGetKernel(&kernel, library, "times"));
  const char* name = nullptr;
  CHECK(cudaFuncGetName(&name, reinterpret_cast<const void*>(kernel)));
  std::printf("%u %d %s\n", count, kernel == listed, name);
  SHOW(cudaLibraryGetKernel(&listed, library, "nothing"));
  int* data = nullptr;
  CHECK(cudaMalloc(&data, sizeof(int)));
  int value = 5;
  CHECK(cudaMemcpy(data, &value, sizeof value, cudaMemcpyHostToDevice));
  void* arguments[] = {&data};
  CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments, 0, 0));
  std::printf("%d\n", read(data));
  void* scale = nullptr;
  size_t bytes = 0;
  CHECK(cudaLibraryGetGlobal(&scale, &bytes, library, "scale"));
  SHOW(cudaLibraryGetManaged(&scale, &bytes, library, "scale"));
  value = 100;
  CHECK(cudaMemcpy(scale, &value, bytes, cudaMemcpyHostToDevice));
  CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments, 0, 0));
  std::printf("%zu %d\n", bytes, read(data));
  CHECK(cudaLibraryUnload(library));
  SHOW(cudaLibraryUnload(library));
  SHOW(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments, 0, 0));
  SHOW(cudaLibraryLoadData(&library, "this is not PTX", nullptr, nullptr, 0, nullptr, nullptr, 0));
  SHOW(cudaLibraryLoadData(&library, "\x01\x02\x03\x04", nullptr, nullptr, 0, nullptr, nullptr, 0));
  SHOW(cudaLibraryLoadFromFile(&library, "/nowhere/at/all", nullptr, nullptr, 0, nullptr, nullptr, 0));
}

static void managed() {
  char* data = nullptr;
  CHECK(cudaMallocManaged(&data, 8192));
  const cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
  CHECK(cudaMemAdvise(data, 4096, cudaMemAdviseSetReadMostly, device));
  CHECK(cudaMemAdvise(data, 8192, cudaMemAdviseSetPreferredLocation, device));
  CHECK(cudaMemAdvise(data, 8192, cudaMemAdviseSetAccessedBy, host));
  auto ask = [&](cudaMemRangeAttribute attribute, char* from, size_t bytes) {
    int value = -9;
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, attribute, from, bytes));
    return value;
  };
  std::printf("%d %d %d\n", ask(cudaMemRangeAttributeReadMostly, data, 4096),
              ask(cudaMemRangeAttributeReadMostly, data, 8192), ask(cudaMemRangeAttributeReadMostly, data + 4096, 4096));
  std::printf("%d %d\n", ask(cudaMemRangeAttributePreferredLocation, data, 8192),
              ask(cudaMemRangeAttributeLastPrefetchLocation, data, 8192));
  int by[3] = {-9, -9, -9}, mostly = -9;
  CHECK(cudaMemRangeGetAttribute(by, sizeof by, cudaMemRangeAttributeAccessedBy, data, 8192));
  std::printf("%d %d %d\n", by[0], by[1], by[2]);
  void *pointers[] = {data, data + 4096}, *values[] = {by, &mostly};
  size_t sizes[] = {4096, 4096}, value_sizes[] = {sizeof by, sizeof mostly}, indices[] = {0, 1};
  cudaMemLocation locations[] = {device, host};
  CHECK(cudaMemPrefetchBatchAsync(pointers, sizes, 2, locations, indices, 2, 0, 0));
  std::printf("%d %d\n", ask(cudaMemRangeAttributeLastPrefetchLocation, data, 4096),
              ask(cudaMemRangeAttributeLastPrefetchLocation, data + 4096, 4096));
  cudaMemRangeAttribute attributes[] = {cudaMemRangeAttributeAccessedBy, cudaMemRangeAttributeReadMostly};
  CHECK(cudaMemRangeGetAttributes(values, value_sizes, attributes, 2, data, 4096));
  std::printf("%d %d\n", by[0], mostly);
  CHECK(cudaMemDiscardBatchAsync(pointers, sizes, 2, 0, 0));
  int wide = 0;
  SHOW(cudaMemRangeGetAttribute(&wide, 2, cudaMemRangeAttributeReadMostly, data, 8192));
  SHOW(cudaMemRangeGetAttribute(&wide, 4, cudaMemRangeAttributeReadMostly, data, 8193));
}

static void batches() {
  // A box of 2 x 2 x 3 bytes out of one of 4 x 4 x 3.
  std::vector<char> in(48), out(12);
  for (int i = 0; i < 48; ++i) in[i] = char('0' + i);
  char* box = nullptr;
  CHECK(cudaMalloc(&box, 12));
  cudaMemcpy3DBatchOp ops[2] = {};
  ops[0].src.type = ops[0].dst.type = ops[1].src.type = ops[1].dst.type = cudaMemcpyOperandTypePointer;
  ops[0].src.op.ptr.ptr = in.data() + 5;
  ops[0].src.op.ptr.rowLength = 4;
  ops[0].src.op.ptr.layerHeight = 4;
  ops[0].dst.op.ptr.ptr = box;
  ops[0].extent = make_cudaExtent(2, 2, 3);
  CHECK(cudaMemcpy3DBatchAsync(1, ops, 0, 0));
  ops[1].src.op.ptr.ptr = box;
  ops[1].dst.op.ptr.ptr = out.data();
  ops[1].extent = make_cudaExtent(12, 1, 1);
  CHECK(cudaMemcpy3DBatchAsync(1, ops + 1, 0, 0));
  CHECK(cudaDeviceSynchronize());
  std::printf("%.12s\n", out.data());
  ops[0].extent.depth = 0;
  SHOW(cudaMemcpy3DBatchAsync(1, ops, 0, 0));
  cudaMemPool_t pool = nullptr, same = nullptr;
  cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
  CHECK(cudaMemGetDefaultMemPool(&pool, &device, cudaMemAllocationTypePinned));
  CHECK(cudaMemGetMemPool(&same, &device, cudaMemAllocationTypePinned));
  std::printf("%d %s\n", pool == same, cudaGetErrorName(cudaMemSetMemPool(&device, cudaMemAllocationTypePinned, pool)));
  SHOW(cudaMemGetMemPool(&same, &host, cudaMemAllocationTypePinned));
  char logs[16];
  size_t size = sizeof logs;
  CHECK(cudaLogsDumpToMemory(nullptr, logs, &size, 0));
  std::printf("%zu bytes of logs\n", size);
}

// Host memory that the program allocated itself: copied from and to, read and written by kernels through its device
// address and through its own, touched by a host callback; and what is no such memory.
static void registered() {
  std::vector<int> staging(300), back(300);
  int* inside = staging.data() + 20;  // not at a page's beginning
  const size_t bytes = 256 * sizeof(int);
  SHOW(cudaHostUnregister(inside));
  CHECK(cudaHostRegister(inside, bytes, cudaHostRegisterMapped));
  SHOW(cudaHostRegister(inside + 8, 4, 0));
  SHOW(cudaHostRegister(inside - 8, bytes, 0));
  cudaPointerAttributes attributes = {};
  CHECK(cudaPointerGetAttributes(&attributes, inside + 3));
  int* mapped = nullptr;
  CHECK(cudaHostGetDevicePointer(&mapped, inside, 0));
  unsigned flags = 0;
  CHECK(cudaHostGetFlags(&flags, inside));
  std::printf("%d %d %d %d\n", attributes.type == cudaMemoryTypeHost, attributes.hostPointer == inside + 3,
              attributes.devicePointer == mapped + 3, int(flags));
  CHECK(cudaPointerGetAttributes(&attributes, mapped + 3));
  std::printf("%d %d\n", attributes.type == cudaMemoryTypeHost, attributes.hostPointer == inside + 3);

  int* device = nullptr;
  CHECK(cudaMalloc(&device, bytes));
  // A page-locked source is read when the copy runs, which here is after the host's last word.
  inside[0] = 1;
  CHECK(cudaMemcpyAsync(device, inside, bytes, cudaMemcpyHostToDevice, 0));
  inside[0] = 2;
  CHECK(cudaDeviceSynchronize());
  std::printf("%d\n", read(device));
  fill<<<1, 256>>>(mapped, 256, 5);
  CHECK(cudaDeviceSynchronize());
  std::printf("%d %d %d\n", inside[0], inside[255], staging[19] + staging[276]);
  inside[1] = 30;
  add<<<1, 256>>>(inside, mapped, 2);
  CHECK(cudaLaunchHostFunc(0, [](void* p) { ++static_cast<int*>(p)[1]; }, inside));
  add<<<1, 256>>>(mapped, inside, 2);
  CHECK(cudaMemcpyAsync(back.data(), inside, bytes, cudaMemcpyDefault, 0));
  CHECK(cudaMemsetAsync(inside + 2, 0, 4, 0));
  CHECK(cudaDeviceSynchronize());
  std::printf("%d %d %d %d\n", inside[0], inside[1], back[1], inside[2]);
  fill<<<1, 1>>>(device, 1, 77);
  CHECK(cudaMemcpyAsync(inside + 4, device, 4, cudaMemcpyDeviceToHost, 0));
  CHECK(cudaHostUnregister(inside));  // waits
  std::printf("%d\n", inside[4]);
  CHECK(cudaPointerGetAttributes(&attributes, inside));
  std::printf("%d\n", attributes.type == cudaMemoryTypeUnregistered);
  SHOW(cudaHostGetDevicePointer(&mapped, inside, 0));
  SHOW(cudaHostRegister(device, 4, 0));
  SHOW(cudaHostRegister(inside, 0, 0));
  SHOW(cudaHostRegister(inside, 4, cudaHostRegisterReadOnly));

  // A page that the program gives back while it is registered is no crash.
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(cudaHostRegister(page, 4096, 0));
  munmap(page, 4096);
  fill<<<1, 1>>>(device, 1, 78);
  std::printf("%d\n", read(device));
}

__global__ void whole_multiprocessor() {
  extern __shared__ int storage[];
  storage[threadIdx.x] = 0;
}

static void clusters() {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {4, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(64), config.blockDim = dim3(1024), config.attrs = &attribute, config.numAttrs = 1;
  int size = 0, active = 0;
  CHECK(cudaOccupancyMaxPotentialClusterSize(&size, fill, &config));
  CHECK(cudaOccupancyMaxActiveClusters(&active, fill, &config));
  std::printf("%d %d\n", size, active);
  // One block on each multiprocessor: four of 16 make a cluster.
  CHECK(cudaFuncSetAttribute(whole_multiprocessor, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  config.dynamicSmemBytes = 200 << 10;
  CHECK(cudaOccupancyMaxActiveClusters(&active, whole_multiprocessor, &config));
  std::printf("%d\n", active);
  attribute.val.clusterDim = {16, 1, 1};
  SHOW(cudaOccupancyMaxActiveClusters(&active, whole_multiprocessor, &config));
  CHECK(cudaFuncSetAttribute(whole_multiprocessor, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  CHECK(cudaOccupancyMaxActiveClusters(&active, whole_multiprocessor, &config));
  CHECK(cudaOccupancyMaxPotentialClusterSize(&size, whole_multiprocessor, &config));
  std::printf("%d %d\n", size, active);
}

// What an atomic operation of the device is to the host, and to other devices.
static void atomics() {
  const cudaAtomicOperation asked[2] = {cudaAtomicOperationIntegerAdd, cudaAtomicOperationCAS};
  unsigned answers[2] = {9, 9};
  SHOW(cudaDeviceGetHostAtomicCapabilities(answers, asked, 2, 0));
  std::printf("%u %u\n", answers[0], answers[1]);
  SHOW(cudaDeviceGetHostAtomicCapabilities(answers, nullptr, 2, 0));
  SHOW(cudaDeviceGetHostAtomicCapabilities(answers, asked, 2, 1));
  SHOW(cudaDeviceGetP2PAtomicCapabilities(answers, asked, 2, 0, 1));
}

static __device__ int ended;
static __global__ void fill_ended(int value) { ended = value; }

// Host functions that wait until another host thread has used the device, and others that it waits for in turn.
static void callbacks() {
  static std::atomic<int> asked, done;
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 1024));
  std::thread other([] {
    for (int round = 1; round <= 2; ++round) {
      while (asked < round) std::this_thread::yield();
      cudaStream_t own = nullptr;
      CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
      int *memory = nullptr, seen = 0;
      CHECK(cudaMalloc(&memory, 1024));
      fill<<<1, 256, 0, own>>>(memory, 256, 40 + round);
      CHECK(cudaMemcpyAsync(&seen, memory + 255, 4, cudaMemcpyDeviceToHost, own));
      CHECK(cudaStreamSynchronize(own));
      std::printf("%d\n", seen);
      done = round;
    }
    while (asked < 3) std::this_thread::yield();
    int *memory = nullptr, seen = 0;
    CHECK(cudaMalloc(&memory, 1024));
    done = 3; // from now on the host function goes on, slowly, and all that follows waits for it
    CHECK(cudaFree(memory));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyFromSymbol(&seen, ended, sizeof seen));
    std::printf("%d\n", seen);
  });
  for (int round = 1; round <= 2; ++round) {
    fill<<<1, 256, 0, stream>>>(data, 256, round);
    CHECK(cudaLaunchHostFunc(stream, [](void* n) {
      asked = *static_cast<int*>(n);
      while (done < asked) std::this_thread::yield();
    }, &round));
    fill<<<1, 256, 0, stream>>>(data, 256, 10 * round);
    CHECK(cudaStreamSynchronize(stream));
    std::printf("%d\n", read(data));
  }
  CHECK(cudaLaunchHostFunc(stream, [](void*) {
    asked = 3;
    while (done < 3) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }, nullptr));
  fill_ended<<<1, 1, 0, stream>>>(30);
  CHECK(cudaStreamSynchronize(stream));
  other.join();
}

__global__ void row_of(cudaTextureObject_t texture, float y, int* out) {
  out[threadIdx.x] = int(tex2D<float>(texture, threadIdx.x + 0.5f, y));
}
__global__ void mark(cudaSurfaceObject_t surface, int x, int y) { surf2Dwrite(7.0f, surface, 4 * x, y); }

static cudaTextureObject_t texture_over(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc sampling = {};
  cudaTextureObject_t texture = 0;
  CHECK(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
  return texture;
}

static void print_row(const char* what, cudaArray_t array, int row) {
  float values[4] = {};
  CHECK(cudaMemcpy2DFromArray(values, 16, array, 0, row, 16, 1, cudaMemcpyDeviceToHost));
  std::printf("%s %g %g %g %g\n", what, values[0], values[1], values[2], values[3]);
}

// Arrays: what can be made, and every copy to, from and between them.
static void arrays() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>(), three = cudaCreateChannelDesc(8, 8, 8, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t a = nullptr, b = nullptr;
  SHOW(cudaMallocArray(&a, &three, 4, 4));
  SHOW(cudaMallocArray(&a, &format, 0, 4));
  SHOW(cudaMallocArray(&a, &format, 131073, 1));
  SHOW(cudaMalloc3DArray(&a, &format, make_cudaExtent(4, 4, 5), cudaArrayCubemap));
  SHOW(cudaMalloc3DArray(&a, &format, make_cudaExtent(4, 4, 0), cudaArrayLayered));
  SHOW(cudaMallocArray(&a, &format, 4, 4, cudaArraySparse));
  CHECK(cudaMallocArray(&a, &format, 4, 3, cudaArraySurfaceLoadStore));
  CHECK(cudaMallocArray(&b, &format, 4, 3));
  cudaChannelFormatDesc got = {};
  cudaExtent extent = {};
  unsigned flags = 0;
  CHECK(cudaArrayGetInfo(&got, &extent, &flags, a));
  std::printf("%d %d %zu %zu %zu %u\n", got.x, int(got.f), extent.width, extent.height, extent.depth, flags);
  float values[12];
  for (int n = 0; n < 12; ++n) values[n] = float(n);
  SHOW(cudaMemcpy2DToArray(a, 0, 1, values, 16, 16, 3, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy2DToArray(a, 0, 0, values, 16, 16, 3, cudaMemcpyHostToDevice));
  print_row("rows", a, 1);
  CHECK(cudaMemcpyToArray(b, 8, 0, values, 24, cudaMemcpyHostToDevice)); // runs on into the next row
  print_row("count", b, 1);
  SHOW(cudaMemcpyToArray(b, 8, 2, values, 12, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyArrayToArray(b, 12, 0, a, 4, 0, 20));
  print_row("between", b, 1);
  CHECK(cudaMemcpy2DArrayToArray(b, 4, 2, a, 0, 2, 12, 1));
  cudaMemcpy3DParms p = {};
  p.srcArray = a;
  p.srcPos = make_cudaPos(1, 1, 0);
  p.dstArray = b;
  p.dstPos = make_cudaPos(0, 0, 0);
  p.extent = make_cudaExtent(3, 2, 1);
  p.kind = cudaMemcpyDeviceToDevice;
  CHECK(cudaMemcpy3D(&p));
  print_row("volume", b, 0);
  p.extent.width = 4;
  SHOW(cudaMemcpy3D(&p));
  p.extent.width = 3;
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  p.dstPos.y = 1;
  CHECK(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &p));
  cudaMemcpy3DParms q = {};
  CHECK(cudaGraphMemcpyNodeGetParams(node, &q));
  std::printf("%d %zu %zu %zu\n", q.srcArray == a && q.dstArray == b, q.srcPos.x, q.dstPos.y, q.extent.width);
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, 0));
  CHECK(cudaDeviceSynchronize());
  print_row("node", b, 2);
  cudaMipmappedArray_t levels = nullptr;
  cudaArray_t level = nullptr;
  CHECK(cudaMallocMipmappedArray(&levels, &format, make_cudaExtent(8, 4, 0), 9));
  CHECK(cudaGetMipmappedArrayLevel(&level, levels, 3));
  CHECK(cudaArrayGetInfo(&got, &extent, &flags, level));
  std::printf("%zu %zu\n", extent.width, extent.height);
  SHOW(cudaGetMipmappedArrayLevel(&level, levels, 4));
  SHOW(cudaFreeArray(level));
  SHOW(cudaFreeMipmappedArray(levels));
  SHOW(cudaFreeArray(a));
  SHOW(cudaFreeArray(a));
  SHOW(cudaFreeArray(nullptr));
}

// Objects: what can be made, and what kernels read through them.
static void textures() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t plain = nullptr, stored = nullptr;
  CHECK(cudaMallocArray(&plain, &format, 4, 3));
  CHECK(cudaMallocArray(&stored, &format, 4, 3, cudaArraySurfaceLoadStore));
  float values[12];
  for (int n = 0; n < 12; ++n) values[n] = float(n);
  for (cudaArray_t array : {plain, stored}) CHECK(cudaMemcpy2DToArray(array, 0, 0, values, 16, 16, 3, cudaMemcpyHostToDevice));
  int* out = nullptr;
  CHECK(cudaMalloc(&out, 4096));
  cudaResourceDesc resource = {};
  cudaTextureDesc sampling = {};
  cudaTextureObject_t texture = 0;
  cudaSurfaceObject_t surface = 0;
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = stored;
  CHECK(cudaCreateSurfaceObject(&surface, &resource));
  mark<<<1, 1>>>(surface, 2, 1);
  texture = texture_over(stored);
  row_of<<<1, 4>>>(texture, 1.5f, out);
  CHECK(cudaDestroySurfaceObject(surface));
  CHECK(cudaDestroyTextureObject(texture)); // the launches that may be under way go on with both
  CHECK(cudaDeviceSynchronize());
  int row[4];
  CHECK(cudaMemcpy(row, out, sizeof row, cudaMemcpyDeviceToHost));
  std::printf("%d %d %d %d\n", row[0], row[1], row[2], row[3]);
  SHOW(cudaDestroyTextureObject(texture));
  resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.desc = format;
  resource.res.linear.sizeInBytes = 4096;
  resource.res.linear.devPtr = out + 1;
  SHOW(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
  resource.res.linear.devPtr = out;
  resource.res.linear.desc = cudaCreateChannelDesc<int>();
  sampling.filterMode = cudaFilterModeLinear;
  SHOW(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
  sampling = {};
  resource = {};
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D.devPtr = out;
  resource.res.pitch2D.desc = format;
  resource.res.pitch2D.width = 8;
  resource.res.pitch2D.height = 4;
  resource.res.pitch2D.pitchInBytes = 36;
  SHOW(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
  resource.res.pitch2D.pitchInBytes = 32;
  SHOW(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
  cudaTextureDesc read = {};
  read.filterMode = cudaFilterModeLinear;
  CHECK(cudaGetTextureObjectTextureDesc(&read, texture));
  cudaResourceDesc of = {};
  CHECK(cudaGetTextureObjectResourceDesc(&of, texture));
  std::printf("%d %d\n", int(read.filterMode), int(of.resType));
  texture = texture_over(plain);
  CHECK(cudaFreeArray(plain));
  row_of<<<1, 4>>>(texture, 1.5f, out);
  SHOW(cudaDeviceSynchronize());
}

static void destroyed() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  CHECK(cudaMallocArray(&array, &format, 4, 3));
  int* out = nullptr;
  CHECK(cudaMalloc(&out, 4096));
  const cudaTextureObject_t texture = texture_over(array);
  CHECK(cudaDestroyTextureObject(texture));
  row_of<<<1, 4>>>(texture, 1.5f, out);
  SHOW(cudaDeviceSynchronize());
}

static void outside() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  CHECK(cudaMallocArray(&array, &format, 4, 3, cudaArraySurfaceLoadStore));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface = 0;
  CHECK(cudaCreateSurfaceObject(&surface, &resource));
  mark<<<1, 1>>>(surface, 4, 0);
  SHOW(cudaDeviceSynchronize());
}

// Entry points that the embedded device does not have, each called twice: words are their names.
static int refused(int count, char** names) {
  int right = 0;
  for (int n = 0; n < 2 * count; ++n) {
    auto call = reinterpret_cast<cudaError_t (*)()>(dlsym(RTLD_DEFAULT, names[n / 2]));
    if (!call)
      std::printf("no %s\n", names[n / 2]);
    else if (const cudaError_t error = call(); error != cudaErrorNotSupported)
      std::printf("%s: %s\n", names[n / 2], cudaGetErrorName(error));
    else
      right += cudaGetLastError() == cudaErrorNotSupported;
  }
  std::printf("%d refused\n", right);
  return 0;
}

int main(int count, char** words) {
  if (count > 1 && std::strcmp(words[1], "refused") == 0) return refused(count - 2, words + 2);
  struct { const char* name; void (*run)(); } const programs[] = {
      {"graph_memory", graph_memory}, {"graph_events", graph_events}, {"graph_symbols", graph_symbols},
      {"user_objects", user_objects}, {"library", library}, {"managed", managed}, {"batches", batches},
      {"registered", registered}, {"atomics", atomics}, {"clusters", clusters}, {"callbacks", callbacks},
      {"arrays", arrays}, {"textures", textures}, {"destroyed", destroyed}, {"outside", outside}};
  for (const auto& program : programs) {
    if (count > 1 && std::strcmp(words[1], program.name) == 0) {
      program.run();
      return 0;
    }
  }
  return 2;
}
