// What host functions write into page-locked memory, on a GPU, where they run beside everything else.
//
// What changes while one runs is its own doing where nobody else can have done it. So, on the driver's thread, before
// the program's function is called, it is waited until
// - every other thread of the process sleeps, or waits in a call of the driver's (waiting_threads.h);
// - what the device may still write into page-locked memory is complete: copies and sets that the host has not waited
//   for and that do not come behind the function. Of those that are not complete in time the memory is left out;
// and then page-locked memory is kept (locked_memory.h). What differs when the function returns, it has written, where
// meanwhile no other thread has run but in such a call, and no other host function. All of that is given up after a
// while: it costs the job time, and never more than that.
//
// Nothing is looked for while a kernel is under way that host and device may tell each other something by
// (host_writes.h), nor of functions that were seen to write nothing a few times.
//
// A function that begins once the host has waited for a copy may have been told of it, and is in no race with it. So
// who has waited is held on the way out, until functions that are about to begin have, and are over: what it waited for
// they cannot have been told. That is given up after a while, too: they may wait for what the thread does next.
//
// Thread-safety: any thread. Nothing is held while the program's function runs.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/cupti/waiting_threads.h"

namespace deadheat::cupti {

class HostWrites;
class Session;

class FunctionLooks {
 public:
  FunctionLooks(Session& session, HostWrites& writes) : session_(session), writes_(writes) {}

  WaitingThreads waiting;
  // A function was submitted, or will be; it is about to run, or will not.
  void comes(const void* code);
  void comes_no_more(const void* code);
  bool wanted(const void* code);
  void let_functions_run(); // the way out of a wait of the host's
  void say(); // in the trace, what was not looked at

  // Around one run of a function, on the driver's thread.
  class Look {
   public:
    // Waits. `function`: HostWrites::function_submitted's; it may be 0 as long as it is not known.
    Look(FunctionLooks& looks, const void* code, CUcontext context, const std::atomic<std::uint64_t>& function);
    ~Look();
    Look(const Look&) = delete;
    Look& operator=(const Look&) = delete;
    // The program's function has returned: what it wrote, where that is known. `told`: it may have waited for the host.
    std::vector<trace::Effects::Change> over(bool told);

   private:
    using Clock = std::chrono::steady_clock;
    bool can_be_told();
    bool is_quiet(); // and what the other threads have run until now is kept
    bool wait_until_quiet(Clock::time_point until);
    bool device_is_done(Clock::time_point until); // or what is left out is known

    FunctionLooks& looks_;
    const void* const code_;
    const CUcontext context_;
    const std::atomic<std::uint64_t>& function_;
    bool looks_at_it_ = false, keeps_ = false;
    std::uint64_t begun_ = 0;
    RunTimes run_;
    WaitingThreads::Waits waits_;
    std::vector<trace::Span> without_;
  };

 private:
  struct Known { // of functions of one code
    std::uint32_t looks = 0, alone = 0, in_vain = 0; // in vain: in a row
    bool wrote = false;
  };
  class Device; // asks whether streams are done, from a thread of its own
  bool wanted(const Known& known) const; // under lock_
  void learn(const void* code, bool alone, bool wrote);
  std::shared_ptr<Device> device();

  Session& session_;
  HostWrites& writes_;
  std::atomic<int> due_{0}; // functions that are wanted and have not begun
  std::atomic<int> looking_{0}, running_{0};
  std::atomic<std::uint64_t> begun_{0}, over_{0};
  std::atomic<std::int64_t> spent_{0}; // nanoseconds
  std::atomic<int> held_in_vain_{0};
  std::mutex lock_; // of what follows
  std::condition_variable moved_; // a function began, or is over
  std::unordered_map<const void*, Known> known_;
  std::unordered_map<const void*, int> due_by_code_;
  std::shared_ptr<Device> device_;
  std::uint64_t not_held_for_ = 0; // functions that have begun when one was waited for in vain
  std::uint64_t busy_ = 0, left_out_ = 0, no_room_ = 0, not_followed_ = 0, no_clocks_ = 0; // functions
};

} // namespace deadheat::cupti
