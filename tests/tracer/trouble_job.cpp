// Jobs that end or go on in ways that are seldom, over embedded_cuda.cpp: trouble_job WHAT
//
// no_parameters a kernel is launched without its parameters. Says what the driver says
// clusters  a kernel of which clusters of two blocks are required, and then no more. Says how many blocks it saw, twice
// asks      says how often kernels' attributes are asked for in ten launches of one that was launched before
// preferred a launch prefers larger clusters than it asks for
// library   launches a kernel of a library, which serves all devices
// long_name loads and launches a kernel whose name has 4000 characters, from a thread with little stack
// floods    while a kernel waits for the host, a set in another stream and much else follow, at last another set, and
// SIGKILL refused   modules and libraries are loaded from memory and files, whose instrumented code the driver may
// refuse.
//           Says the driver's answers, what stands in a log of errors, and what a kernel of each wrote
// crowded   a kernel is launched, and a graph of it; then the device's memory is taken, 1 MiB at a time, until there is
//           none, and both are launched again, where the last of it lies. Says how much was said to be free, of how
//           many pieces it was, and what they wrote
// stuck     the job ends while a kernel waits, and the driver does not answer whoever asks for accesses
// no_blocks there is no memory for what is to be written, when host functions are called
// Prints "done".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/tracer/driver_check.h"
#include "tests/tracer/waiting_job.h"

extern "C" void embedded_stops_answering();
extern "C" int embedded_attributes_asked();

// No memory for large pieces of some hundred KiB, once that is asked for. (glibc's malloc by its other name.)
static std::atomic<bool> no_blocks{false};
extern "C" void* __libc_malloc(std::size_t bytes);
extern "C" void* malloc(std::size_t bytes) {
  const bool block = bytes >= (128u << 10) && bytes < (129u << 10);
  return block && no_blocks ? nullptr : __libc_malloc(bytes);
}

namespace {

const std::string kernels = waiting_kernels + R"(.visible .entry blocks(.param .u64 to)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  .reg .pred %p;
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %ctaid.x;
  setp.ne.u32 %p, %r1, 0;
  @%p bra $end;
  mov.u32 %r2, %cluster_nctaid.x;
  st.global.u32 [%rd1], %r2;
$end:
  ret;
}
)";

// What PyTorch's allocator would report: that is noted in the order of all else, and costs the device nothing.
void report_blocks(int count) {
  using Report = void (*)(void*, std::int64_t, std::size_t, std::size_t, std::uint32_t);
  const auto report =
      reinterpret_cast<Report>(dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"));
  if (!report) std::exit(1);
  for (int i = 0; i < count; ++i) report(reinterpret_cast<void*>(0x10000), 512, 0, 0, 1);
}

struct Job : WaitingJob {
  Job() : WaitingJob(kernels) {
    CHECK(cuMemsetD32Async(memory, 0, 1024, one));
    CHECK(cuStreamSynchronize(one));
  }
  void launch(CUfunction f, CUdeviceptr at, CUstream stream, unsigned blocks = 1) const {
    void* parameters[] = {&at};
    CHECK(cuLaunchKernel(f, blocks, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }

  void no_parameters() const {
    std::printf("%d\n", int(cuLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, one, nullptr, nullptr)));
  }
  void clusters() const {
    const CUfunction f = function("blocks");
    for (const int width : {2, 0}) {
      CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, width));
      CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, width ? 1 : 0));
      CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, width ? 1 : 0));
      launch(f, memory, one, 4);
      unsigned seen = 0;
      CHECK(cuMemcpyDtoHAsync_v2(&seen, memory, 4, one));
      CHECK(cuStreamSynchronize(one));
      std::printf("%u\n", seen);
    }
  }
  void asks() const {
    const CUfunction f = function("blocks");
    launch(f, memory, one);
    const int before = embedded_attributes_asked();
    for (int i = 0; i < 10; ++i) launch(f, memory, one);
    std::printf("%d\n", embedded_attributes_asked() - before);
  }
  void preferred() const {
    CUlaunchAttribute attributes[2] = {};
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[0].value.clusterDim = {1, 1, 1};
    attributes[1].id = CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION;
    CUlaunchConfig config{};
    config.gridDimX = 4;
    config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = one;
    config.attrs = attributes;
    config.numAttrs = 2;
    CUdeviceptr at = memory;
    void* parameters[] = {&at};
    for (const unsigned width : {1u, 2u}) {
      attributes[1].value.preferredClusterDim = {width, 1, 1};
      CHECK(cuLaunchKernelEx(&config, function("blocks"), parameters, nullptr));
    }
  }
  void library() const {
    CUlibrary loaded = nullptr;
    CUkernel kernel = nullptr;
    CHECK(cuLibraryLoadData(&loaded, kernels.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cuLibraryGetKernel(&kernel, loaded, "fill"));
    launch(reinterpret_cast<CUfunction>(kernel), memory, one);
  }
  void long_names() const {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256u << 10);
    pthread_t thread;
    const auto body = [](void* of) -> void* {
      const Job& job = *static_cast<const Job*>(of);
      const std::string name(4000, 'x');
      const std::string text = fill_kernel + (".visible .entry " + name) + "()\n{\n  ret;\n}\n";
      CUmodule loaded = nullptr;
      CUfunction f = nullptr;
      CHECK(cuModuleLoadData(&loaded, text.c_str()));
      CHECK(cuModuleGetFunction(&f, loaded, name.c_str()));
      CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, job.one, nullptr, nullptr));
      return nullptr;
    };
    pthread_create(&thread, &attributes, body, const_cast<Job*>(this));
    pthread_join(thread, nullptr);
  }
  void floods() const {
    launch(function("wait"), flag, one);
    CHECK(cuMemsetD32Async(memory, 1, 1, other));
    report_blocks(200'000);
    CHECK(cuMemsetD32Async(memory, 1, 1, other));
    usleep(2'000'000); // what there is gets written
  }
  // A kernel of it writes, launched in each way; its sum is said.
  void runs(CUfunction f) const {
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 32;
    config.hStream = one;
    CUdeviceptr at = memory;
    void* parameters[] = {&at};
    unsigned sum = 0, values[32];
    for (int way = 0; way < 3; ++way) {
      CHECK(cuMemsetD32Async(memory, 0, 32, one));
      if (way == 0) CHECK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, one, parameters, nullptr));
      if (way == 1) CHECK(cuLaunchKernelEx(&config, f, parameters, nullptr));
      if (way == 2) CHECK(cuLaunchCooperativeKernel(f, 1, 1, 1, 32, 1, 1, 0, one, parameters));
      CHECK(cuMemcpyDtoHAsync_v2(values, memory, sizeof values, one));
      CHECK(cuStreamSynchronize(one));
      for (const unsigned value : values) sum += value;
    }
    std::printf(" %u", sum);
  }
  void refused() const {
    char log[64] = "nothing";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    char path[] = "/tmp/deadheat-module-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0 || write(file, kernels.data(), kernels.size()) < 0) std::exit(1);
    CUmodule modules[3] = {};
    CUlibrary loaded = nullptr;
    CUfunction f = nullptr;
    CUkernel kernel = nullptr;
    std::printf("%d", int(cuModuleLoadData(&modules[0], kernels.c_str())));
    std::printf(" %d", int(cuModuleLoadDataEx(&modules[1], kernels.c_str(), 2, options, values)));
    std::printf(" %d", int(cuModuleLoad(&modules[2], path)));
    std::printf(" %d", int(cuLibraryLoadData(&loaded, kernels.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0)));
    std::printf(" %s:%d", log, int(reinterpret_cast<std::uintptr_t>(values[1])));
    for (const CUmodule module : modules) {
      CHECK(cuModuleGetFunction(&f, module, "fill"));
      runs(f);
    }
    CHECK(cuLibraryGetKernel(&kernel, loaded, "fill"));
    runs(reinterpret_cast<CUfunction>(kernel));
    std::printf("\n");
    close(file);
    unlink(path);
  }
  void crowded() const {
    constexpr std::size_t piece = std::size_t(1) << 20;
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuStreamBeginCaptureToGraph(one, graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    launch_fill(memory);
    CHECK(cuStreamEndCapture(one, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    unsigned sum = 0;
    const auto both = [&](CUdeviceptr at) {
      CHECK(cuMemsetD32Async(memory, 0, 32, one));
      CHECK(cuGraphLaunch(executable, one));
      launch_fill(at);
      for (const CUdeviceptr from : {memory, at}) {
        unsigned values[32];
        CHECK(cuMemcpyDtoHAsync_v2(values, from, sizeof values, one));
        CHECK(cuStreamSynchronize(one));
        for (const unsigned value : values) sum += value;
      }
    };
    both(memory);
    std::size_t left = 0, all = 0;
    CHECK(cuMemGetInfo_v2(&left, &all));
    CUdeviceptr last = 0, more = 0;
    int pieces = 0;
    CUresult result = CUDA_SUCCESS;
    while ((result = cuMemAlloc_v2(&more, piece)) == CUDA_SUCCESS) {
      last = more;
      ++pieces;
    }
    for (int i = 0; i < 8; ++i) both(last);
    std::printf("%zu MiB, %d pieces, then %d: %u\n", left >> 20, pieces, int(result), sum);
  }
  void launch_fill(CUdeviceptr at) const {
    void* parameters[] = {&at};
    CHECK(cuLaunchKernel(function("fill"), 1, 1, 1, 32, 1, 1, 0, one, parameters, nullptr));
  }
  void stuck() const {
    launch(function("wait"), flag, one);
    embedded_stops_answering();
    usleep(300'000); // now they ask
  }
  void without_blocks() const {
    const auto nothing = [](void* told) { *static_cast<std::atomic<int>*>(told) += 1; };
    std::atomic<int> told{0};
    launch(function("wait"), flag, one); // nothing is written before it has ended
    for (int i = 0; i < 4; ++i) CHECK(cuLaunchHostFunc(other, nothing, &told));
    no_blocks = true;
    report_blocks(100'000);
    while (told < 4) usleep(1000);
    no_blocks = false;
    CHECK(cuMemsetD32Async(flag, 1, 1, other));
  }
};

} // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const Job job;
  if (what == "no_parameters") job.no_parameters();
  if (what == "clusters") job.clusters();
  if (what == "asks") job.asks();
  if (what == "preferred") job.preferred();
  if (what == "library") job.library();
  if (what == "long_name") job.long_names();
  if (what == "floods") job.floods();
  if (what == "refused") job.refused();
  if (what == "crowded") job.crowded();
  if (what == "stuck") job.stuck();
  if (what == "no_blocks") job.without_blocks();
  if (what != "floods" && what != "stuck") CHECK(cuStreamSynchronize(job.one));
  std::printf("done\n");
  std::fflush(stdout);
  if (what == "floods") raise(SIGKILL);
  return 0;
}
