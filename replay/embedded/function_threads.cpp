#include "replay/embedded/function_threads.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "replay/device/other_threads.h"

namespace deadheat::embedded {

using std::chrono::milliseconds;

struct FunctionThreads::Worker {
  std::condition_variable wake;
  std::function<void()> function; // that it is to run, or runs
  std::shared_ptr<std::atomic<bool>> over;
  bool begun = false; // it runs it
  int thread = 0; // the kernel's number
  clockid_t clock{};
};

FunctionThreads::FunctionThreads() = default;
FunctionThreads::~FunctionThreads() = default;

namespace {

constexpr std::uint64_t soon_asleep = 3, soon_computing = 10; // milliseconds

std::uint64_t computed(clockid_t clock) { // nanoseconds
  timespec time{};
  clock_gettime(clock, &time);
  return std::uint64_t(time.tv_sec) * 1'000'000'000 + std::uint64_t(time.tv_nsec);
}

// By what Linux says of it (proc(5), stat); true where nobody can tell.
bool sleeps(int thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() || text[name_end + 2] == 'S';
}

} // namespace

void FunctionThreads::work(Worker& worker) {
  std::unique_lock hold(guard_);
  worker.thread = int(syscall(SYS_gettid));
  for (;;) {
    worker.wake.wait(hold, [&] { return bool(worker.function); });
    worker.begun = true;
    hold.unlock();
    worker.function();
    hold.lock();
    worker.begun = false;
    worker.function = nullptr;
    worker.over->store(true, std::memory_order_release);
    ended_.notify_all();
  }
}

FunctionThreads::Worker* FunctionThreads::idle_worker() {
  for (const auto& worker : workers_)
    if (!worker->function) return worker.get();
  workers_.reserve(workers_.size() + 1);
  auto made = std::make_unique<Worker>();
  sigset_t all, before;
  sigfillset(&all);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, signal);
  pthread_sigmask(SIG_SETMASK, &all, &before); // the thread has the mask of its maker
  try {
    std::thread thread([this, worker = made.get()] { work(*worker); });
    device::name_own_thread(thread, "host");
    pthread_getcpuclockid(thread.native_handle(), &made->clock);
    thread.detach();
    workers_.push_back(std::move(made));
  } catch (const std::system_error&) {
    // The caller runs the function, then.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made ? nullptr : workers_.back().get();
}

// False: it sleeps or computes for so long that it may be waiting for the host.
bool FunctionThreads::ends(std::unique_lock<std::mutex>& hold, Worker& worker, Ways& ways, std::uint64_t patience) {
  const std::shared_ptr<const std::atomic<bool>> over = worker.over;
  const std::uint64_t begun = computed(worker.clock), most_asleep = ways.sleeps ? soon_asleep : patience / 4 + 1,
                      most_computing = (ways.computes ? soon_computing : patience) * 1'000'000;
  // Sleep is counted in looks: by the clock, other processes would have a say in it.
  for (std::uint64_t asleep = 0; !ended_.wait_for(hold, milliseconds(1), [&] { return over->load(); });) {
    if (patience == 0) continue;
    asleep += worker.begun && sleeps(worker.thread);
    if (asleep >= most_asleep) return !(ways.sleeps = true);
    if (computed(worker.clock) - begun >= most_computing) return !(ways.computes = true);
  }
  return true;
}

device::RunsOn FunctionThreads::run(CallLock& lock, const void* code, std::function<void()> function,
                                    std::uint64_t patience) {
  ++awaited_;
  lock.unlock();
  std::unique_lock hold(guard_);
  device::RunsOn runs_on;
  if (Worker* worker = idle_worker()) {
    worker->over = std::make_shared<std::atomic<bool>>(false);
    worker->function = std::move(function);
    const device::RunsOn over = worker->over;
    worker->wake.notify_one();
    if (!ends(hold, *worker, ways_[code], patience)) runs_on = over;
    hold.unlock();
  } else {
    hold.unlock();
    function();
  }
  lock.lock();
  --awaited_;
  return runs_on;
}

void FunctionThreads::await_an_end() {
  std::unique_lock hold(guard_);
  ended_.wait_for(hold, milliseconds(1));
}

} // namespace deadheat::embedded
