#include "tracer/recorder/standard_error.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>

namespace deadheat::trace {

void say(const std::string& line) {
  constexpr std::size_t most = PIPE_BUF; // bytes, for which a pipe that is ready has room (pipe(7))
  constexpr int patience = 1000; // milliseconds
  const std::string text = "deadheat: " + line.substr(0, most - 16) + "\n";
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, patience) != 1 || !(ready.revents & POLLOUT) || (ready.revents & POLLERR)) return;
  sigset_t all, before, broken, pending;
  sigfillset(&all);
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  sigpending(&pending);
  const bool failed = ::write(STDERR_FILENO, text.data(), text.size()) < 0 && errno == EPIPE;
  if (failed && !sigismember(&pending, SIGPIPE)) {
    const timespec now{};
    while (sigtimedwait(&broken, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

} // namespace deadheat::trace
