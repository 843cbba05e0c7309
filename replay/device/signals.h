// Catches memory faults of compiled code: while a machine runs, SIGSEGV, SIGBUS, SIGFPE and SIGILL raised by a GPU
// thread's code jump out of it and become the machine's fault. Others go to the handlers that were there before, those
// of other threads too.
//
// Thread-safety: handlers are the process's; one machine runs at a time. Signals of other host threads are passed on.
#pragma once

#include <signal.h>

namespace deadheat::device {

class Machine;

class SignalGuard {
 public:
  explicit SignalGuard(Machine& machine);
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  void caught(); // after the jump: sets the machine's fault

  static constexpr int count = 4;

 private:
  static void handle(int number, siginfo_t* info, void* context);
  Machine& machine_;
  SignalGuard* outer_;
  stack_t stack_before_;
  volatile int number_ = 0;
  void* volatile address_ = nullptr;
};

} // namespace deadheat::device
