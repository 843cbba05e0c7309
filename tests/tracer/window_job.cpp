// A job with a window, over embedded_cuda.cpp: window_job RANGE FAULT
//
// A sub-allocator's block is handed from one stream to another too early: `scale`, on one stream, still reads it while
// a copy on another stream writes it (with FAULT 1; with 0 the other stream waits). `blur`, which the caller leaves
// unrecorded, reads what `scale` wrote and adds to it: opaque. `scale` finds its output through a pointer in memory,
// which a parameter aligned to 64 names. RANGE 1: all this is between cuProfilerStart and cuProfilerStop, behind
// kernels and copies that prepare memory; 2: the job ends before cuProfilerStop; 3: it is killed there; 4: as 1, and a
// kernel writes page-locked memory; 5: as 1, and both kernels are nodes of a graph, with another branch beside them and
// a set behind both; 6: likewise, and the graph was made before the range, its kernels all opaque; 7: as 5, and it has
// a host function; 8: as 5, and the block is uploaded by it first, and once more by a second launch, when the host has
// refilled what is uploaded; 9: as 6, and it is launched before and behind the range, too, on the other stream; 10:
// without a range, and it is launched 60 times; 11: as 9, and it has a host function; 12: as 1, and the device's memory
// is taken before the end, 256 KiB at a time, until there is none. Prints a sum of the results (12: and of how much was
// free, and taken) and "done".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "tests/tracer/driver_check.h"

namespace {

constexpr unsigned count = 4096; // words: several pages

constexpr const char* text = R"(.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 factor = 3;
.visible .entry fill(.param .u64 to, .param .u32 value)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [value];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  add.u32 %r6, %r5, %r1;
  mul.wide.u32 %rd2, %r5, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r6;
  ret;
}
.visible .entry scale(.param .u64 from, .param .align 64 .b8 table[64])
{
  .reg .b32 %r<10>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [table];
  ld.global.u64 %rd3, [%rd2+8];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  mul.wide.u32 %rd4, %r5, 4;
  add.u64 %rd5, %rd1, %rd4;
  ld.global.u32 %r6, [%rd5];
  ld.global.u32 %r7, [factor];
  mul.lo.u32 %r8, %r6, %r7;
  add.u64 %rd6, %rd3, %rd4;
  st.global.u32 [%rd6], %r8;
  ret;
}
.visible .entry blur(.param .u64 to)
{
  .reg .b32 %r<10>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [to];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  mul.wide.u32 %rd4, %r5, 4;
  add.u64 %rd5, %rd1, %rd4;
  ld.global.u32 %r6, [%rd5];
  add.u32 %r6, %r6, 1;
  st.global.u32 [%rd5+65536], %r6;
  ret;
}
)";

} // namespace

std::atomic<int> calls{0}; // of the host function

int main(int argc, char** argv) {
  const int range = argc > 1 ? std::atoi(argv[1]) : 0;
  const bool fault = argc > 2 && std::atoi(argv[2]);
  CHECK(cuInit(0));
  CUmodule module = nullptr;
  CUfunction fill = nullptr, scale = nullptr, blur = nullptr;
  CHECK(cuModuleLoadData(&module, text));
  CHECK(cuModuleGetFunction(&fill, module, "fill"));
  CHECK(cuModuleGetFunction(&scale, module, "scale"));
  CHECK(cuModuleGetFunction(&blur, module, "blur"));
  CUstream work = nullptr, side = nullptr;
  CHECK(cuStreamCreateWithPriority(&work, CU_STREAM_NON_BLOCKING, 0));
  CHECK(cuStreamCreateWithPriority(&side, CU_STREAM_NON_BLOCKING, 0));
  CUdeviceptr pool = 0, results = 0, unused = 0;
  struct alignas(64) {
    CUdeviceptr at = 0;
  } table;
  CHECK(cuMemAlloc_v2(&unused, 1 << 20));
  CHECK(cuMemAlloc_v2(&pool, 1 << 20));
  CHECK(cuMemAlloc_v2(&table.at, 16));
  CHECK(cuMemAlloc_v2(&results, 1 << 18));
  const CUdeviceptr block = pool + 8192;
  auto launch = [&](CUfunction f, CUstream stream, std::vector<void*> parameters) {
    CHECK(cuLaunchKernel(f, count / 128, 1, 1, 128, 1, 1, 0, stream, parameters.data(), nullptr));
  };
  unsigned* staged = nullptr;
  if (range == 8) {
    void* locked = nullptr;
    CHECK(cuMemHostAlloc(&locked, 4 * count, 0));
    staged = static_cast<unsigned*>(locked);
    std::iota(staged, staged + count, 200);
  }
  // scale, blur behind it; beside them, fill; behind both, a set.
  auto graph_of = [&](CUdeviceptr block_at, CUdeviceptr scaled) {
    CUgraph made = nullptr;
    CUgraphNode nodes[4], function = nullptr, uploads = nullptr;
    CUgraphExec executable = nullptr;
    unsigned value = 3;
    CUdeviceptr elsewhere = unused;
    CHECK(cuGraphCreate(&made, 0));
    auto kernel = [&](CUfunction f, std::vector<void*> parameters, CUgraphNode* node, CUgraphNode* after) {
      const CUDA_KERNEL_NODE_PARAMS params{f, count / 128,       1,       1,       128,    1, 1,
                                           0, parameters.data(), nullptr, nullptr, nullptr};
      CHECK(cuGraphAddKernelNode_v2(node, made, after, after != nullptr, &params));
    };
    CUDA_MEMCPY3D upload{};
    upload.srcMemoryType = CU_MEMORYTYPE_HOST;
    upload.srcHost = staged;
    upload.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    upload.dstDevice = block_at;
    upload.WidthInBytes = 4 * count;
    upload.Height = upload.Depth = 1;
    if (staged) CHECK(cuGraphAddMemcpyNode(&uploads, made, nullptr, 0, &upload, nullptr));
    kernel(scale, {&block_at, &table}, &nodes[0], staged ? &uploads : nullptr);
    kernel(fill, {&elsewhere, &value}, &nodes[1], nullptr);
    kernel(blur, {&scaled}, &nodes[2], &nodes[0]);
    const CUDA_MEMSET_NODE_PARAMS set{unused + 8 * count, 0, 5, 4, 256, 1};
    CHECK(cuGraphAddMemsetNode(&nodes[3], made, &nodes[1], 2, &set, nullptr));
    const CUDA_HOST_NODE_PARAMS counts{[](void*) { ++calls; }, nullptr};
    if (range == 7 || range == 11) CHECK(cuGraphAddHostNode(&function, made, &nodes[3], 1, &counts));
    CHECK(cuGraphInstantiateWithFlags(&executable, made, 0));
    CHECK(cuGraphDestroy(made));
    return executable;
  };
  CUdeviceptr pointers[2] = {0, results + 4096};
  unsigned first = 100;
  CUdeviceptr at = block;
  launch(fill, work, {&at, &first});
  CHECK(cuMemcpyHtoDAsync_v2(table.at, pointers, sizeof pointers, work));
  CHECK(cuMemsetD32Async(results, 7, 65536, work));
  CHECK(cuStreamSynchronize(work));
  void* early = nullptr;
  if (range == 4) CHECK(cuMemHostAlloc(&early, 4 * count, 0));
  CUgraphExec graph = range == 6 || range == 9 || range == 11 ? graph_of(at, results + 4096) : nullptr;
  auto launch_beside = [&] {
    CHECK(cuStreamSynchronize(side));
    CHECK(cuGraphLaunch(graph, side));
  };
  if (range == 9 || range == 11) {
    launch_beside();
    CHECK(cuStreamSynchronize(side));
  }
  // The same map twice, before a range and within: a run elsewhere is told once what its bytes mean.
  auto encode = [&] {
    CUtensorMap map;
    const cuuint64_t size[2] = {32, 64}, stride = 128;
    const cuuint32_t box[2] = {8, 8}, steps[2] = {1, 1};
    CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, reinterpret_cast<void*>(results), size,
                                 &stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                 CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  };
  encode();
  if (range) CHECK(cuProfilerStart());
  encode();
  if (!graph && (range == 5 || range >= 7)) graph = graph_of(at, results + 4096);

  if (range == 4) {
    CUdeviceptr on_host = reinterpret_cast<CUdeviceptr>(early);
    launch(fill, work, {&on_host, &first});
  }
  CUdeviceptr scaled = results + 4096;
  if (graph) {
    CHECK(cuGraphLaunch(graph, work));
    if (staged) {
      CHECK(cuStreamSynchronize(work));
      std::iota(staged, staged + count, 1000);
      CHECK(cuGraphLaunch(graph, work));
    }
  } else {
    launch(scale, work, {&at, &table});
    launch(blur, work, {&scaled});
  }
  void* pinned = nullptr;
  CHECK(cuMemHostAlloc(&pinned, 4 * count, 0));
  auto* next = static_cast<unsigned*>(pinned);
  std::iota(next, next + count, 50'000);
  if (!fault) CHECK(cuStreamSynchronize(work));
  CHECK(cuMemcpyHtoDAsync_v2(block, next, 4 * count, side));
  CHECK(cuCtxSynchronize());
  for (int i = 0; range == 10 && i < 59; ++i) {
    CHECK(cuGraphLaunch(graph, work));
    CHECK(cuStreamSynchronize(work));
  }

  unsigned long long total = 0;
  if (range == 12) {
    std::size_t left = 0, all = 0;
    CHECK(cuMemGetInfo_v2(&left, &all));
    std::vector<CUdeviceptr> pieces(1);
    CUresult result = CUDA_SUCCESS;
    while ((result = cuMemAlloc_v2(&pieces.back(), 1 << 18)) == CUDA_SUCCESS) pieces.push_back(0);
    pieces.pop_back();
    total = 1'000'000'000'000ull * (left >> 10) + 1'000'000'000ull * pieces.size();
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return std::printf("%d\n", int(result)), 1;
    for (const CUdeviceptr piece : pieces) CHECK(cuMemFree_v2(piece));
  }
  if (range == 3) {
    usleep(1'500'000); // what there is gets written
    raise(SIGKILL);
  }
  if (range == 1 || range >= 4) CHECK(cuProfilerStop());
  if (range == 9 || range == 11) launch_beside();
  CHECK(cuCtxSynchronize());
  for (int i = 0; range == 11 && calls < 3 && i < 2000; ++i) usleep(1000);
  if (range == 11 && calls != 3) return std::printf("%d calls\n", int(calls)), 1;
  std::vector<unsigned> host(65536);
  CHECK(cuMemcpyDtoHAsync_v2(host.data(), results, 4 * host.size(), work));
  CHECK(cuStreamSynchronize(work));
  std::printf("%llu\ndone\n", std::accumulate(host.begin(), host.end(), total));
  return 0;
}
