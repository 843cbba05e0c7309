// Files of ours in a process that is somebody else's: they take none of the program's standard descriptors, and a limit
// on the size of files (RLIMIT_FSIZE) is an error of ours and no signal to the program.
//
// Thread-safety: of one thread each.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace deadheat {

// Moves a descriptor that was just opened above those of standard input, output and error: where the program has closed
// one of these the next file gets its number, and all that the program prints. -1 and errno where it cannot be had, or
// where `descriptor` is -1. It is closed on exec.
inline int above_standard(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int above = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int number = errno;
  ::close(descriptor);
  errno = number;
  return above;
}

// Holds back SIGXFSZ while it lives and takes away the one that a write of ours caused (errno EFBIG).
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  void take() const {
    if (was_pending_) return;
    const timespec now{};
    while (sigtimedwait(&set_, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  ~NoFileSizeSignal() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

 private:
  sigset_t set_, before_;
  bool was_pending_ = false;
};

} // namespace deadheat
