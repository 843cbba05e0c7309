// Catches memory faults of compiled code: while a machine runs, SIGSEGV, SIGBUS, SIGFPE and SIGILL raised by a GPU
// thread's code jump out of it and become the machine's fault. Others go to the handlers that were there before: those
// of other threads, and those that somebody sent.
//
// Thread-safety: handlers are the process's; one machine runs at a time. Signals of other host threads are passed on.
#pragma once

#include <signal.h>

namespace deadheat::device {

class Machine;

// A stack for the handlers of a thread that has none of its own: code may fault because the thread's is used up. Made
// when it is used first, and not in thread-local storage, which small stacks of all threads would have to hold.
class AlternateStack {
 public:
  AlternateStack() = default;
  ~AlternateStack();
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;
  bool install(); // on this thread; false where the program has installed one, which stays
  void remove(); // unless something else was installed meanwhile

 private:
  void* bytes_ = nullptr; // a page without access, then the stack, which grows down to it
};

class SignalGuard {
 public:
  explicit SignalGuard(Machine& machine);
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  void caught(); // after the jump: sets the machine's fault

  static constexpr int count = 4;

 private:
  using Handler = void (*)(int number, siginfo_t* info, void* context);
  static void handle(int generation, int number, siginfo_t* info, void* context);
  template <int Generation> static void handle_as(int number, siginfo_t* info, void* context);
  static const Handler handlers[]; // by generation
  Machine& machine_;
  SignalGuard* outer_;
  const bool stack_installed_;
  volatile int number_ = 0;
  void* volatile address_ = nullptr;
};

} // namespace deadheat::device
