// The lock that an API call holds, and who holds it.
//
// Thread-safety: all of it. Invariants: mine() is exact for the calling thread, in a signal's handler too but for the
// few instructions around lock() and unlock().
#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace deadheat::embedded {

class CallLock {
 public:
  void lock() {
    mutex_.lock();
    owner_ = pthread_self();
  }
  bool try_lock() {
    if (mine() || !mutex_.try_lock()) return false;
    owner_ = pthread_self();
    return true;
  }
  void unlock() {
    owner_ = pthread_t{};
    mutex_.unlock();
  }
  bool mine() const { return owner_ == pthread_self(); }

 private:
  std::mutex mutex_;
  std::atomic<pthread_t> owner_{};
};

} // namespace deadheat::embedded
