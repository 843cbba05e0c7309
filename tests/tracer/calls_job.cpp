// A job that makes one call of the driver each time, over fake_cuda.cpp: calls_job WHAT EARLY
//
// Copies: a copy of WHAT kind writes memory that another stream writes, too: batch, batch_first (of CUDA 12.8),
// volumes, peer; to_array reads it; within: a copy of a batch reads what another writes. EARLY 1: it writes, or reads,
// elsewhere. Orders: values, batch_of_values (a stream writes a value, and the other waits for it), elapsed (the time
// between two events is known). EARLY 1: what tells comes before the write. completion, triggered: a launch records an
// event that the other stream waits for; EARLY 1: that stream then writes what the launch does, and not what comes
// before it. counted: a stream writes 1, then what the other does, then 2, which that one waits for; EARLY 1: it waits
// for 1. copying: another thread writes what a copy reads; EARLY 1: while the copy's call waits. source: a stream
// writes what a copy of its next batch reads; EARLY 1: at any time. source_later: another stream writes what a copy of
// a batch has read during the call; EARLY 1: or reads at any time. pool_freed: a pool's memory is freed at once; EARLY
// 1: while it is written. handed_on: a pool's memory is given back, and out again, in one stream; EARLY 1: while
// another reads it. freed: the stream waits for a value that was written into memory which another allocation has now.
// keeps: the write, then memory cannot be freed; EARLY 1: nothing waits, and 0: it can. shared, shared_host: another
// process waits for the write, and records an event for which the other stream waits, or the host; EARLY 1: the event
// that it waits for comes before the write. opened: memory of another process is written. failing (a copy), killed
// (while a copy's call waits; prints "done" before), unwritten (a wait for a value that nobody is seen writing),
// left_out (a call that is not followed). Prints "done".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/tracer/driver_check.h"

extern "C" void fake_while_copying(void (*happens)());

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1];
  const bool early = std::atoi(argv[2]);
  CHECK(cuInit(0));
  CUstream one = nullptr, other = nullptr;
  CUdeviceptr memory = 0, more = 0, word = 0;
  CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc_v2(&memory, 4096));
  CHECK(cuMemAlloc_v2(&more, 4096));
  CHECK(cuMemAlloc_v2(&word, 4));
  const auto event = reinterpret_cast<CUevent>(0x10), begin = reinterpret_cast<CUevent>(0x20);
  CUdeviceptr from[] = {more, more + 256}, to[] = {early ? more + 512 : memory, more + 1024};
  std::size_t bytes[] = {64, 64};
  CUmemcpyAttributes attributes{};
  std::size_t index = 0;
  CUDA_MEMCPY3D_BATCH_OP volume{};
  volume.src.type = volume.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  volume.src.op.ptr.ptr = from[0];
  volume.dst.op.ptr.ptr = to[0];
  volume.extent = {64, 1, 1};
  CUDA_MEMCPY3D_PEER peer{};
  peer.srcMemoryType = peer.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  peer.srcDevice = from[0];
  peer.dstDevice = to[0];
  peer.WidthInBytes = 64;
  peer.Height = peer.Depth = 1;

  if (what == "within") {
    to[0] = more + 512;
    if (!early) from[1] = to[0];
  }
  if (what == "batch" || what == "within")
    CHECK(cuMemcpyBatchAsync_v2(to, from, bytes, 2, &attributes, &index, 1, one));
  if (what == "batch_first") CHECK(cuMemcpyBatchAsync(to, from, bytes, 2, &attributes, &index, 1, &index, one));
  if (what == "volumes") CHECK(cuMemcpy3DBatchAsync_v2(1, &volume, 0, one));
  if (what == "peer") CHECK(cuMemcpy3DPeerAsync(&peer, one));
  if (what == "to_array") CHECK(cuMemcpyDtoA_v2(nullptr, 0, to[0], 64));

  const auto write = [&] { CHECK(cuMemsetD32Async(memory, 1, 16, one)); };
  CUstreamBatchMemOpParams value{};
  const auto tell = [&] {
    value.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    value.writeValue.address = word;
    if (what == "values") CHECK(cuStreamWriteValue32_v2(one, word, 1, 0));
    if (what == "batch_of_values") CHECK(cuStreamBatchMemOp_v2(one, 1, &value, 0));
    if (what == "elapsed") CHECK(cuEventRecord(event, one));
  };
  if (what == "values" || what == "batch_of_values" || what == "elapsed") {
    CHECK(cuEventRecord(begin, one));
    if (early) tell();
    write();
    if (!early) tell();
    value.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    value.waitValue.address = word;
    float milliseconds = 0;
    if (what == "values") CHECK(cuStreamWaitValue32_v2(other, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    if (what == "batch_of_values") CHECK(cuStreamBatchMemOp_v2(other, 1, &value, 0));
    if (what == "elapsed") CHECK(cuEventElapsedTime_v2(&milliseconds, begin, event));
  }
  if (what.starts_with("shared")) {
    CUipcEventHandle handle{};
    CUevent of_another = nullptr;
    CHECK(cuIpcGetEventHandle(&handle, event));
    CHECK(cuIpcOpenEventHandle(&of_another, handle));
    if (early) CHECK(cuEventRecord(event, one));
    write();
    if (!early) CHECK(cuEventRecord(event, one));
    if (what == "shared") CHECK(cuStreamWaitEvent(other, of_another, 0));
    if (what == "shared_host") CHECK(cuEventQuery(of_another));
  }
  if (what == "opened") {
    CHECK(cuIpcOpenMemHandle_v2(&memory, {}, 0));
    write();
    if (!early) CHECK(cuStreamSynchronize(one));
  }
  if (what == "counted") {
    CHECK(cuStreamWriteValue32_v2(one, word, 1, 0));
    write();
    CHECK(cuStreamWriteValue32_v2(one, word, 2, 0));
    CHECK(cuStreamWaitValue32_v2(other, word, early ? 1 : 2, CU_STREAM_WAIT_VALUE_GEQ));
  }
  if (what == "freed") {
    write();
    CHECK(cuStreamWriteValue32_v2(one, word, 1, 0));
    CHECK(cuMemFree_v2(word));
    CHECK(cuMemAlloc_v2(&word, 4));
    CHECK(cuStreamWaitValue32_v2(other, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  }
  if (what == "keeps") {
    write();
    if (early) CHECK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if ((cuMemFree_v2(more) == CUDA_SUCCESS) == early) return 1;
    CUgraph graph = nullptr;
    if (early) CHECK(cuStreamEndCapture(other, &graph));
    if (early) CHECK(cuMemsetD32Async(more, 1, 16, one));
  }
  if (what == "completion" || what == "triggered") {
    CUlaunchAttribute attribute{};
    if (what == "completion") {
      attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
      attribute.value.launchCompletionEvent.event = event;
    } else {
      attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
      attribute.value.programmaticEvent.event = event;
    }
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = one;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CUdeviceptr written = early ? memory : more;
    int number = 0;
    void* parameters[] = {&written, &number};
    if (!early) write();
    CHECK(cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(0x100), parameters, nullptr));
    CHECK(cuStreamWaitEvent(other, event, 0));
  }
  static CUdeviceptr touched = 0;
  static CUstream elsewhere = nullptr;
  touched = memory;
  elsewhere = other;
  const auto beside = [] { // another host thread writes, and waits for that
    std::thread([] {
      CHECK(cuMemsetD32Async(touched, 3, 16, elsewhere));
      CHECK(cuStreamSynchronize(elsewhere));
    }).join();
  };
  std::vector<std::uint8_t> host(64);
  if (what == "copying") {
    if (early)
      fake_while_copying(beside);
    else
      beside();
    CHECK(cuMemcpyDtoH_v2(host.data(), memory, host.size()));
  }
  if (what == "failing") {
    fake_while_copying(beside);
    if (cuMemcpyDtoH_v2(nullptr, memory, host.size()) == CUDA_SUCCESS) return 1;
  }
  if (what == "killed") {
    fake_while_copying([] {
      CHECK(cuMemsetD32Async(touched, 3, 16, elsewhere));
      std::this_thread::sleep_for(std::chrono::seconds(4));
      std::printf("done\n");
      std::fflush(stdout);
      raise(SIGKILL);
    });
    CHECK(cuMemcpyDtoH_v2(host.data(), memory, host.size()));
  }
  if (what == "source" || what == "source_later") { // of a batch's copy
    const bool later = what == "source_later";
    to[0] = more + 512;
    attributes.srcAccessOrder = early   ? CU_MEMCPY_SRC_ACCESS_ORDER_ANY
                                : later ? CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
                                        : CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    if (!later) CHECK(cuMemsetD32Async(more, 1, 16, one));
    CHECK(cuMemcpyBatchAsync_v2(to, from, bytes, 1, &attributes, &index, 1, one));
    if (later) CHECK(cuMemsetD32Async(more, 1, 16, other));
  }
  if (what == "pool_freed") { // at once, though it is a pool's
    CUdeviceptr pool = 0;
    CHECK(cuMemAllocAsync(&pool, 64, one));
    CHECK(cuMemsetD32Async(pool, 1, 16, one));
    if (!early) CHECK(cuStreamSynchronize(one));
    CHECK(cuMemFree_v2(pool));
  }
  if (what == "handed_on") {
    CUdeviceptr pool = 0, again = 0;
    CHECK(cuMemAllocAsync(&pool, 64, one));
    CHECK(cuMemsetD32Async(pool, 1, 16, one));
    CHECK(cuEventRecord(event, one));
    CHECK(cuStreamWaitEvent(other, event, 0));
    CHECK(cuMemcpyDtoDAsync_v2(memory, pool, 64, other));
    CHECK(cuEventRecord(begin, other));
    if (!early) CHECK(cuStreamWaitEvent(one, begin, 0));
    CHECK(cuMemFreeAsync(pool, one));
    CHECK(cuMemAllocAsync(&again, 64, one));
    if (again != pool) return 3;
    CHECK(cuMemsetD32Async(again, 2, 16, one));
  }
  if (what == "unwritten") CHECK(cuStreamWaitValue32_v2(other, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  if (what == "left_out") CHECK(cuMemBatchDecompressAsync(nullptr, 0, 0, nullptr, one));
  CHECK(cuMemsetD32Async(memory, 2, 16, other));
  std::printf("done\n");
  return 0;
}
