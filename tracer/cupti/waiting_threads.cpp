#include "tracer/cupti/waiting_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "deadheat/own_files.h"

namespace deadheat::cupti {

namespace {

std::mutex& own_lock = *new std::mutex;
WaitingThreads::Waits& own_threads = *new WaitingThreads::Waits;

int this_thread() {
  static thread_local int number __attribute__((tls_model("initial-exec"))) = 0;
  if (!number) number = int(syscall(SYS_gettid));
  return number;
}

// The kernel's encoding of a clock of a thread of this process (linux/posix-timers.h, CPUCLOCK_SCHED, per thread).
clockid_t clock_of(int thread) { return clockid_t((~unsigned(thread) << 3) | 6); }

bool run_time(int thread, std::uint64_t& nanoseconds) {
  timespec time{};
  if (clock_gettime(clock_of(thread), &time) != 0) return false;
  nanoseconds = std::uint64_t(time.tv_sec) * 1'000'000'000 + std::uint64_t(time.tv_nsec);
  return true;
}

// What Linux says of the thread; empty: it has ended.
std::string told_of(int thread, const char* what) {
  char text[512];
  const int file =
      above_standard(open(("/proc/self/task/" + std::to_string(thread) + what).c_str(), O_RDONLY | O_CLOEXEC));
  if (file < 0) return {};
  const ssize_t bytes = read(file, text, sizeof text);
  close(file);
  return {text, std::size_t(bytes > 0 ? bytes : 0)};
}

// As the driver names its threads: "cuda-EvtHandlr", "cuda00001400006".
bool is_drivers(int thread) {
  const std::string name = told_of(thread, "/comm");
  std::string_view text = name;
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text == "cuda-EvtHandlr") return true;
  if (!text.starts_with("cuda") || text.size() != 15) return false;
  for (const char c : text.substr(4)) {
    if (!std::isdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

} // namespace

void WaitingThreads::enters() {
  std::lock_guard hold(lock_);
  waits_[this_thread()] = next_++;
}

void WaitingThreads::leaves() {
  std::lock_guard hold(lock_);
  waits_.erase(this_thread());
}

void WaitingThreads::is_own() {
  std::lock_guard hold(own_lock);
  own_threads[this_thread()] = 0;
}

void WaitingThreads::is_gone() {
  std::lock_guard hold(own_lock);
  own_threads.erase(this_thread());
}

WaitingThreads::Waits WaitingThreads::now() const {
  Waits waits;
  {
    std::lock_guard hold(own_lock);
    waits = own_threads;
  }
  std::lock_guard hold(lock_);
  waits.insert(waits_.begin(), waits_.end());
  return waits;
}

bool RunTimes::can_tell() {
  static const bool can = [] {
    constexpr std::uint64_t short_run = 20'000; // nanoseconds
    for (int tries = 0; tries < 100; ++tries) { // it may be interrupted
      std::uint64_t first = 0, second = 0;
      if (!run_time(this_thread(), first) || !run_time(this_thread(), second)) return false;
      if (second != first && second - first < short_run) return true;
    }
    return false;
  }();
  return can;
}

bool RunTimes::take() {
  run_.clear();
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(opendir("/proc/self/task"), closedir);
  if (!threads) return false;
  while (const dirent* entry = readdir(threads.get())) {
    const int thread = std::atoi(entry->d_name);
    if (thread <= 0 || thread == this_thread()) continue;
    std::uint64_t run = 0;
    if (run_time(thread, run)) run_[thread] = run; // else it has ended
  }
  return true;
}

// The state stands behind the name, which may hold anything.
bool RunTimes::none_is_ready(const WaitingThreads::Waits& waits) const {
  for (const auto& [thread, run] : run_) {
    const std::string stat = told_of(thread, "/stat");
    const std::size_t name_end = stat.rfind(')');
    const bool ready = name_end != stat.npos && name_end + 2 < stat.size() && stat[name_end + 2] == 'R';
    if (ready && !waits.count(thread) && !is_drivers(thread)) return false;
  }
  return true;
}

bool RunTimes::alike(const RunTimes& before, const WaitingThreads::Waits& waits,
                     const WaitingThreads::Waits& waited) const {
  const auto may_run = [&](int thread) {
    const auto now = waits.find(thread), then = waited.find(thread);
    return (now != waits.end() && then != waited.end() && now->second == then->second) || is_drivers(thread);
  };
  for (const auto& [thread, run] : run_) {
    const auto known = before.run_.find(thread);
    if ((known == before.run_.end() || known->second != run) && !may_run(thread)) return false;
  }
  for (const auto& [thread, run] : before.run_) {
    if (!run_.count(thread) && !waits.count(thread)) return false; // it has run to its end
  }
  return true;
}

} // namespace deadheat::cupti
