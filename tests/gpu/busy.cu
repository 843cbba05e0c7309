// What a host may call while a kernel runs that writes more than the buffer of accesses holds: whoever reads that buffer
// needs the driver, too. `busy CALL` prints how long the call and the kernel took, in seconds, and how many values
// were computed; `busy` alone prints the names of the calls.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "checked_calls.h"

constexpr int queued = 2000; // more than the driver has room for
constexpr std::size_t wide_bytes = std::size_t(64) << 20;
constexpr int blocks = 528, threads = 256, rounds = 300, count = blocks * threads;

__global__ void churn(int* data) {
  const int i = blockIdx.x * threads + threadIdx.x;
  for (int r = 0; r < rounds; ++r) data[(i + r * 32) % count] += r;
}
__global__ void other(int* data) { data[threadIdx.x] += 1; }
__global__ void another(int* data) { data[threadIdx.x] *= 2; }
__device__ int variable[64];
__global__ void reads_variable(int* data) { data[threadIdx.x] += variable[threadIdx.x]; }

// A module of `kernels` kernels, each of `stores` stores.
static std::string module_text(int kernels, int stores) {
  std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n";
  for (int k = 0; k < kernels; ++k) {
    text += ".visible .entry set" + std::to_string(k) + "(.param .u64 p) {\n.reg .u64 %a;\nld.param.u64 %a, [p];\n";
    for (int at = 0; at < stores; ++at) text += "st.global.u32 [%a+" + std::to_string(4 * at) + "], 7;\n";
    text += "ret;\n}\n";
  }
  return text;
}

int main(int argc, char** argv) {
  cudaStream_t busy, free_stream, extra;
  int *data, *more, *spare, *pinned, *pooled, *wide;
  std::vector<int> pageable(1 << 20);
  cudaEvent_t event, recorded, begins, ends;
  cudaLibrary_t library;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  const std::string small = module_text(1, 1), large = module_text(300, 100);
  void* memory = nullptr;
  std::size_t room = 0, all = 0;
  int resident = 0;
  const std::vector<std::pair<const char*, std::function<void()>>> calls = {
      {"malloc", [&] { CHECK(cudaMalloc(&memory, 1 << 26)); }},
      {"free", [&] { CHECK(cudaFree(spare)); }},
      {"malloc_host", [&] { CHECK(cudaMallocHost(&memory, 1 << 24)); }},
      {"free_host", [&] { CHECK(cudaFreeHost(pinned)); }},
      {"host_register", [&] { CHECK(cudaHostRegister(pageable.data(), 1 << 22, 0)); }},
      {"malloc_async", [&] { CHECK(cudaMallocAsync(&memory, 1 << 26, free_stream)); }},
      {"free_async", [&] { CHECK(cudaFreeAsync(pooled, free_stream)); }},
      {"upload", [&] { CHECK(cudaMemcpy(more, pageable.data(), 1 << 22, cudaMemcpyDefault)); }},
      {"upload_async", [&] { CHECK(cudaMemcpyAsync(more, pageable.data(), 1 << 22, cudaMemcpyDefault, free_stream)); }},
      {"download", [&] { CHECK(cudaMemcpy(pageable.data(), more, 1 << 22, cudaMemcpyDefault)); }},
      {"copy", [&] { CHECK(cudaMemcpy(more, spare, 1 << 22, cudaMemcpyDefault)); }},
      {"set", [&] { CHECK(cudaMemset(more, 0, 1 << 22)); }},
      {"symbol", [&] { CHECK(cudaMemcpyToSymbol(variable, pageable.data(), sizeof variable)); }},
      {"symbol_address", [&] { CHECK(cudaGetSymbolAddress(&memory, variable)); }},
      {"launch", [&] { other<<<1, 32, 0, free_stream>>>(more); }},
      {"launch_behind", [&] { another<<<1, 32, 0, busy>>>(more); }},
      {"launch_of_variable", [&] { reads_variable<<<1, 32, 0, free_stream>>>(more); }},
      {"function_attributes",
       [&] {
         cudaFuncAttributes attributes;
         CHECK(cudaFuncGetAttributes(&attributes, another));
         CHECK(cudaFuncSetAttribute(other, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
       }},
      {"occupancy", [&] { CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, another, 128, 0)); }},
      {"load_module", [&] { CHECK(cudaLibraryLoadData(&library, small.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0)); }},
      {"load_large_module",
       [&] { CHECK(cudaLibraryLoadData(&library, large.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0)); }},
      {"stream_create", [&] { CHECK(cudaStreamCreate(&extra)); }},
      {"stream_destroy", [&] { CHECK(cudaStreamDestroy(extra)); }},
      {"stream_destroy_busy", [&] { CHECK(cudaStreamDestroy(busy)); }},
      {"event_record", [&] { CHECK(cudaEventRecord(event, busy)); }},
      {"event_destroy", [&] { CHECK(cudaEventDestroy(recorded)); }},
      {"graph", [&] { CHECK(cudaGraphLaunch(made, free_stream)); }},
      {"graph_instantiate", [&] { CHECK(cudaGraphInstantiate(&made, graph, 0)); }},
      {"graph_destroy", [&] { CHECK(cudaGraphExecDestroy(made)); }},
      {"memory_info", [&] { CHECK(cudaMemGetInfo(&room, &all)); }},
      {"limit", [&] { CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 21)); }},
      {"stack_limit", [&] { CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 1 << 14)); }},
      {"launches_behind",
       [&] {
         for (int i = 0; i < queued; ++i) another<<<1, 32, 0, busy>>>(more);
       }},
      {"sets_around",
       [&] {
         for (int i = 0; i < queued; ++i) CHECK(cudaMemsetAsync(wide, i, wide_bytes, busy));
       }},
      {"synchronize", [&] { CHECK(cudaDeviceSynchronize()); }},
  };
  if (argc < 2) {
    for (const auto& [name, call] : calls) std::puts(name);
    return 0;
  }
  CHECK(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreate(&extra));
  CHECK(cudaMalloc(&data, sizeof(int) * count));
  CHECK(cudaMalloc(&more, 1 << 22));
  CHECK(cudaMalloc(&wide, wide_bytes));
  CHECK(cudaMalloc(&spare, 1 << 22));
  CHECK(cudaMallocHost(&pinned, 1 << 22));
  CHECK(cudaMallocAsync(&pooled, 1 << 22, free_stream));
  CHECK(cudaStreamSynchronize(free_stream));
  CHECK(cudaMemset(data, 0, sizeof(int) * count));
  CHECK(cudaEventCreate(&event));
  for (cudaEvent_t* made : {&recorded, &begins, &ends}) CHECK(cudaEventCreate(made));
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t node;
  cudaMemsetParams set{};
  set.dst = more;
  set.elementSize = 4;
  set.width = 1024;
  set.height = 1;
  CHECK(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &set));
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  for (const auto& [name, call] : calls) {
    if (std::strcmp(name, argv[1]) != 0) continue;
    if (std::strcmp(name, "sets_around") == 0) call(); // the kernel comes into a full queue
    CHECK(cudaEventRecord(begins, busy));
    churn<<<blocks, threads, 0, busy>>>(data);
    CHECK(cudaEventRecord(ends, busy));
    const auto begun = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    CHECK(cudaDeviceSynchronize());
    float kernel = 0; // milliseconds
    CHECK(cudaEventElapsedTime(&kernel, begins, ends));
    std::vector<int> result(count);
    CHECK(cudaMemcpy(result.data(), data, sizeof(int) * count, cudaMemcpyDefault));
    const long computed = std::count_if(result.begin(), result.end(), [](int value) { return value != 0; });
    std::printf("%s %.2f %.2f %ld\n", name, took.count(), kernel / 1000, computed);
    return 0;
  }
  std::fprintf(stderr, "busy: no call '%s'\n", argv[1]);
  return 2;
}
