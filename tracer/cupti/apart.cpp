#include "tracer/cupti/apart.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <memory>

#include "deadheat/own_files.h"
#include "tracer/cupti/no_signals.h"

namespace deadheat::cupti {

namespace {

using How = Ended::How;

constexpr std::size_t stack_bytes = std::size_t(64) << 10;
constexpr std::size_t most_output = std::size_t(1) << 30, most_said = std::size_t(16) << 10;
constexpr int first_other = 5; // descriptor that the program does not get

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

// What the two processes know and leave behind: they have the caller's memory, and allocate none.
struct Run {
  const char* path = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  int descriptors[first_other] = {};
  pid_t job = 0;
  std::chrono::milliseconds most{};
  std::byte* stack = nullptr; // of the program's process, until it is one
  int error = 0; // errno: it did not become the program
  bool begun = false, late = false;
  int status = 0; // of waitpid
};

void mean_what_they_mean_to_a_new_program() { // signals
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool place(const int (&descriptors)[first_other]) {
  int high[first_other];
  for (int i = 0; i < first_other; ++i) {
    high[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, first_other);
    if (high[i] < 0) return false;
  }
  for (int i = 0; i < first_other; ++i) {
    if (dup2(high[i], i) < 0) return false;
  }
  if (syscall(SYS_close_range, unsigned(first_other), ~0u, 0u) == 0) return true;
  rlimit files{}; // Linux before 5.9
  getrlimit(RLIMIT_NOFILE, &files);
  const int end = int(std::min<rlim_t>(files.rlim_cur, 1 << 16));
  for (int i = first_other; i < end; ++i) close(i);
  return true;
}

// The process that becomes the program. It has descriptors, handlers and limits of its own, but the caller's memory.
int become(void* data) {
  Run& run = *static_cast<Run*>(data);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid(); // what a terminal sends to the job is not meant for it
  // One byte: neither a file nor, other than 0 bytes, a program that takes dumps (core(5), "Piping core dumps").
  rlimit core{};
  getrlimit(RLIMIT_CORE, &core);
  core.rlim_max = std::min<rlim_t>(core.rlim_max, 1);
  core.rlim_cur = core.rlim_max;
  setrlimit(RLIMIT_CORE, &core);
  if (place(run.descriptors)) {
    mean_what_they_mean_to_a_new_program();
    execve(run.path, run.arguments, run.environment);
  }
  run.error = errno ? errno : EIO;
  syscall(SYS_exit_group, 127); // _exit() is the library's
  return 127;
}

timespec now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time;
}

std::chrono::milliseconds since(const timespec& begin) {
  const timespec end = now();
  return std::chrono::milliseconds((end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1'000'000);
}

// The process in between: it has the caller's memory and descriptors, and waits until the program has ended.
int stand_between(void* data) {
  Run& run = *static_cast<Run*>(data);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != run.job) return 0; // the job has ended meanwhile
  struct sigaction action{};
  action.sa_handler = SIG_DFL; // where it is ignored no status is kept (wait(2))
  sigaction(SIGCHLD, &action, nullptr);
  const timespec begin = now();
  const pid_t program = clone(become, run.stack + stack_bytes, CLONE_VM | CLONE_VFORK | SIGCHLD, data);
  if (program < 0) {
    run.error = errno;
    return 0;
  }
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  for (;;) {
    const pid_t who = waitpid(program, &run.status, run.late ? 0 : WNOHANG);
    if (who == program) break;
    if (who < 0 && errno != EINTR) {
      run.error = errno;
      return 0;
    }
    const std::chrono::milliseconds left = run.most - since(begin);
    if (left.count() <= 0 && !run.late) {
      run.late = true;
      kill(-program, SIGKILL); // with what it may have started
      kill(program, SIGKILL);
      continue;
    }
    const auto step = std::clamp<std::int64_t>(left.count(), 1, 1000);
    const timespec some{step / 1000, step % 1000 * 1'000'000};
    sigtimedwait(&ended, nullptr, &some);
  }
  run.begun = run.error == 0;
  return 0;
}

bool fill(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(std::size_t(written));
  }
  return lseek(file, 0, SEEK_SET) == 0;
}

std::string contents(int file, std::size_t most) {
  struct stat status{};
  if (fstat(file, &status) != 0 || status.st_size <= 0) return {};
  std::string bytes(std::min(std::size_t(status.st_size), most), '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t more = pread(file, bytes.data() + have, bytes.size() - have, off_t(have));
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    have += std::size_t(more);
  }
  bytes.resize(have);
  return bytes;
}

std::vector<char*> pointers(const std::vector<std::string>& words) { // ends in a null
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

// By a thread that takes no signals: one for a file that is too large (setrlimit(2)) would end the job.
Ended run_here(const Program& program) {
  Ended ended;
  const Descriptor nothing(above_standard(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  const Descriptor input(above_standard(memfd_create("deadheat-input", MFD_CLOEXEC)));
  const Descriptor output(above_standard(memfd_create("deadheat-output", MFD_CLOEXEC)));
  const Descriptor said(above_standard(memfd_create("deadheat-said", MFD_CLOEXEC)));
  const bool open = nothing.number() >= 0 && input.number() >= 0 && output.number() >= 0 && said.number() >= 0;
  if (!open || !fill(input.number(), program.input)) {
    ended.status = errno;
    return ended;
  }
  std::vector<std::string> words = program.arguments;
  words.insert(words.begin(), program.path);
  const std::vector<char*> arguments = pointers(words), environment = pointers(program.environment);
  const auto stacks = std::make_unique_for_overwrite<std::byte[]>(2 * stack_bytes);
  Run run;
  run.path = program.path.c_str();
  run.arguments = arguments.data();
  run.environment = environment.data();
  const int descriptors[] = {nothing.number(), said.number(), said.number(), input.number(), output.number()};
  std::copy(std::begin(descriptors), std::end(descriptors), run.descriptors);
  run.job = getpid();
  run.most = program.most;
  run.stack = stacks.get();
  // With the job's descriptors, not copies of them: else what the job closes would stay open until the program ends.
  const pid_t between =
      clone(stand_between, stacks.get() + 2 * stack_bytes, CLONE_VM | CLONE_VFORK | CLONE_FILES, &run);
  if (between < 0) {
    ended.status = errno;
    return ended;
  }
  while (waitpid(between, nullptr, __WCLONE) < 0 && errno == EINTR) {
  }
  if (!run.begun) {
    ended.status = run.error;
    return ended;
  }
  ended.how = run.late ? How::late : WIFSIGNALED(run.status) ? How::by_signal : How::exited;
  ended.status = WIFSIGNALED(run.status) ? WTERMSIG(run.status) : WEXITSTATUS(run.status);
  if (ended.how == How::exited) ended.output = contents(output.number(), most_output);
  ended.said = contents(said.number(), most_said);
  return ended;
}

} // namespace

Ended run_apart(const Program& program) {
  Ended ended;
  if (const int failed = on_quiet_thread([&] { ended = run_here(program); })) ended.status = failed;
  return ended;
}

} // namespace deadheat::cupti
