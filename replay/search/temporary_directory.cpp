#include "replay/search/temporary_directory.h"

#include <limits.h>
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

// Of what a handler may call (signal-safety(7)) nothing walks a directory: another process does.
void remove_and_end(int number) {
  const int error = errno;
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
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
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
