#include "tracer/cupti/thread.h"

#include <pthread.h>

#include <mutex>
#include <vector>

namespace deadheat::cupti {

constinit thread_local ThreadState here;

namespace {

struct Left {
  PendingLaunch* pending = nullptr;
  KnownKernels* kernels = nullptr;
  Ranges* ranges = nullptr;
  ApiNames* names = nullptr;
};

std::mutex& lock = *new std::mutex;
std::vector<Left>& left = *new std::vector<Left>;
pthread_key_t key = 0;

// Runs when a thread ends that has taken some. It may take others afterwards: destructors of the program can call.
void leave(void*) {
  try {
    if (here.pending) reset(*here.pending);
    if (here.ranges) reset(*here.ranges);
    std::lock_guard hold(lock);
    left.push_back({here.pending, here.kernels, here.ranges, here.names});
  } catch (...) {
  }
  here.pending = nullptr;
  here.kernels = nullptr;
  here.ranges = nullptr;
  here.names = nullptr;
  here.takes = true;
}

} // namespace

void take_what_is_left() {
  here.takes = false;
  static const bool made = pthread_key_create(&key, leave) == 0;
  if (!made || pthread_setspecific(key, &here) != 0) return;
  std::lock_guard hold(lock);
  if (left.empty()) return;
  here.pending = left.back().pending;
  here.kernels = left.back().kernels;
  here.ranges = left.back().ranges;
  here.names = left.back().names;
  left.pop_back();
}

} // namespace deadheat::cupti
