// A job that writes into page-locked memory out of which a copy may still have to read, over fake_cuda.cpp:
// refill_job WHAT FAULT
//
// With FAULT 1 the host's write is in no order with the copy, with 0 the two are right. What tells the host:
// staging (two buffers in turn, and events), wait (for the stream), device (for all), query (of the event, which
// succeeds), other_stream (which waits for the copy's), freed (device memory; to free is to wait), by_thread (another
// thread waits), by_function (a host function behind the copy). What is written: part (of the buffer; the fault: its
// last byte), plane (the gaps between rows; the fault: a row), large (64 MiB; the fault: all of it), registered (the
// program's own memory). Who writes: download (the device, after the copy; the fault: the host, before that),
// filled (a host function ahead of the copy; the fault: the host once it has run). batch (a copy of a batch that may
// read at any time; right: during the call). many (four threads upload out of a buffer each, over and over, and are
// told in any of these ways; the fault: one of them is not, once). meanwhile (another thread refills while this one
// waits; right: when it has waited itself). gap (a part of the run is left out, and what it did may go on; the fault:
// the host waits for the device, and refills then). given_back (page-locked memory is freed; the fault: refilled
// before). Who else may tell it: found (a kernel, by a flag whose address it finds in memory that it is given; the
// fault: it is given other memory). Without a fault that could be told for certain, with FAULT 0 and 1 alike:
// downloaded (the device writes the source late), mapped (a kernel reaches page-locked memory, before the copy or after
// it), combined (write-combined memory), vanishes (memory that is registered is unmapped), captured (the copy becomes a
// graph's node), unknown (a call that is not followed). Prints "done".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/tracer/driver_check.h"

extern "C" void fake_while_copying(void (*happens)());

namespace {

constexpr std::size_t bytes = 8192, most = std::size_t(64) << 20;

struct Job {
  CUstream stream = nullptr, other = nullptr;
  CUdeviceptr device = 0;
  CUevent event = reinterpret_cast<CUevent>(0x10), second = reinterpret_cast<CUevent>(0x20);
  bool fault = false;

  Job() {
    CHECK(cuInit(0));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&device, most));
  }
  static std::uint8_t* pinned(std::size_t count = bytes, unsigned flags = 0) {
    void* at = nullptr;
    CHECK(cuMemHostAlloc(&at, count, flags));
    std::memset(at, 1, count);
    return static_cast<std::uint8_t*>(at);
  }
  static std::uint8_t* own() {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(cuMemHostRegister_v2(at, bytes, 0));
    std::memset(at, 1, bytes);
    return static_cast<std::uint8_t*>(at);
  }
  void upload(const void* from, std::size_t count = bytes) const {
    CHECK(cuMemcpyHtoDAsync_v2(device, from, count, stream));
  }
  static void fill(std::uint8_t* at, int value = 2, std::size_t count = bytes) { std::memset(at, value, count); }
  void launch(CUdeviceptr at, CUstream where) const {
    int number = 0;
    void* parameters[] = {&at, &number};
    CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(0x100), 1, 1, 1, 1, 1, 1, 0, where, parameters, nullptr));
  }
};

void told(const Job& job, const std::string& what) {
  std::uint8_t* const host = Job::pinned();
  CUdeviceptr more = 0;
  CHECK(cuMemAlloc_v2(&more, 4096));
  job.upload(host);
  CHECK(cuEventRecord(job.event, job.stream));
  const auto tell = [&] {
    if (what == "wait") CHECK(cuStreamSynchronize(job.stream));
    if (what == "device") CHECK(cuCtxSynchronize());
    if (what == "query") CHECK(cuEventQuery(job.event));
    if (what == "freed") CHECK(cuMemFree_v2(more));
    if (what == "by_thread") std::thread([&] { CHECK(cuEventSynchronize(job.event)); }).join();
    if (what == "other_stream") CHECK(cuStreamSynchronize(job.other));
    if (what == "by_function") CHECK(cuStreamSynchronize(job.stream)); // its function runs meanwhile
  };
  static std::uint8_t* refilled = nullptr;
  refilled = host;
  if (what == "by_function" && !job.fault)
    CHECK(cuLaunchHostFunc(job.stream, [](void*) { Job::fill(refilled); }, nullptr));
  if (what == "other_stream") CHECK(cuStreamWaitEvent(job.other, job.event, 0));
  if (!job.fault) tell();
  if (what != "by_function" || job.fault) Job::fill(host);
  if (job.fault) tell();
  CHECK(cuStreamSynchronize(job.stream));
}

void staging(const Job& job) {
  std::uint8_t* buffers[] = {Job::pinned(), Job::pinned()};
  const CUevent copied[] = {job.event, job.second};
  for (int i = 0; i < 4; ++i) {
    if (!job.fault) CHECK(cuEventSynchronize(copied[i % 2]));
    Job::fill(buffers[i % 2], 10 + i);
    job.upload(buffers[i % 2]);
    CHECK(cuEventRecord(copied[i % 2], job.stream));
    job.launch(job.device, job.stream);
  }
}

void part(const Job& job) {
  std::uint8_t* const host = Job::pinned(2 * bytes);
  job.upload(host);
  job.fault ? Job::fill(host + bytes - 1, 2, 1) : Job::fill(host + bytes);
  CHECK(cuStreamSynchronize(job.stream));
}

void plane(const Job& job) {
  std::uint8_t* const host = Job::pinned();
  CUDA_MEMCPY2D c{};
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = host;
  c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.dstDevice = job.device;
  c.srcPitch = c.dstPitch = 256;
  c.WidthInBytes = 64;
  c.Height = bytes / 256;
  CHECK(cuMemcpy2DAsync_v2(&c, job.stream));
  Job::fill(host + 5 * 256 + (job.fault ? 63 : 64), 2, 100);
  CHECK(cuStreamSynchronize(job.stream));
}

void large(const Job& job) {
  std::uint8_t* const host = Job::pinned(most);
  job.upload(host, most);
  if (job.fault) Job::fill(host, 2, most);
  CHECK(cuStreamSynchronize(job.stream));
}

void registered(const Job& job) {
  std::uint8_t* const host = Job::own();
  job.upload(host);
  if (!job.fault) CHECK(cuStreamSynchronize(job.stream));
  Job::fill(host + 100, 2, 100);
  CHECK(cuMemHostUnregister(host));
}

void download(const Job& job) {
  std::uint8_t* const host = Job::pinned();
  job.upload(host);
  if (job.fault) Job::fill(host);
  CHECK(cuMemcpyDtoHAsync_v2(host, job.device + bytes, bytes, job.stream));
  CHECK(cuStreamSynchronize(job.stream));
}

void downloaded(const Job& job) {
  std::uint8_t* const host = Job::pinned();
  CHECK(cuMemcpyDtoHAsync_v2(host, job.device + bytes, bytes, job.stream));
  Job::fill(host, 1); // what the device has not brought yet
  job.upload(host);
  Job::fill(host, 7); // and now it has
  CHECK(cuStreamSynchronize(job.stream));
}

void filled(const Job& job) {
  static std::uint8_t* host = nullptr;
  host = Job::pinned();
  CHECK(cuLaunchHostFunc(job.stream, [](void*) { Job::fill(host, 3); }, nullptr));
  if (job.fault) CHECK(cuStreamSynchronize(job.stream));
  job.upload(host);
  if (job.fault) Job::fill(host, 4);
  CHECK(cuStreamSynchronize(job.stream));
  CHECK(cuStreamSynchronize(job.stream));
}

void batch(const Job& job) {
  std::uint8_t* const host = Job::pinned();
  CUdeviceptr from = reinterpret_cast<CUdeviceptr>(host), to = job.device;
  std::size_t size = bytes, index = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = job.fault ? CU_MEMCPY_SRC_ACCESS_ORDER_ANY : CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  CHECK(cuMemcpyBatchAsync_v2(&to, &from, &size, 1, &attributes, &index, 1, job.stream));
  Job::fill(host);
  CHECK(cuStreamSynchronize(job.stream));
}

void given_back(const Job& job) {
  std::uint8_t* const host = Job::pinned();
  job.upload(host);
  if (job.fault) Job::fill(host);
  CHECK(cuMemFreeHost(host));
  std::uint8_t* const again = Job::pinned(); // in the same place, most likely
  job.upload(again);
  CHECK(cuStreamSynchronize(job.stream));
}

// Each thread has a stream, a buffer and an event of its own; the one before waits for it half of the time.
void many(const Job& job) {
  constexpr int threads = 4, rounds = 200;
  struct One {
    CUstream stream = nullptr, other = nullptr;
    CUevent event = nullptr;
    std::uint8_t* host = nullptr;
    std::atomic<int> asked{0}, told{0}; // rounds: the neighbour is to wait, and has
  };
  static One all[threads];
  for (int t = 0; t < threads; ++t) {
    CHECK(cuStreamCreate(&all[t].stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&all[t].other, CU_STREAM_NON_BLOCKING));
    all[t].event = reinterpret_cast<CUevent>(std::uintptr_t(0x100 + t));
    all[t].host = Job::pinned();
  }
  const auto serve = [](int t) { // the neighbour, if it asks
    One& next = all[(t + 1) % threads];
    if (const int round = next.asked; round > next.told) {
      CHECK(cuEventSynchronize(next.event));
      next.told = round;
    }
  };
  std::atomic<int> running{threads};
  const auto work = [&](int t) {
    One& me = all[t];
    for (int round = 1; round <= rounds; ++round) {
      CHECK(cuMemcpyHtoDAsync_v2(job.device + bytes * std::size_t(t), me.host, bytes, me.stream));
      CHECK(cuEventRecord(me.event, me.stream));
      const bool leaves_out = job.fault && t == 2 && round == rounds / 2;
      const int way = leaves_out ? -1 : (round * 7 + t) % 6;
      if (way == 0) CHECK(cuStreamSynchronize(me.stream));
      if (way == 1) CHECK(cuEventQuery(me.event));
      if (way == 2) CHECK(cuStreamWaitEvent(me.other, me.event, 0));
      if (way == 2) CHECK(cuStreamSynchronize(me.other));
      if (way > 2) {
        me.asked = round;
        while (me.told < round) serve(t);
      }
      Job::fill(me.host, round % 251);
      serve(t);
    }
    for (--running; running; std::this_thread::yield()) serve(t);
  };
  std::vector<std::thread> others;
  for (int t = 0; t < threads; ++t) others.emplace_back(work, t);
  for (std::thread& thread : others) thread.join();
}

void meanwhile(const Job& job) {
  static std::uint8_t* host = nullptr;
  static CUevent event = nullptr;
  host = Job::pinned();
  event = job.fault ? nullptr : job.event;
  CHECK(cuMemcpyHtoDAsync_v2(job.device, host, bytes, nullptr));
  CHECK(cuEventRecord(job.event, nullptr));
  fake_while_copying([] {
    std::thread([] {
      if (event) CHECK(cuEventSynchronize(event));
      Job::fill(host);
    }).join();
  });
  std::vector<std::uint8_t> result(64);
  CHECK(cuMemcpyDtoH_v2(result.data(), job.device + bytes, result.size()));
}

void gap(const Job& job) {
  const auto change = reinterpret_cast<void (*)(unsigned)>(dlsym(RTLD_DEFAULT, "deadheat_layers"));
  std::uint8_t* const host = Job::pinned();
  change(0);
  change(7);
  if (job.fault) CHECK(cuCtxSynchronize());
  job.upload(host);
  Job::fill(host);
  CHECK(cuStreamSynchronize(job.stream));
}

void mapped(const Job& job) {
  std::uint8_t *const host = Job::pinned(), *const flag = Job::pinned();
  if (!job.fault) job.launch(reinterpret_cast<CUdeviceptr>(flag), job.other);
  job.upload(host);
  if (job.fault) job.launch(reinterpret_cast<CUdeviceptr>(flag), job.other);
  Job::fill(host); // when the flag said so
  CHECK(cuStreamSynchronize(job.stream));
}

void found(const Job& job) {
  std::uint8_t *const host = Job::pinned(), *const flag = Job::pinned();
  const std::uint64_t addresses[] = {0, reinterpret_cast<std::uint64_t>(flag)};
  CUdeviceptr table = 0, other = 0;
  CHECK(cuMemAlloc_v2(&table, 4096));
  CHECK(cuMemAlloc_v2(&other, 4096));
  CHECK(cuMemcpyHtoDAsync_v2(table + 64, addresses, sizeof addresses, job.stream));
  CHECK(cuStreamSynchronize(job.stream));
  job.upload(host);
  job.launch(job.fault ? other : table, job.stream);
  Job::fill(host); // when the flag said so
  CHECK(cuStreamSynchronize(job.stream));
}

void combined(const Job& job) {
  std::uint8_t* const host = Job::pinned(bytes, CU_MEMHOSTALLOC_WRITECOMBINED);
  job.upload(host);
  Job::fill(host);
  CHECK(cuStreamSynchronize(job.stream));
}

void vanishes(const Job& job) {
  std::uint8_t* const host = Job::own();
  job.upload(host);
  munmap(host, bytes);
  CHECK(cuStreamSynchronize(job.stream));
}

void captured(const Job& job) {
  std::uint8_t* const host = Job::pinned();
  CUgraph graph = nullptr;
  CHECK(cuStreamBeginCapture_v2(job.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  job.upload(host);
  CHECK(cuStreamEndCapture(job.stream, &graph));
  Job::fill(host);
  CHECK(cuStreamSynchronize(job.stream));
}

void unknown(const Job& job) {
  std::uint8_t* const host = Job::pinned();
  job.upload(host);
  CHECK(cuMemBatchDecompressAsync(nullptr, 0, 0, nullptr, job.stream));
  Job::fill(host);
  CHECK(cuStreamSynchronize(job.stream));
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1];
  Job job;
  job.fault = std::atoi(argv[2]);
  constexpr std::pair<const char*, void (*)(const Job&)> jobs[] = {{"staging", staging},
                                                                   {"part", part},
                                                                   {"plane", plane},
                                                                   {"large", large},
                                                                   {"registered", registered},
                                                                   {"download", download},
                                                                   {"filled", filled},
                                                                   {"downloaded", downloaded},
                                                                   {"many", many},
                                                                   {"meanwhile", meanwhile},
                                                                   {"gap", gap},
                                                                   {"batch", batch},
                                                                   {"mapped", mapped},
                                                                   {"found", found},
                                                                   {"unknown", unknown},
                                                                   {"given_back", given_back},
                                                                   {"combined", combined},
                                                                   {"vanishes", vanishes},
                                                                   {"captured", captured}};
  bool known = false;
  for (const auto& [name, run] : jobs) {
    if (what != name) continue;
    run(job);
    known = true;
  }
  if (!known) told(job, what);
  std::printf("done\n");
  return 0;
}
