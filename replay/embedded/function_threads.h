// Threads of the library's own on which the program's host functions run, since one may wait for what the host does
// once its own call has returned. Who begins a function waits for it all the same, so that a run can be repeated, and
// gives that up where the function seems to wait for the host: it runs on beside it then.
//
// Thread-safety: any thread may call. The caller of run() holds the lock that it gives, which is lent meanwhile: a
// function may wait for other threads, and what they call.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "replay/device/host_function.h"
#include "replay/embedded/call_lock.h"

namespace deadheat::embedded {

class FunctionThreads {
 public:
  FunctionThreads();
  ~FunctionThreads();
  // `code` tells functions apart: of one that ran on before, it is given up soon. `patience`, in milliseconds: how long
  // one may compute, and a quarter of that how long it may sleep, before it is left alone; 0: it never is.
  device::RunsOn run(CallLock& lock, const void* code, std::function<void()> function, std::uint64_t patience);
  bool awaited() const { return awaited_ != 0; } // does somebody wait in run()?
  // Until a function that runs on ends, or a millisecond has gone by.
  void await_an_end();

 private:
  struct Worker;
  struct Ways { // in which functions of one code made their callers give up
    bool sleeps = false, computes = false;
  };
  Worker* idle_worker(); // null: there can be no more threads
  void work(Worker& worker);
  bool ends(std::unique_lock<std::mutex>& hold, Worker& worker, Ways& ways, std::uint64_t patience);

  std::mutex guard_;
  std::condition_variable ended_;
  std::atomic<unsigned> awaited_{0};
  std::vector<std::unique_ptr<Worker>> workers_; // for good
  std::map<const void*, Ways> ways_;
};

} // namespace deadheat::embedded
