// Files of ours in a process that is somebody else's: they take none of the program's standard descriptors, and a limit
// on the size of files (RLIMIT_FSIZE), or a pipe without a reader, is an error of ours and no signal to the program.
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

// Holds back a signal while it lives and takes away the one that a write of ours caused.
class NoSignalOfOurs {
 public:
  explicit NoSignalOfOurs(int number) {
    sigemptyset(&set_);
    sigaddset(&set_, number);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, number) == 1;
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  void take() const {
    if (was_pending_) return;
    const timespec now{};
    while (sigtimedwait(&set_, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  ~NoSignalOfOurs() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignalOfOurs(const NoSignalOfOurs&) = delete;
  NoSignalOfOurs& operator=(const NoSignalOfOurs&) = delete;

 private:
  sigset_t set_, before_;
  bool was_pending_ = false;
};
struct NoFileSizeSignal : NoSignalOfOurs { // errno EFBIG
  NoFileSizeSignal() : NoSignalOfOurs(SIGXFSZ) {}
};
struct NoPipeSignal : NoSignalOfOurs { // errno EPIPE
  NoPipeSignal() : NoSignalOfOurs(SIGPIPE) {}
};

} // namespace deadheat
