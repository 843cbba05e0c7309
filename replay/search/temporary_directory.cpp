#include "replay/search/temporary_directory.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace deadheat::search {

namespace {

// For handlers of signals: written before it is told of.
struct Entry {
  std::atomic<bool> taken{false}, there{false};
  char path[PATH_MAX] = {};
};
constinit std::array<Entry, 16> entries;

void enter(const std::string& path) {
  for (Entry& entry : entries) {
    if (path.size() >= sizeof entry.path || entry.taken.exchange(true)) continue;
    std::memcpy(entry.path, path.c_str(), path.size() + 1);
    entry.there = true;
    return;
  }
}

void leave(const std::string& path) {
  for (Entry& entry : entries) {
    if (!entry.there || path != entry.path) continue;
    entry.there = false;
    entry.taken = false;
    return;
  }
}

constexpr std::array ending_signals = {SIGINT, SIGTERM, SIGHUP};

// How many directories are being made, and whether a signal ends the process: whoever raises the one looks at the other
// then, so that no directory is made that the handler does not find.
constinit std::atomic<int> making = 0;
constinit std::atomic<bool> ending = false;

// While there is one, a directory can be made and entered: no signal ends this thread's process in between.
class Making {
 public:
  Making() {
    sigset_t ending_set;
    sigemptyset(&ending_set);
    for (const int number : ending_signals) sigaddset(&ending_set, number);
    pthread_sigmask(SIG_BLOCK, &ending_set, &before_);
    making += 1;
    if (!ending) return;
    making -= 1; // the process ends, whatever this thread still had to do
    for (;;) pause();
  }
  ~Making() {
    making -= 1;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

 private:
  sigset_t before_;
};

// Of what a handler may call (signal-safety(7)) nothing walks a directory: another process does.
void remove_and_end(int number) {
  const int error = errno;
  ending = true;
  while (making > 0) poll(nullptr, 0, 1);
  for (Entry& entry : entries) {
    if (!entry.there) continue;
    const pid_t child = _Fork();
    if (child == 0) {
      execl("/bin/rm", "rm", "-rf", "--", entry.path, static_cast<char*>(nullptr));
      _exit(127);
    }
    while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  errno = error;
  raise(number); // whose action is the default one again (SA_RESETHAND)
}

} // namespace

Expected<TemporaryDirectory> TemporaryDirectory::create(const std::string& what) {
  std::error_code error;
  std::string pattern = (std::filesystem::temp_directory_path(error) / (what + "-XXXXXX")).string();
  const Making guard;
  if (error || !mkdtemp(pattern.data())) return Error{"cannot make a temporary directory", pattern, "set TMPDIR"};
  enter(pattern);
  return TemporaryDirectory(pattern);
}

TemporaryDirectory::~TemporaryDirectory() {
  if (path_.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  leave(path_);
}

void remove_directories_on_signals() {
  for (const int number : ending_signals) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = remove_and_end;
    action.sa_flags = int(SA_RESETHAND);
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, number);
    sigaction(number, &action, nullptr);
  }
}

} // namespace deadheat::search
