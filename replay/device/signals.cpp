#include "replay/device/signals.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "deadheat/address.h"
#include "deadheat/expected.h"
#include "replay/device/machine.h"

namespace deadheat::device {

namespace {
constexpr int numbers[SignalGuard::count] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
thread_local SignalGuard* innermost = nullptr;
// As much as a thread's own, which handlers would run on otherwise. Memory is used when it is touched.
constexpr std::size_t stack_bytes = 8 << 20, guard_bytes = 4096;
// A program that installs a handler while guards are there saves the guards' one as the old one, and may put it back at
// any time. Guards install another from then on, so that it still stands for what was there when it was saved.
constexpr int generations = 8;
int generation[SignalGuard::count] = {};
// What was there before the first of the guards that are. Kept when they are gone: another thread may be in `handle`
// yet.
struct sigaction before[generations][SignalGuard::count];
int guards = 0;

// Calls the program's handler as the kernel would.
void call(struct sigaction& of_program, int number, siginfo_t* info, void* context) {
  const struct sigaction action = of_program;
  if (action.sa_flags & int(SA_RESETHAND)) of_program.sa_handler = SIG_DFL; // and so when the last guard is gone
  sigset_t blocked = action.sa_mask, interrupted;
  if (!(action.sa_flags & SA_NODEFER)) sigaddset(&blocked, number);
  pthread_sigmask(SIG_BLOCK, &blocked, &interrupted);
  if (action.sa_flags & SA_SIGINFO)
    action.sa_sigaction(number, info, context);
  else
    action.sa_handler(number);
  pthread_sigmask(SIG_SETMASK, &interrupted, nullptr);
}
} // namespace

AlternateStack::~AlternateStack() {
  if (bytes_) munmap(bytes_, guard_bytes + stack_bytes);
}

bool AlternateStack::install() {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) != 0 || !(stack.ss_flags & SS_DISABLE)) return false;
  if (!bytes_) {
    void* bytes = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (bytes == MAP_FAILED) return false; // handlers run on the thread's own, then
    mprotect(bytes, guard_bytes, PROT_NONE);
    bytes_ = bytes;
  }
  stack = {};
  stack.ss_sp = static_cast<char*>(bytes_) + guard_bytes;
  stack.ss_size = stack_bytes;
  return sigaltstack(&stack, nullptr) == 0;
}

void AlternateStack::remove() {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) != 0 || stack.ss_sp != static_cast<char*>(bytes_) + guard_bytes) return;
  stack = {};
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, nullptr);
}

SignalGuard::SignalGuard(Machine& machine)
    : machine_(machine), outer_(innermost), stack_installed_(machine.handlers_stack_.install()) {
  DEADHEAT_CHECK(!machine.guard_);
  struct sigaction action{};
  constexpr int flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER; // the jump does not restore the signal mask
  sigemptyset(&action.sa_mask);
  innermost = this;
  machine_.guard_ = this;
  if (guards++ > 0) return;
  for (int i = 0; i < count; ++i) {
    struct sigaction found{};
    sigaction(numbers[i], nullptr, &found);
    const auto* put_back = std::find(handlers, handlers + generations, found.sa_sigaction);
    if (put_back != handlers + generations) found = before[put_back - handlers][i];
    action.sa_sigaction = handlers[generation[i]];
    before[generation[i]][i] = found; // first: another thread's signal may come in between
    // System calls that the program's own action would not interrupt go on.
    action.sa_flags = flags | (found.sa_handler == SIG_IGN ? SA_RESTART : found.sa_flags & SA_RESTART);
    sigaction(numbers[i], &action, nullptr);
  }
}

SignalGuard::~SignalGuard() {
  innermost = outer_;
  machine_.guard_ = nullptr;
  if (--guards == 0) {
    for (int i = 0; i < count; ++i) {
      struct sigaction found{};
      sigaction(numbers[i], nullptr, &found);
      if (found.sa_sigaction == handlers[generation[i]])
        sigaction(numbers[i], &before[generation[i]][i], nullptr);
      else // the program has installed another, which stays
        generation[i] = (generation[i] + 1) % generations;
    }
  }
  if (stack_installed_) machine_.handlers_stack_.remove();
}

template <int Generation> void SignalGuard::handle_as(int number, siginfo_t* info, void* context) {
  handle(Generation, number, info, context);
}
const SignalGuard::Handler SignalGuard::handlers[generations] = {
    handle_as<0>, handle_as<1>, handle_as<2>, handle_as<3>, handle_as<4>, handle_as<5>, handle_as<6>, handle_as<7>};

void SignalGuard::handle(int of_generation, int number, siginfo_t* info, void* context) {
  const bool sent = info->si_code <= 0; // by kill and the like: nobody's code has faulted
  SignalGuard* guard = innermost;
  if (!sent && guard && guard->machine_.current_) {
    guard->number_ = number;
    guard->address_ = info->si_addr;
    siglongjmp(guard->machine_.escape_, 1);
  }
  // Not ours, or another thread's: as if this handler were not there.
  const int error = errno;
  for (int i = 0; i < count; ++i) {
    if (numbers[i] != number) continue;
    struct sigaction& of_program = before[of_generation][i];
    if (of_program.sa_handler == SIG_IGN && sent) break;
    if (of_program.sa_handler != SIG_DFL && of_program.sa_handler != SIG_IGN)
      return call(of_program, number, info, context);
    // A fault is not ignored. Returning raises it again; what was sent is not repeated by itself.
    struct sigaction fallback{};
    fallback.sa_handler = SIG_DFL;
    sigaction(number, &fallback, nullptr);
    if (sent) pthread_kill(pthread_self(), number);
  }
  errno = error;
}

void SignalGuard::caught() {
  engine::ThreadContext* thread = machine_.current_;
  machine_.current_ = nullptr;
  const std::uint64_t host = reinterpret_cast<std::uint64_t>(address_);
  thread->fault_kind = std::uint32_t(number_ == SIGSEGV || number_ == SIGBUS ? trace::MemoryError::Kind::out_of_bounds
                                                                             : trace::MemoryError::Kind::trap);
  thread->fault_site = thread->pending_site;
  thread->fault_address = host - device_arena < device_arena_bytes ? to_device(host) : host;
  thread->fault_bytes = 1;
  thread->fault_access = 0;
  thread->fault_text = "caught by the host's memory protection: the site is the thread's last stop";
  machine_.take_fault(*thread);
}

} // namespace deadheat::device
