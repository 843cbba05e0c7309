// Threads of the library take none of the program's signals.
//
// Thread-safety: of one thread each.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <system_error>
#include <thread>

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

// Runs `work` to its end on a thread that takes no signals. Those that come to it (for a file that is longer than the
// job may write, setrlimit(2)) end with it; blocked on this thread they would come later. 0, or an errno: there was no
// thread, or `work` threw.
template <typename Work>
int on_quiet_thread(const Work& work) {
  int failed = 0;
  try {
    std::thread worker;
    {
      const NoSignals blocked;
      worker = std::thread([&] {
        try {
          work();
        } catch (...) { // it would end the job
          failed = ENOMEM;
        }
      });
    }
    worker.join();
  } catch (const std::system_error& error) {
    failed = error.code().value();
  }
  return failed;
}

// Likewise, on a stack of so many bytes: threads of the program may have small ones. False: it could not be done.
template <typename Work>
bool on_stack_of(std::size_t bytes, const Work& work) {
  struct Run {
    const Work& work;
    bool done = false;
  } run{work};
  pthread_t thread{};
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  bool began = pthread_attr_setstacksize(&attributes, bytes) == 0;
  if (began) {
    const NoSignals blocked;
    const auto body = [](void* of) -> void* {
      Run& its = *static_cast<Run*>(of);
      try {
        its.work();
        its.done = true;
      } catch (...) {
      }
      return nullptr;
    };
    began = pthread_create(&thread, &attributes, body, &run) == 0;
  }
  pthread_attr_destroy(&attributes);
  if (began) pthread_join(thread, nullptr);
  return began && run.done;
}

} // namespace deadheat::cupti
