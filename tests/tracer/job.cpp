// A job that uses the driver: job LAUNCHES THREADS END
//
// Each thread launches on a stream of its own, in a range "step N"; every tenth launch fails, as it should. END:
// return, _exit, kill (SIGKILL, after half a second), fork (the child launches too, and ends first), exec (itself, to
// return), forks (children that free memory and leave, while other threads launch), crash (a launch whose argument
// cannot be read; the handler of the signal calls _exit), crash_exit (it calls exit), endless (main returns while other
// threads go on launching), sigwait (all threads block a signal, and one waits for it),
// short (threads that launch and end, one behind the other; says by how many KiB memory has grown), empty (allocates
// nothing, in a stream), detach (takes CUPTI out of the process for a while), time (says nanoseconds of the first
// thread's CPU a launch; it pauses after every 200, as jobs do), or turns (takes THREADS turns of ten times LAUNCHES,
// with other processes: tests/gpu/train.py, --turns), slow (whoever writes to a file is held up for 20 ms each time),
// modules (loads so many modules with a thousand functions, launches each, and unloads them; says milliseconds),
// stalled (for ever, after a while). Slow and stalled say by how many MiB memory had grown at most.
#include <cuda.h>
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <nvtx3/nvToolsExt.h>

// Storage that is slow. (The system's write by another name.)
static std::atomic<int> microseconds_a_write{0};
extern "C" __attribute__((visibility("default"))) ssize_t write(int file, const void* data, std::size_t bytes) {
  if (file > STDERR_FILENO && microseconds_a_write) usleep(useconds_t(microseconds_a_write));
  return syscall(SYS_write, file, data, bytes);
}

namespace {

long peak() { // KiB of memory
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

double thread_time() { // nanoseconds
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) * 1e9 + double(now.tv_nsec);
}

// Returns the CPU time that launches took; with pauses between every 200, which do not count.
double work(int launches, bool failures, bool pauses = false) {
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  cuMemAlloc(&memory, 1 << 20);
  double taken = 0, begin = thread_time();
  for (int i = 0; i < launches; ++i) {
    if (i % 100 == 0) nvtxRangePushA(("step " + std::to_string(i / 100)).c_str());
    CUdeviceptr pointer = memory + 256;
    int number = i;
    void* parameters[] = {&pointer, &number};
    const auto kernel = reinterpret_cast<CUfunction>(std::uintptr_t(0x100 + 16 * (i % 7)));
    cuLaunchKernel(kernel, failures && i % 10 == 9 ? 0 : 4, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr);
    if (i % 100 == 99) nvtxRangePop();
    if (pauses && i % 200 == 199) {
      taken += thread_time() - begin;
      usleep(5000);
      begin = thread_time();
    }
  }
  taken += thread_time() - begin;
  cuStreamSynchronize(stream);
  cuMemFree(memory);
  return taken;
}

double time_of_modules(int count) { // milliseconds
  const double begin = thread_time();
  std::vector<CUmodule> modules(std::size_t(count), nullptr);
  for (CUmodule& module : modules) {
    cuModuleLoadData(&module, "none");
    for (int i = 0; i < 1000; ++i) {
      CUfunction function = nullptr;
      CUdeviceptr pointer = 0;
      int number = i;
      void* parameters[] = {&pointer, &number};
      cuModuleGetFunction(&function, module, "work");
      cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
    }
  }
  for (const CUmodule module : modules) cuModuleUnload(module);
  return (thread_time() - begin) / 1e6;
}

std::size_t growth_of_short_threads(int threads) {
  const auto some = [](int count) {
    for (int i = 0; i < count; ++i) std::thread([] { work(2, false); }).join();
  };
  some(threads / 10);
  const std::size_t before = mallinfo2().uordblks;
  some(threads);
  usleep(300'000); // what there is gets written
  return (mallinfo2().uordblks - std::min(before, mallinfo2().uordblks)) / 1024;
}

// True: all of them have left.
bool forks(int children) {
  std::atomic<bool> over{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 3; ++t) {
    busy.emplace_back([&] {
      while (!over) work(100, false);
    });
  }
  bool left = true;
  for (int i = 0; left && i < children; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      cuMemFree(0x7f0000000000);
      _exit(0);
    }
    pid_t ended = 0;
    for (int waited = 0; waited < 5000 && ended == 0; ++waited) {
      ended = waitpid(child, nullptr, WNOHANG);
      if (!ended) usleep(1000);
    }
    left = ended == child;
    if (!left) kill(child, SIGKILL);
  }
  over = true;
  for (std::thread& thread : busy) thread.join();
  return left;
}

void crash(bool at_once) {
  struct sigaction action{};
  action.sa_handler = at_once ? [](int) { _exit(3); } : [](int) { std::exit(3); };
  sigaction(SIGSEGV, &action, nullptr);
  void* unreadable = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int number = 0;
  void* parameters[] = {unreadable, &number};
  cuLaunchKernel(reinterpret_cast<CUfunction>(0x100), 4, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr);
}

bool waits_for_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  kill(getpid(), SIGTERM);
  const timespec most{5, 0};
  return sigtimedwait(&set, nullptr, &most) == SIGTERM;
}

void take_turns(int launches, int turns) {
  std::printf("turn\n");
  std::fflush(stdout);
  char line[64];
  for (int i = 0; i < turns && std::fgets(line, sizeof line, stdin); ++i) {
    if (std::strcmp(line, "recorded\n") == 0)
      reinterpret_cast<void (*)(unsigned)>(dlsym(RTLD_DEFAULT, "deadheat_layers"))(7);
    else if (std::strcmp(line, "detached\n") == 0)
      reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "deadheat_detach"))();
    const double taken = work(10 * launches, false) / 1e7;
    std::printf("turn %.6f %.6f\n", taken, taken);
    std::fflush(stdout);
  }
  std::printf("losses none\n");
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int launches = std::atoi(argv[1]), threads = std::atoi(argv[2]);
  const std::string end = argv[3];
  cuInit(0);
  if (end == "turns") return take_turns(launches, threads), 0;
  const long before = peak();
  const bool slow = end == "slow", stalled = end == "stalled";
  if (slow) microseconds_a_write = 20'000;
  if (stalled) microseconds_a_write = 3'600'000'000 / 2;
  std::vector<std::thread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back(work, launches, end != "time", end == "time");
  const double taken = work(launches, end != "time", end == "time");
  for (std::thread& worker : workers) worker.join();
  if (slow || stalled) std::printf("%ld MiB\n", (peak() - before) / 1024);
  if (end == "modules") {
    const double few = time_of_modules(threads), many = time_of_modules(10 * threads);
    std::printf("%.1f %.1f ms\n", few, many);
  }
  if (end == "forks" && !forks(60)) std::printf("a child hangs\n");
  if (end == "sigwait" && !waits_for_signal()) std::printf("the signal did not come\n");
  if (end == "detach") {
    reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "deadheat_detach"))();
    work(launches, true);
    reinterpret_cast<void (*)(unsigned)>(dlsym(RTLD_DEFAULT, "deadheat_layers"))(7);
    work(launches, true);
  }
  if (end == "short") std::printf("%zu KiB\n", growth_of_short_threads(3000));
  if (end == "empty") {
    CUdeviceptr nothing = 0;
    cuMemAllocAsync(&nothing, 0, nullptr);
  }
  if (end == "time") std::printf("%.0f ns a launch\n", taken / launches);
  std::printf("done\n");
  std::fflush(stdout);
  if (end == "_exit") _exit(3);
  if (end.starts_with("crash")) crash(end == "crash");
  if (end == "endless") {
    for (int t = 0; t < 4; ++t) {
      std::thread([] {
        for (;;) work(1000, false);
      }).detach();
    }
    usleep(100'000);
  }
  if (end == "kill") {
    usleep(1'500'000);
    raise(SIGKILL);
  }
  if (end == "exec") execl(argv[0], argv[0], argv[1], argv[2], "return", nullptr);
  if (end == "fork") {
    const pid_t child = fork();
    if (child == 0) {
      work(launches, true);
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    work(launches, true);
  }
  return 3;
}
