// A job whose page-locked memory is written by host and device, in a window, over embedded_cuda.cpp:
// host_job WHAT FAULT RANGE PAUSE
//
// WHAT: staging (a buffer serves an upload on one stream and a download on another; then the host works on what came,
// and it is uploaded), mapped (a kernel writes memory of the host that a copy on another stream brings), plane (half of
// the rows that a kernel writes are downloaded, in two dimensions), hidden (a kernel finds memory of the host through a
// pointer in memory), doorbell (there is memory of another device, which nobody may read), fails (a launch that is
// given memory of the host fails, then the host writes there), refill (the host refills a buffer that has been
// uploaded, and uploads it elsewhere), graph (a graph uploads the buffer, and a kernel works on what came; it is
// launched twice, and the host refills the buffer in between; then a kernel on another stream writes there),
// graph_behind (likewise, and a host function behind the upload is the one that refills), graph_ahead (a host function
// ahead of the upload fills the buffer), function (a host function of another stream refills the buffer, which is then
// uploaded elsewhere, where a kernel
// behind the function has written). FAULT 1: nothing orders the two; 0: the host waits for the first; doorbell: a
// kernel is given that memory, or not. RANGE 1: between cuProfilerStart and cuProfilerStop. PAUSE: milliseconds that it
// sleeps while a host function is to run. Prints a sum of what was made, and "done".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tests/tracer/driver_check.h"

namespace {

constexpr unsigned count = 4096, width = 64; // words

constexpr const char* text = R"(.version 8.0
.target sm_90
.address_size 64
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
.visible .entry ring(.param .u64 to, .param .u64 doorbell)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %tid.x;
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry scale(.param .u64 table)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [table];
  ld.global.u64 %rd1, [%rd1];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  mul.wide.u32 %rd2, %r5, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r6, [%rd3];
  mul.lo.u32 %r6, %r6, 3;
  st.global.u32 [%rd3], %r6;
  ret;
}
)";

struct Job {
  CUfunction fill = nullptr, scale = nullptr, ring = nullptr;
  CUstream first = nullptr, second = nullptr;
  CUdeviceptr target = 0, other = 0, source = 0;
  unsigned* host = nullptr;
  void* registers = nullptr; // of another device
  bool fault = false;
  unsigned pause = 0; // microseconds, for a host function of the stand-in's, which nobody else may run beside

  void launch(CUfunction f, CUstream stream, std::vector<void*> parameters) {
    CHECK(cuLaunchKernel(f, count / 128, 1, 1, 128, 1, 1, 0, stream, parameters.data(), nullptr));
  }
  void between() {
    if (!fault) CHECK(cuStreamSynchronize(first));
  }

  void staging() {
    CHECK(cuMemcpyHtoDAsync_v2(target, host, 4 * count, first));
    between();
    CHECK(cuMemcpyDtoHAsync_v2(host, source, 4 * count, second));
    CHECK(cuStreamSynchronize(second));
    CHECK(cuStreamSynchronize(first));
    for (unsigned i = 0; i < count; i += 2) host[i] = 2 * host[i] + i;
    CHECK(cuMemcpyHtoDAsync_v2(other, host, 4 * count, first));
  }
  void mapped() {
    CUdeviceptr at = reinterpret_cast<CUdeviceptr>(host);
    unsigned value = 5;
    launch(fill, first, {&at, &value});
    between();
    CHECK(cuMemcpyHtoDAsync_v2(target, host, 4 * count, second));
  }
  void plane() {
    unsigned value = 5;
    launch(fill, first, {&target, &value});
    between();
    CUDA_MEMCPY2D c{};
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = target;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = host;
    c.srcPitch = c.dstPitch = 4 * width;
    c.WidthInBytes = 2 * width;
    c.Height = count / width;
    CHECK(cuMemcpy2DAsync_v2(&c, second));
  }
  void doorbell() {
    CHECK(cuMemcpyHtoDAsync_v2(target, host, 4 * count, first));
    if (fault)
      CHECK(cuLaunchKernel(ring, 1, 1, 1, 1, 1, 1, 0, first, std::array<void*, 2>{&other, &registers}.data(), nullptr));
  }
  void fails() {
    CUdeviceptr at = reinterpret_cast<CUdeviceptr>(host);
    unsigned value = 5;
    launch(fill, first, {&at, &value});
    CHECK(cuStreamSynchronize(first));
    void* parameters[] = {&at, &value};
    if (cuLaunchKernel(fill, 0, 1, 1, 128, 1, 1, 0, second, parameters, nullptr) == CUDA_SUCCESS) std::exit(1);
    for (unsigned i = 0; i < count; ++i) host[i] = 9 + i;
    CHECK(cuMemcpyHtoDAsync_v2(target, host, 4 * count, first));
    between();
    value = 7;
    launch(fill, second, {&target, &value});
  }
  void refill() {
    CHECK(cuMemcpyHtoDAsync_v2(target, host, 4 * count, first));
    between();
    for (unsigned i = 0; i < count; ++i) host[i] = 9 + i;
    CHECK(cuMemcpyHtoDAsync_v2(other, host, 4 * count, first));
  }
  static void add(void* to) {
    auto* words = static_cast<unsigned*>(to);
    for (unsigned i = 0; i < count; ++i) words[i] += 50;
  }
  void function() {
    CHECK(cuMemcpyHtoDAsync_v2(target, host, 4 * count, first));
    between();
    CHECK(cuLaunchHostFunc(second, add, host));
    unsigned value = 5;
    launch(fill, second, {&other, &value});
    usleep(pause);
    CHECK(cuStreamSynchronize(second));
    CHECK(cuMemcpyHtoDAsync_v2(other, host, 4 * count, second));
  }
  void graph(const std::string& what) {
    CUgraph made = nullptr;
    CUgraphNode uploads, scales, refills;
    CUgraphExec executable = nullptr;
    CHECK(cuMemcpyHtoDAsync_v2(other, &target, sizeof target, first));
    CHECK(cuGraphCreate(&made, 0));
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = target;
    copy.WidthInBytes = 4 * count;
    copy.Height = copy.Depth = 1;
    const CUDA_HOST_NODE_PARAMS function{add, host};
    const bool ahead = what == "graph_ahead";
    if (ahead) CHECK(cuGraphAddHostNode(&refills, made, nullptr, 0, &function));
    CHECK(cuGraphAddMemcpyNode(&uploads, made, &refills, ahead, &copy, nullptr));
    if (what == "graph_behind") CHECK(cuGraphAddHostNode(&refills, made, &uploads, 1, &function));
    void* parameters[] = {&other};
    const CUDA_KERNEL_NODE_PARAMS kernel{scale, count / 128, 1, 1, 128, 1, 1, 0, parameters, nullptr, nullptr, nullptr};
    CHECK(cuGraphAddKernelNode_v2(&scales, made, &uploads, 1, &kernel));
    CHECK(cuGraphInstantiateWithFlags(&executable, made, 0));
    CHECK(cuGraphLaunch(executable, first));
    CHECK(cuStreamSynchronize(first));
    usleep(pause);
    if (what == "graph") add(host);
    CHECK(cuGraphLaunch(executable, first));
    between();
    unsigned value = 5;
    launch(fill, second, {&target, &value});
  }
  void hidden() {
    CHECK(cuMemcpyHtoDAsync_v2(other, &host, sizeof host, first));
    launch(scale, first, {&other});
  }
};

} // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const std::string what = argv[1];
  const bool range = std::atoi(argv[3]);
  CHECK(cuInit(0));
  Job job;
  job.fault = std::atoi(argv[2]);
  job.pause = 1000 * unsigned(std::atoi(argv[4]));
  CUmodule module = nullptr;
  CHECK(cuModuleLoadData(&module, text));
  CHECK(cuModuleGetFunction(&job.fill, module, "fill"));
  CHECK(cuModuleGetFunction(&job.scale, module, "scale"));
  CHECK(cuModuleGetFunction(&job.ring, module, "ring"));
  CHECK(cuStreamCreateWithPriority(&job.first, CU_STREAM_NON_BLOCKING, 0));
  CHECK(cuStreamCreateWithPriority(&job.second, CU_STREAM_NON_BLOCKING, 0));
  for (CUdeviceptr* memory : {&job.target, &job.other, &job.source}) {
    CHECK(cuMemAlloc_v2(memory, 4 * count));
    CHECK(cuMemsetD32Async(*memory, memory == &job.source ? 7 : 3, count, job.first));
  }
  void* locked = nullptr;
  CHECK(cuMemHostAlloc(&locked, 4 * count, 0));
  job.host = static_cast<unsigned*>(locked);
  std::iota(job.host, job.host + count, 100);
  CHECK(cuStreamSynchronize(job.first));
  if (what == "doorbell") {
    job.registers = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (job.registers == MAP_FAILED) return 1;
    CHECK(cuMemHostRegister_v2(job.registers, 4096, CU_MEMHOSTREGISTER_IOMEMORY));
  }

  if (range) CHECK(cuProfilerStart());
  if (what == "staging") job.staging();
  if (what == "mapped") job.mapped();
  if (what == "plane") job.plane();
  if (what == "hidden") job.hidden();
  if (what == "refill") job.refill();
  if (what == "function") job.function();
  if (what.starts_with("graph")) job.graph(what);
  if (what == "fails") job.fails();
  if (what == "doorbell") job.doorbell();
  CHECK(cuCtxSynchronize());
  if (range) CHECK(cuProfilerStop());

  unsigned long long sum = std::accumulate(job.host, job.host + count, 0ull);
  std::vector<unsigned> words(count);
  for (CUdeviceptr memory : {job.target, job.other}) {
    if (what == "hidden") break;
    CHECK(cuMemcpyDtoHAsync_v2(words.data(), memory, 4 * count, job.first));
    CHECK(cuStreamSynchronize(job.first));
    sum = std::accumulate(words.begin(), words.end(), 3 * sum);
  }
  std::printf("%llu\ndone\n", sum);
  return 0;
}
