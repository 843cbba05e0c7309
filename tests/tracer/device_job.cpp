// Jobs that make it hard for the preload library, over embedded_cuda.cpp: device_job WHAT
//
// waits     a kernel waits for a flag that the host sets once it has waited for another stream
// others    while a kernel waits for a flag, four opaque ones are launched for the first time. Says in how many ms
// crowd     queues 300 sets and 300 launches without waiting
// tables    launches a kernel of a module that looks like one of cuFFT's
// lists     says which kernels its module has
// leaves    the job ends while a kernel still waits
// gives_up  no room was made in the buffers for so long that a warp gave up; then more launches, and SIGKILL. Says the
//           least limit of the buffers
// cooperative  two cooperative launches, of 200 blocks and of 100
// empty     loads a module with a variable of no bytes
// separate, separate_ordered, separate_opaque
//           two kernels of source files that were compiled apart, the device runtime beside them: one writes a variable
//           that the other reads, on streams that know nothing of each other, or wait; or another source file has no
//           PTX. Prints the sum of what was read
// unloads   a module with a variable is unloaded between two kernels that write the same memory
// resets    the device is reset between two kernels, and memory is allocated anew
// idle      the module is loaded, and nothing else is done
// told_by_function, told_by_callback, told_too_early
//           two streams copy into one page-locked buffer, the second once a function of the first stream has told the
//           host of the first copy; which that function comes behind, or comes before
// files, files_limited
//           modules are loaded from files: PTX, and a cubin with its PTX beside it; or PTX, where the job may write
//           no more than 100 bytes to a file
// options   modules are loaded with options for the assembler: at most 40 registers, and a target; in a fat binary that
//           was compiled for at most 48
// threads   four threads load a module each, at the same time, and launch a kernel of it
// refused   a module is loaded that the driver may refuse, and then others. Says what became of the first
// messages, messages_relaxed, messages_apart
//           a kernel waits for what another hands over by a flag, which is launched behind it in another stream; the
//           flag is stored relaxed; a set comes between the launches
// hangs     the same, the other kernel handing nothing over, and SIGKILL
// no_buffers there is no page-locked memory for the library's buffers (EMBEDDED_NO_PAGE_LOCKED)
// no_memory  there is no memory for what the library does before an opaque launch of another thread
// Prints "done".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/tracer/driver_check.h"
#include "tests/tracer/fat_binary.h"
#include "tests/tracer/waiting_job.h"

#include "tracer/device_log/layout.h"

extern "C" CUdeviceptr embedded_rings();
extern "C" int embedded_allocations();

// So many requests for memory of the thread, and then it gets none, once. (glibc's malloc by its other name.)
static thread_local int until_failure = 0;
extern "C" void* __libc_malloc(std::size_t bytes);
extern "C" void* malloc(std::size_t bytes) {
  return until_failure && --until_failure == 0 ? nullptr : __libc_malloc(bytes);
}

// A function that the device runtime defines: this program's file serves as its code.
extern "C" __attribute__((used)) void cudaGetParameterBufferV2() {}

namespace {

const std::string kernels = waiting_kernels + R"(.visible .entry gives_up(.param .u64 to)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [to];
  st.global.u32 [%rd1], 1;
  ret;
}
)";

constexpr const char* with_empty_variable = R"(.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 empty;
.visible .entry none()
{
  .reg .b64 %rd<2>;
  mov.u64 %rd1, empty;
  st.global.u32 [%rd1], 1;
  ret;
}
)";

constexpr const char* first_part = R"(.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b32 result) offset_of(.param .b32 value);
.visible .global .align 4 .b8 weights[128];
.visible .entry produce()
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  mov.u32 %r1, %tid.x;
  {
    .param .b32 value;
    .param .b32 result;
    st.param.b32 [value], %r1;
    call.uni (result), offset_of, (value);
    ld.param.b32 %r2, [result];
  }
  mov.u64 %rd1, weights;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;
}
)";
constexpr const char* second_part = R"(.version 8.0
.target sm_90
.address_size 64
.extern .global .align 4 .b8 weights[128];
.visible .func (.param .b32 result) offset_of(.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [value];
  add.u32 %r2, %r1, 100;
  st.param.b32 [result], %r2;
  ret;
}
.visible .entry consume(.param .u64 to)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd4, [to];
  mov.u32 %r1, %tid.x;
  mov.u64 %rd1, weights;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  add.u64 %rd5, %rd4, %rd2;
  st.global.u32 [%rd5], %r2;
  ret;
}
)";

// Of PTX that is too old to be instrumented.
constexpr const char* too_old = R"(.version 6.0
.target sm_70
.address_size 64
.visible .entry a() { ret; }
.visible .entry b() { ret; }
.visible .entry c() { ret; }
.visible .entry d() { ret; }
)";

constexpr const char* messengers = R"(.version 8.0
.target sm_90
.address_size 64
.global .align 4 .b8 data[128];
.global .align 4 .b8 sum[128];
.global .align 4 .u32 flag;
.visible .entry give()
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<5>;
  .reg .pred %p;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd1, %r1, 4;
  mov.u64 %rd2, data;
  add.u64 %rd3, %rd2, %rd1;
  st.global.u32 [%rd3], %r1;
  bar.warp.sync 0xffffffff;
  setp.ne.u32 %p, %r1, 0;
  @%p bra $end;
  mov.u64 %rd4, flag;
  st.release.gpu.global.u32 [%rd4], 1;
$end:
  ret;
}
.visible .entry take()
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<7>;
  .reg .pred %p;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd1, %r1, 4;
  mov.u64 %rd4, flag;
  setp.ne.u32 %p, %r1, 0;
  @%p bra $told;
$again:
  ld.acquire.gpu.global.u32 %r2, [%rd4];
  setp.eq.u32 %p, %r2, 0;
  @%p bra $again;
$told:
  bar.warp.sync 0xffffffff;
  xor.b64 %rd1, %rd1, 124;
  mov.u64 %rd2, data;
  add.u64 %rd3, %rd2, %rd1;
  ld.global.u32 %r3, [%rd3];
  mov.u64 %rd5, sum;
  add.u64 %rd6, %rd5, %rd1;
  st.global.u32 [%rd6], %r3;
  ret;
}
)";

constexpr const char* with_variable = R"(.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .b8 table[256];
.visible .entry touch()
{
  .reg .b64 %rd<2>;
  mov.u64 %rd1, table;
  st.global.u32 [%rd1], 1;
  ret;
}
)";

std::string contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Job : WaitingJob {
  Job() : WaitingJob(kernels) {}
  void launch(const char* name, CUstream stream, CUdeviceptr at) const {
    CUfunction function = nullptr;
    CHECK(cuModuleGetFunction(&function, module, name));
    void* parameters[] = {&at};
    CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
  }
  void launch_cooperative(unsigned blocks) const {
    CUfunction function = nullptr;
    CUdeviceptr at = memory;
    CHECK(cuModuleGetFunction(&function, module, "fill"));
    void* parameters[] = {&at};
    CHECK(cuLaunchCooperativeKernel(function, blocks, 1, 1, 32, 1, 1, 0, one, parameters));
    CHECK(cuStreamSynchronize(one));
  }
  std::uint64_t least_limit() const {
    using namespace deadheat::device_log;
    std::vector<std::uint8_t> bytes(sizeof(Head) + 128 * sizeof(RingState));
    CHECK(cuMemcpyDtoHAsync_v2(bytes.data(), embedded_rings(), bytes.size(), one));
    CHECK(cuStreamSynchronize(one));
    std::uint64_t least = ~std::uint64_t(0);
    for (std::size_t at = sizeof(Head); at < bytes.size(); at += sizeof(RingState)) {
      RingState state;
      std::memcpy(&state, bytes.data() + at, sizeof state);
      least = std::min(least, state.limit);
    }
    return least;
  }
};

void waits(const Job& job) {
  job.launch("wait", job.other, job.flag);
  job.launch("fill", job.one, job.memory);
  CHECK(cuStreamSynchronize(job.one));
  CHECK(cuMemsetD32Async(job.flag, 1, 1, job.one));
  CHECK(cuStreamSynchronize(job.one));
  CHECK(cuStreamSynchronize(job.other));
}

void others(const Job& job) {
  CUmodule old = nullptr;
  CHECK(cuModuleLoadData(&old, too_old));
  job.launch("wait", job.other, job.flag);
  const auto begun = std::chrono::steady_clock::now();
  for (const char* name : {"a", "b", "c", "d"}) {
    CUfunction function = nullptr;
    CHECK(cuModuleGetFunction(&function, old, name));
    CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, job.one, nullptr, nullptr));
  }
  job.launch("fill", job.one, job.memory);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
  CHECK(cuMemsetD32Async(job.flag, 1, 1, job.one));
  CHECK(cuStreamSynchronize(job.one));
  CHECK(cuStreamSynchronize(job.other));
  std::printf("%.0f\n", took.count());
}

void leaves(const Job& job) {
  job.launch("wait", job.other, job.flag);
  job.launch("fill", job.one, job.memory);
  CHECK(cuStreamSynchronize(job.one));
}

void gives_up(const Job& job) {
  job.launch("fill", job.one, job.memory);
  job.launch("gives_up", job.one, job.memory);
  CHECK(cuStreamSynchronize(job.one));
  job.launch("wait", job.other, job.flag); // in buffers that nobody reads, or unrecorded
  CHECK(cuMemsetD32Async(job.flag, 1, 1, job.one));
  CHECK(cuStreamSynchronize(job.one));
  CHECK(cuStreamSynchronize(job.other));
  usleep(300'000);
  for (int i = 0; i < 5; ++i) job.launch("fill", job.one, job.memory);
  CHECK(cuStreamSynchronize(job.one));
  std::printf("%llx\n", static_cast<unsigned long long>(job.least_limit()));
  usleep(1'500'000); // what there is gets written
}

void messages(const Job& job, bool relaxed, bool apart, bool hangs) {
  std::string text = messengers;
  const auto replace = [&](const std::string& what, const std::string& by) {
    text.replace(text.find(what), what.size(), by);
  };
  if (relaxed) replace("st.release", "st.relaxed");
  if (hangs) replace("[%rd4], 1", "[%rd4], 0");
  CUmodule module = nullptr;
  CHECK(cuModuleLoadData(&module, text.c_str()));
  const auto launch = [&](const char* name, CUstream stream) {
    CUfunction function = nullptr;
    CHECK(cuModuleGetFunction(&function, module, name));
    CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr));
  };
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  launch("take", job.one);
  CHECK(cuEventRecord(event, job.one));
  if (apart) CHECK(cuMemsetD32Async(job.memory, 1, 1, job.other));
  usleep(200'000); // it waits for a while
  launch("give", job.other);
  if (hangs) {
    CHECK(cuStreamSynchronize(job.other));
    usleep(2'500'000); // what there is gets written
    return;
  }
  CHECK(cuStreamSynchronize(job.one));
  CHECK(cuStreamSynchronize(job.other));
  CUdeviceptr sum = 0;
  std::size_t bytes = 0;
  unsigned taken[32];
  CHECK(cuModuleGetGlobal_v2(&sum, &bytes, module, "sum"));
  CHECK(cuMemcpyDtoHAsync_v2(taken, sum, sizeof taken, job.one));
  CHECK(cuStreamSynchronize(job.one));
  std::printf("%u\n", std::accumulate(std::begin(taken), std::end(taken), 0u));
}

void separate(const Job& job, bool ordered, bool opaque) {
  using Kind = fake::FatBinary::Kind;
  fake::FatBinary binary;
  binary.part(Kind::ptx, first_part);
  binary.part(Kind::ptx, second_part);
  binary.part(Kind::machine_code, contents("/proc/self/exe")); // which defines a function of the device runtime
  if (opaque) binary.part(Kind::machine_code, contents("/bin/true"));
  CUmodule module = nullptr;
  CHECK(cuModuleLoadData(&module, binary.wrapper()));
  CUfunction produce = nullptr, consume = nullptr;
  CHECK(cuModuleGetFunction(&produce, module, "produce"));
  CHECK(cuModuleGetFunction(&consume, module, "consume"));
  CUdeviceptr to = job.memory;
  void* parameters[] = {&to};
  CHECK(cuLaunchKernel(produce, 1, 1, 1, 32, 1, 1, 0, job.one, nullptr, nullptr));
  if (ordered) CHECK(cuStreamSynchronize(job.one));
  CHECK(cuLaunchKernel(consume, 1, 1, 1, 32, 1, 1, 0, job.other, parameters, nullptr));
  unsigned read[32];
  CHECK(cuMemcpyDtoHAsync_v2(read, job.memory, sizeof read, job.other));
  CHECK(cuStreamSynchronize(job.other));
  std::printf("%u\n", std::accumulate(std::begin(read), std::end(read), 0u));
}

void unloads(const Job& job) {
  CUmodule module = nullptr;
  CHECK(cuModuleLoadData(&module, with_variable));
  job.launch("fill", job.one, job.memory);
  CHECK(cuModuleUnload(module));
  job.launch("fill", job.other, job.memory);
  CHECK(cuStreamSynchronize(job.one));
  CHECK(cuStreamSynchronize(job.other));
}

void resets() {
  for (int i = 0; i < 2; ++i) {
    const Job job;
    job.launch("fill", job.one, job.memory);
    CHECK(cuDevicePrimaryCtxReset_v2(0));
  }
}

void told(const Job& job, bool by_callback, bool too_early) {
  void* buffer = nullptr;
  CHECK(cuMemHostAlloc(&buffer, 128, 0));
  std::atomic<bool> complete{false};
  const auto function = [](void* of) { *static_cast<std::atomic<bool>*>(of) = true; };
  const auto callback = [](CUstream, CUresult, void* of) { *static_cast<std::atomic<bool>*>(of) = true; };
  auto tell = [&] {
    if (by_callback)
      CHECK(cuStreamAddCallback(job.one, callback, &complete, 0));
    else
      CHECK(cuLaunchHostFunc(job.one, function, &complete));
  };
  if (too_early) tell();
  CHECK(cuMemcpyDtoHAsync_v2(buffer, job.memory, 128, job.one));
  if (!too_early) tell();
  while (!complete) usleep(1000);
  CHECK(cuMemcpyDtoHAsync_v2(buffer, job.memory + 128, 128, job.other));
  CHECK(cuStreamSynchronize(job.one));
  CHECK(cuStreamSynchronize(job.other));
}

void fill(CUmodule module, const Job& job) {
  CUfunction function = nullptr;
  CUdeviceptr to = job.memory;
  CHECK(cuModuleGetFunction(&function, module, "fill"));
  void* parameters[] = {&to};
  CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, job.one, parameters, nullptr));
  CHECK(cuStreamSynchronize(job.one));
}

void files(const Job& job, bool limited) {
  char folder[] = "/tmp/deadheat-files-XXXXXX";
  if (!mkdtemp(folder)) return;
  const std::string stem = std::string(folder) + "/kernels", cubin = stem + ".cubin", ptx = stem + ".ptx";
  std::ofstream(cubin) << "\x7f"
                       << "ELF and more";
  std::ofstream(ptx) << kernels;
  if (limited) {
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  for (const std::string& file : {cubin, ptx}) {
    if (limited && file == cubin) continue; // that is no machine code: it loads only in place of it
    CUmodule module = nullptr;
    CHECK(cuModuleLoad(&module, file.c_str()));
    fill(module, job);
    unlink(file.c_str());
  }
  rmdir(folder);
}

void options(const Job& job) {
  CUjit_option forty[] = {CU_JIT_MAX_REGISTERS}, target[] = {CU_JIT_TARGET};
  void *registers[] = {reinterpret_cast<void*>(40)}, *compute[] = {reinterpret_cast<void*>(CU_TARGET_COMPUTE_90)};
  fake::FatBinary binary;
  binary.part(fake::FatBinary::Kind::ptx, kernels, " -maxrregcount=48 ");
  CUmodule modules[3] = {};
  CHECK(cuModuleLoadDataEx(&modules[0], kernels.c_str(), 1, forty, registers));
  CHECK(cuModuleLoadDataEx(&modules[1], kernels.c_str(), 1, target, compute));
  CHECK(cuModuleLoadData(&modules[2], binary.wrapper()));
  for (CUmodule module : modules) fill(module, job);
}

void threads(const Job& job) {
  std::vector<std::thread> all;
  for (int i = 0; i < 4; ++i) {
    all.emplace_back([&] {
      CUmodule module = nullptr;
      CHECK(cuModuleLoadData(&module, kernels.c_str()));
      static std::mutex one;
      std::lock_guard hold(one);
      fill(module, job);
    });
  }
  for (std::thread& thread : all) thread.join();
}

void no_memory(const Job& job) {
  CHECK(cuProfilerStart());
  std::thread([&] {
    CUfunction function = nullptr;
    CUdeviceptr at = job.memory;
    CHECK(cuModuleGetFunction(&function, job.module, "fill"));
    void* parameters[] = {&at};
    for (const int failure : {0, 2}) { // the first is for the arguments
      until_failure = failure;
      CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, job.one, parameters, nullptr));
      if (until_failure) std::fprintf(stderr, "nothing was asked for\n");
      until_failure = 0;
    }
  }).join();
  CHECK(cuStreamSynchronize(job.one));
  CHECK(cuProfilerStop());
}

// What kernels a module has, by their number and one after the other.
void lists(const Job& job) {
  unsigned count = 0;
  CHECK(cuModuleGetFunctionCount(&count, job.module));
  std::vector<CUfunction> functions(count);
  CHECK(cuModuleEnumerateFunctions(functions.data(), count, job.module));
  std::printf("%u", count);
  for (const CUfunction function : functions) {
    const char* name = nullptr;
    CHECK(cuFuncGetName(&name, function));
    std::printf(" %s", name);
  }
  std::printf("\n");
}

} // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "idle") {
    CUmodule module = nullptr;
    CHECK(cuInit(0));
    CHECK(cuModuleLoadData(&module, kernels.c_str()));
    std::printf("done\n");
    return 0;
  }
  if (what == "resets") {
    resets();
    std::printf("done\n");
    return 0;
  }
  if (what == "refused") {
    CUmodule module = nullptr;
    CHECK(cuInit(0));
    std::printf("%d\n", int(cuModuleLoadData(&module, kernels.c_str())));
  }
  const Job job;
  if (what == "refused") fill(job.module, job);
  if (what == "waits") waits(job);
  if (what == "others") others(job);
  if (what == "leaves") leaves(job);
  if (what == "gives_up") gives_up(job);
  if (what == "cooperative") {
    job.launch_cooperative(200);
    job.launch_cooperative(100);
  }
  if (what == "empty") {
    CUmodule module = nullptr;
    CHECK(cuModuleLoadData(&module, with_empty_variable));
  }
  if (what == "crowd") {
    for (int i = 0; i < 300; ++i) CHECK(cuMemsetD32Async(job.memory, unsigned(i), 32, job.one));
    for (int i = 0; i < 300; ++i) job.launch("fill", job.one, job.memory);
    CHECK(cuStreamSynchronize(job.one));
  }
  if (what == "tables") {
    const char* const variables = ".global .align 8 .u64 lut_sp;\n.global .align 8 .u64 lut_dp;\n";
    const std::string text = std::string(kernels).insert(kernels.find(".visible"), variables);
    CUmodule module = nullptr;
    CHECK(cuModuleLoadData(&module, text.c_str()));
    fill(module, job);
  }
  if (what == "lists") lists(job);
  if (what == "unloads") unloads(job);
  if (what.starts_with("separate")) separate(job, what == "separate_ordered", what == "separate_opaque");
  if (what.starts_with("told")) told(job, what == "told_by_callback", what == "told_too_early");
  if (what.starts_with("messages") || what == "hangs")
    messages(job, what == "messages_relaxed", what == "messages_apart", what == "hangs");
  if (what == "files" || what == "files_limited") files(job, what == "files_limited");
  if (what == "options") options(job);
  if (what == "threads") threads(job);
  if (what == "no_memory") no_memory(job);
  if (what == "no_buffers") {
    job.launch("fill", job.one, job.memory);
    CHECK(cuStreamSynchronize(job.one));
    std::printf("%d allocations\n", embedded_allocations());
  }
  std::printf("done\n");
  std::fflush(stdout);
  if (what == "gives_up" || what == "hangs") raise(SIGKILL);
  return 0;
}
