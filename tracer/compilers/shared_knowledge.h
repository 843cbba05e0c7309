// What all threads of a job may ask for, in the job's own processes: the library is there, too, when one forks.
#pragma once

#include <pthread.h>

#include <mutex>

namespace deadheat::cupti {

// One of each type, under a lock that a fork leaves free in the child. Never destroyed: threads may use it while the
// process ends.
template <typename Known>
class SharedKnowledge {
 public:
  static SharedKnowledge& get() {
    static SharedKnowledge& all = *[] {
      pthread_atfork([] { get().lock.lock(); }, [] { get().lock.unlock(); }, [] { get().lock.unlock(); });
      return new SharedKnowledge;
    }();
    return all;
  }

  std::mutex lock; // nobody who holds it takes another
  Known known;
};

} // namespace deadheat::cupti
