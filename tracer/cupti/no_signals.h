// Threads of the library take none of the program's signals.
//
// Thread-safety: of one thread each.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace deadheat::cupti {

// The thread takes no signals, for as long as this lives; nor does one that begins meanwhile, ever.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

} // namespace deadheat::cupti
