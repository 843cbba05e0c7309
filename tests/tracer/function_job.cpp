// A job whose host functions write page-locked memory, beside the job as a driver's do, over fake_cuda.cpp:
// function_job WHAT FAULT
//
// With FAULT 1 nothing orders the function with a copy of another stream, with 0 that waits for an event behind the
// function: upload (the copy reads what the function writes), download (it writes there), early (upload; the function
// begins before the call that submits it has returned), kept (upload, submitted before the function; right: the
// function's stream waits for it), late (likewise, and the host has waited for the copy when the function begins, but
// not when it was submitted), spins (upload; who waits for the function's stream does not sleep), callback (a stream's
// callback writes), part (one byte), registered (the program's own memory), budget (beside 100 MiB that nobody uses),
// within (likewise, and lies in them; right: the host waits for the copy before the function is submitted), learned
// (the twelfth time the function writes; with FAULT 1 it had written the first time, too), wakes (the function waits
// for the host, which tells it once it has waited for the copy, or before; what follows the function writes what the
// copy brings). Right, with FAULT 0 and 1: thread (another thread runs meanwhile), woken (likewise, from when
// the function has begun), busy (a download of a busy stream
// into the memory; with FAULT 1 into other memory: that is a race then), kernel (one that may tell the host something),
// combined (write-combined memory), shared (with other processes), vanishes (memory that is registered is unmapped),
// other (another function runs at the same time), sleeps (the function does), copied (a call that waits copies into the
// memory), unused (of 100 MiB what no copy uses is written). many: as many functions as FAULT says, which write
// nothing; prints how long their submission and they took, in microseconds each. Prints "done".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "tests/tracer/driver_check.h"

extern "C" void fake_functions_beside(bool slowly, bool later, bool actively);
extern "C" void fake_while_copying(void (*happens)());
extern "C" void fake_device_is_busy(bool is);

namespace {

constexpr std::size_t bytes = 8192, large = std::size_t(100) << 20;

struct Job {
  CUstream filling = nullptr, copying = nullptr;
  CUdeviceptr device = 0, other = 0;
  CUevent event = reinterpret_cast<CUevent>(0x10), second = reinterpret_cast<CUevent>(0x20);
  int number = 0; // FAULT
  bool fault = false;
  std::string what;

  // What the functions use.
  std::uint8_t* host = nullptr;
  std::size_t from = 0, count = bytes;
  std::atomic<int> runs{0};
  std::atomic<bool> begun{false}; // of one that waits, or of the other one
  int writes_from = 0;
  bool write_first = false;
  void* unmapped = nullptr;
  std::mutex guard;
  std::condition_variable changed;
  bool may_go_on = false;
  std::atomic<bool> beside{false}; // a thread that counts turns
  std::atomic<unsigned> turns{0};

  static std::uint8_t* pinned(std::size_t count = bytes, unsigned flags = 0) {
    void* at = nullptr;
    CHECK(cuMemHostAlloc(&at, count, flags));
    if (count == bytes) std::memset(at, 1, count);
    return static_cast<std::uint8_t*>(at);
  }
  static std::uint8_t* own(int kind) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    CHECK(cuMemHostRegister_v2(at, bytes, 0));
    std::memset(at, 1, bytes);
    return static_cast<std::uint8_t*>(at);
  }
  void upload() const { CHECK(cuMemcpyHtoDAsync_v2(device, host + from, count, copying)); }
  void submit(CUhostFn function) { CHECK(cuLaunchHostFunc(filling, function, this)); }
  void copy_waits() const {
    CHECK(cuEventRecord(event, filling));
    if (!fault) CHECK(cuStreamWaitEvent(copying, event, 0));
  }
  void finish() const {
    CHECK(cuStreamSynchronize(filling));
    CHECK(cuStreamSynchronize(copying));
    CHECK(cuCtxSynchronize());
  }
};

void fill(void* of) {
  auto& job = *static_cast<Job*>(of);
  const int run = ++job.runs;
  if (job.unmapped) munmap(job.unmapped, bytes);
  if (job.what == "woken") {
    job.beside = true;
    job.beside.notify_one();
  }
  for (const unsigned turn = job.turns; job.beside && job.turns == turn;) {
  }
  if (job.what == "sleeps") usleep(1000);
  if (run < job.writes_from && !(job.write_first && run == 1)) return;
  for (std::size_t i = 0; i < job.count; ++i) job.host[job.from + i] = std::uint8_t(job.host[job.from + i] + 3);
}

void CUDA_CB fill_back(CUstream, CUresult, void* of) { fill(of); }

void wakes(void* of) {
  auto& job = *static_cast<Job*>(of);
  job.begun = true;
  std::unique_lock<std::mutex> hold(job.guard);
  job.changed.wait(hold, [&] { return job.may_go_on; });
  fill(of);
}

// A function, and a copy of another stream.
void usual(Job& job) {
  if (!job.host) job.host = Job::pinned();
  job.submit(fill);
  job.copy_waits();
  job.upload();
  job.finish();
}

void download(Job& job) {
  job.host = Job::pinned();
  job.submit(fill);
  job.copy_waits();
  CHECK(cuMemcpyDtoHAsync_v2(job.host, job.device, bytes, job.copying));
  job.finish();
}

void kept(Job& job) {
  job.host = Job::pinned();
  job.upload();
  CHECK(cuEventRecord(job.second, job.copying));
  if (!job.fault) CHECK(cuStreamWaitEvent(job.filling, job.second, 0));
  job.submit(fill);
  job.finish();
}

void late(Job& job) {
  job.host = Job::pinned();
  job.upload();
  CHECK(cuEventRecord(job.second, job.copying));
  if (!job.fault) CHECK(cuStreamWaitEvent(job.filling, job.second, 0));
  job.submit(fill);
  CHECK(cuStreamSynchronize(job.copying));
  job.finish();
}

void copied(Job& job) {
  static Job* of = nullptr;
  static std::atomic<bool> copying{false};
  of = &job;
  job.host = Job::pinned();
  fake_while_copying([] {
    copying = true;
    while (of->runs == 0) usleep(100'000);
  });
  std::thread other([&] { CHECK(cuMemcpyDtoH_v2(job.host, job.device, bytes)); });
  while (!copying) usleep(100);
  job.submit(fill);
  CHECK(cuStreamSynchronize(job.filling));
  other.join();
}

void callback(Job& job) {
  job.host = Job::pinned();
  CHECK(cuStreamAddCallback(job.filling, fill_back, &job, 0));
  job.copy_waits();
  job.upload();
  job.finish();
}

void within(Job& job) {
  job.host = Job::pinned(large);
  job.from = large / 2;
  if (job.what == "within") job.upload();
  if (!job.fault) CHECK(cuStreamSynchronize(job.copying));
  job.submit(fill);
  CHECK(cuStreamSynchronize(job.filling));
  job.finish();
}

void learned(Job& job) {
  job.host = Job::pinned();
  job.write_first = job.fault;
  job.writes_from = 12;
  for (int i = 1; i < 12; ++i) {
    job.submit(fill);
    CHECK(cuStreamSynchronize(job.filling));
  }
  job.submit(fill);
  CHECK(cuEventRecord(job.event, job.filling));
  job.upload();
  job.finish();
}

void told(Job& job) {
  job.host = Job::pinned();
  std::uint8_t* const result = Job::pinned();
  const auto tell = [&] {
    const std::lock_guard<std::mutex> hold(job.guard);
    job.may_go_on = true;
    job.changed.notify_one();
  };
  job.submit(wakes);
  CHECK(cuMemcpyHtoDAsync_v2(job.device, result, bytes, job.filling));
  job.upload(); // behind it, as submissions go
  if (!job.fault) CHECK(cuStreamSynchronize(job.copying));
  while (!job.begun) usleep(100);
  usleep(20'000); // it waits by then
  tell();
  job.finish();
}

void thread(Job& job) {
  job.beside = job.what == "thread";
  std::thread runs([&] {
    job.beside.wait(false);
    while (job.beside) ++job.turns;
  });
  job.fault = true;
  usual(job);
  job.beside = false;
  runs.join();
}

void busy(Job& job) {
  job.host = Job::pinned();
  std::uint8_t* const elsewhere = Job::pinned();
  CHECK(cuMemcpyDtoHAsync_v2(job.fault ? elsewhere : job.host, job.device, bytes, job.copying));
  fake_device_is_busy(true);
  job.submit(fill);
  if (job.fault) job.upload();
  CHECK(cuStreamSynchronize(job.filling));
  fake_device_is_busy(false);
  job.finish();
}

void kernel(Job& job) {
  job.host = Job::pinned();
  auto flag = reinterpret_cast<CUdeviceptr>(Job::pinned());
  int number = 0;
  void* parameters[] = {&flag, &number};
  CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(0x100), 1, 1, 1, 1, 1, 1, 0, job.copying, parameters, nullptr));
  job.fault = true;
  usual(job);
}

void other(Job& job) {
  CUstream third = nullptr;
  CHECK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
  CHECK(cuLaunchHostFunc(
      third,
      [](void* of) { // until the job's has run
        auto& job = *static_cast<Job*>(of);
        job.begun = true;
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        while (!job.runs && std::chrono::steady_clock::now() < until) {
        }
      },
      &job));
  while (!job.begun) usleep(100);
  job.fault = true;
  usual(job);
  CHECK(cuStreamSynchronize(third));
}

void many(Job& job) {
  const int functions = job.number;
  using Clock = std::chrono::steady_clock;
  job.host = Job::pinned();
  job.writes_from = functions + 1;
  const auto begun = Clock::now();
  for (int i = 0; i < functions; ++i) job.submit(fill);
  const auto submitted = Clock::now();
  CHECK(cuStreamSynchronize(job.filling));
  const std::chrono::duration<double, std::micro> first = submitted - begun, all = Clock::now() - begun;
  std::printf("%.2f %.2f\n", first.count() / functions, all.count() / functions);
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  Job job;
  job.what = argv[1];
  job.number = std::atoi(argv[2]);
  job.fault = job.number == 1;
  CHECK(cuInit(0));
  CHECK(cuStreamCreate(&job.filling, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&job.copying, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc_v2(&job.device, bytes));
  CHECK(cuMemAlloc_v2(&job.other, bytes));
  fake_functions_beside(job.what == "early", job.what == "late", job.what == "spins");
  if (job.what == "part") job.from = 77, job.count = 1;
  if (job.what == "sleeps") job.fault = true;
  if (job.what == "registered") job.host = Job::own(MAP_PRIVATE);
  if (job.what == "shared") job.host = Job::own(MAP_SHARED), job.fault = true;
  if (job.what == "combined") job.host = Job::pinned(bytes, CU_MEMHOSTALLOC_WRITECOMBINED), job.fault = true;
  if (job.what == "vanishes") job.unmapped = Job::own(MAP_PRIVATE), job.fault = true, job.writes_from = 9;
  if (job.what == "budget") Job::pinned(large);
  const std::map<std::string, void (*)(Job&)> others = {
      {"download", download}, {"kept", kept},     {"late", late},       {"copied", copied}, {"callback", callback},
      {"within", within},     {"unused", within}, {"learned", learned}, {"wakes", told},    {"thread", thread},
      {"woken", thread},      {"busy", busy},     {"kernel", kernel},   {"other", other},   {"many", many}};
  const auto runs = others.find(job.what);
  (runs == others.end() ? usual : runs->second)(job);
  std::printf("done\n");
  return 0;
}
