// Threads of the process that wait in calls of the driver's, from the way in until the program has its thread back:
// they may run meanwhile, but write no memory of the program's. And those of the library's own, which never do.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace deadheat::cupti {

class WaitingThreads {
 public:
  using Waits = std::map<int, std::uint64_t>; // by thread: which of its waits it is
  // Of the calling thread.
  void enters();
  void leaves();
  static void is_own(); // one of the library's, until it ends: it says so again
  static void is_gone();
  Waits now() const;

 private:
  mutable std::mutex lock_;
  Waits waits_;
  std::uint64_t next_ = 1;
};

// For as long as it lives, the thread is the library's own.
class OwnThread {
 public:
  OwnThread() { WaitingThreads::is_own(); }
  ~OwnThread() { WaitingThreads::is_gone(); }
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
};

// How long each thread of the process but the caller has run, by its clock (clock_getcpuclockid(3)).
class RunTimes {
 public:
  // Whether clocks of threads tell of runs of a few microseconds: it is tried once.
  static bool can_tell();
  // False: nobody can tell.
  bool take();
  // None of them could run now, if it had a processor, but those that wait in calls, and the driver's own (proc(5),
  // stat).
  bool none_is_ready(const WaitingThreads::Waits& waits) const;
  // None has run since, but those that wait in the same calls as they did then, and the driver's own.
  bool alike(const RunTimes& before, const WaitingThreads::Waits& waits, const WaitingThreads::Waits& waited) const;

 private:
  std::map<int, std::uint64_t> run_; // nanoseconds, by thread
};

} // namespace deadheat::cupti
