// Kernels run in the program's own threads: its handlers of signals and its floating-point environment are as it made
// them, and kernels see neither.
#include <fenv.h>
#include <pmmintrin.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <thread>

#include "device_ptx.h"

namespace deadheat::device_test {

using device::Progress;

namespace {

template <Mode M> std::int32_t crash(ThreadContext* t, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  if (global_id(t) == 5) *reinterpret_cast<volatile int*>(device_arena + 64) = 1;
  END
}

// Runs until another thread of the program has touched a page of its own, which that thread's handler gives it.
struct OwnPage {
  std::atomic<bool> wanted{false}, touched{false};
  std::atomic<int> given{0};
  void* page = nullptr;
};
OwnPage own_page;
template <Mode M> std::int32_t run_beside(ThreadContext*, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  own_page.wanted = true;
  for (int left = 10'000; left > 0 && !own_page.touched; --left)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  END
}
void give_page(int, siginfo_t*, void*) {
  ++own_page.given;
  mprotect(own_page.page, 4096, PROT_READ | PROT_WRITE);
}

// Calls what a test wants done while compiled code runs, on the thread that drives.
std::function<void()> meanwhile;
template <Mode M> std::int32_t call_meanwhile(ThreadContext*, std::uint8_t* bytes) {
  auto& f = frame<Frame>(bytes);
  BEGIN
  meanwhile();
  END
}

// What handlers of the program's saw.
struct Handled {
  volatile int count = 0, others = 0;
  const char* volatile stack = nullptr;
  sigset_t masked;
};
Handled handled;
void count_signal(int) {
  const char here = 0;
  handled.stack = &here;
  pthread_sigmask(SIG_SETMASK, nullptr, &handled.masked);
  handled.count = handled.count + 1;
}
void count_other(int) { handled.others = handled.others + 1; }

// The program's action for a signal, until the end of a scope.
class Handler {
 public:
  Handler(int number, void (*handler)(int), int flags = 0, int masked = 0) : number_(number) {
    handled = {};
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = flags;
    if (masked) sigaddset(&action.sa_mask, masked);
    sigaction(number, &action, &before_);
  }
  ~Handler() { sigaction(number_, &before_, nullptr); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  const int number_;
  struct sigaction before_{};
};
void (*action_of(int number))(int) {
  struct sigaction action{};
  sigaction(number, nullptr, &action);
  return action.sa_handler;
}

FakeSource make_source() {
  FakeSource s;
  ADD_KERNEL(s, crash, 16, 0);
  ADD_KERNEL(s, run_beside, 16, 0);
  ADD_KERNEL(s, call_meanwhile, 16, 0);
  return s;
}

} // namespace

// In every mode.
class InAProgram : public ::testing::TestWithParam<int> {
 protected:
  InAProgram() : source(make_source()), rig(source, mode_options(GetParam())) { rig.load(); }
  FakeSource source;
  Rig rig;
};
INSTANTIATE_TEST_SUITE_P(Modes, InAProgram, ::testing::Range(0, modes));

TEST_P(InAProgram, CrashesAreFaults) {
  struct sigaction before{}, after{};
  sigaction(SIGSEGV, nullptr, &before);
  rig.launch("crash", 1, 32, {});
  EXPECT_EQ(rig.sync(), Progress::fault);
  sigaction(SIGSEGV, nullptr, &after);
  EXPECT_EQ(before.sa_sigaction, after.sa_sigaction);
  EXPECT_EQ(rig.device->fault()->thread, 5u);
  EXPECT_EQ(rig.device->fault()->address, to_device(device_arena + 64));
}

TEST_P(InAProgram, SignalsOfOtherThreadsArePassedOn) {
  own_page.wanted = own_page.touched = false;
  own_page.given = 0;
  own_page.page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(own_page.page, MAP_FAILED);
  struct sigaction action{}, before{}, after{};
  action.sa_sigaction = give_page;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before);
  std::thread other([] {
    while (!own_page.wanted) std::this_thread::yield();
    *static_cast<volatile char*>(own_page.page) = 1;
    own_page.touched = true;
  });
  rig.launch("run_beside", 1, 1, {});
  EXPECT_EQ(rig.sync(), Progress::done);
  own_page.wanted = true; // where it was not launched
  other.join();
  EXPECT_EQ(own_page.given, 1);
  EXPECT_TRUE(own_page.touched);
  sigaction(SIGSEGV, &before, &after);
  EXPECT_EQ(after.sa_sigaction, &give_page);
  munmap(own_page.page, 4096);
}

TEST_P(InAProgram, HandlersRunOnTheStackThatTheProgramGaveThem) {
  std::vector<char> bytes(1 << 20);
  stack_t stack{}, before{}, after{};
  stack.ss_sp = bytes.data();
  stack.ss_size = bytes.size();
  sigaltstack(&stack, &before);
  const Handler handler(SIGUSR1, count_signal, SA_ONSTACK);
  meanwhile = [] { raise(SIGUSR1); };
  rig.launch("call_meanwhile", 1, 1, {});
  EXPECT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(handled.count, 1);
  EXPECT_GE(std::uint64_t(handled.stack), std::uint64_t(bytes.data()));
  EXPECT_LT(std::uint64_t(handled.stack), std::uint64_t(bytes.data() + bytes.size()));
  sigaltstack(&before, &after);
  EXPECT_EQ(after.ss_sp, bytes.data());
}

TEST_P(InAProgram, ThreadsWithoutAStackForHandlersGetOneForAWhile) {
  stack_t none{}, before{}, during{}, after{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, &before);
  meanwhile = [&] { sigaltstack(nullptr, &during); };
  rig.launch("call_meanwhile", 1, 1, {});
  EXPECT_EQ(rig.sync(), Progress::done);
  sigaltstack(&before, &after);
  EXPECT_EQ(during.ss_flags & SS_DISABLE, 0);
  EXPECT_NE(after.ss_flags & SS_DISABLE, 0);
}

TEST_P(InAProgram, SentSignalsAreNoFaults) {
  const Handler handler(SIGFPE, count_signal);
  meanwhile = [] { raise(SIGFPE); };
  rig.launch("call_meanwhile", 1, 1, {});
  EXPECT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(handled.count, 1);
}

TEST_P(InAProgram, HandlersInstalledMeanwhileStay) {
  const Handler handler(SIGFPE, count_signal);
  meanwhile = [] { signal(SIGFPE, count_other); };
  rig.launch("call_meanwhile", 1, 1, {});
  EXPECT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(action_of(SIGFPE), &count_other);
}

// The program saves the action that it finds, which is the guard's, and puts it back when that guard is gone.
TEST_P(InAProgram, HandlersPutBackLaterStandForTheProgramsOwn) {
  for (const int kernels_between : {0, 1, 2}) {
    const Handler handler(SIGFPE, count_signal);
    struct sigaction found{};
    meanwhile = [&] {
      struct sigaction other{};
      other.sa_handler = count_other;
      sigaction(SIGFPE, &other, &found);
    };
    auto run = [&] {
      rig.launch("call_meanwhile", 1, 1, {});
      EXPECT_EQ(rig.sync(), Progress::done);
    };
    run();
    meanwhile = [] {};
    for (int k = 0; k < kernels_between; ++k) run();
    raise(SIGFPE);
    EXPECT_EQ(handled.others, 1);
    meanwhile = [&] {
      if (kernels_between) sigaction(SIGFPE, &found, nullptr);
      raise(SIGFPE);
    };
    if (!kernels_between) sigaction(SIGFPE, &found, nullptr);
    run();
    EXPECT_EQ(handled.count, 1);
    raise(SIGFPE);
    EXPECT_EQ(handled.count, 2);
    EXPECT_EQ(handled.others, 1);
  }
}

TEST_P(InAProgram, IgnoredSignalsAreIgnored) {
  const Handler handler(SIGFPE, SIG_IGN);
  int error = 0;
  struct sigaction during{};
  meanwhile = [&] {
    sigaction(SIGFPE, nullptr, &during);
    errno = ENOTTY;
    raise(SIGFPE);
    error = errno;
    raise(SIGFPE);
  };
  rig.launch("call_meanwhile", 1, 1, {});
  EXPECT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(error, ENOTTY);
  EXPECT_NE(during.sa_flags & SA_RESTART, 0) << "it interrupts nothing";
  EXPECT_EQ(action_of(SIGFPE), SIG_IGN);
}

TEST_P(InAProgram, SentSignalsWithoutAHandlerEndTheProgram) {
  const Handler handler(SIGFPE, SIG_DFL);
  meanwhile = [] { raise(SIGFPE); };
  rig.launch("call_meanwhile", 1, 1, {});
  EXPECT_EXIT(rig.sync(), ::testing::KilledBySignal(SIGFPE), "");
}

TEST_P(InAProgram, HandlersAreCalledAsTheyWereInstalled) {
  sigset_t behind;
  meanwhile = [&] {
    raise(SIGFPE);
    pthread_sigmask(SIG_SETMASK, nullptr, &behind);
  };
  for (const bool deferred : {true, false}) {
    const Handler handler(SIGFPE, count_signal, SA_RESETHAND | (deferred ? 0 : SA_NODEFER), SIGUSR1);
    rig.launch("call_meanwhile", 1, 1, {});
    EXPECT_EQ(rig.sync(), Progress::done);
    EXPECT_EQ(handled.count, 1);
    EXPECT_EQ(sigismember(&handled.masked, SIGUSR1), 1);
    EXPECT_EQ(sigismember(&handled.masked, SIGFPE), deferred);
    EXPECT_EQ(sigismember(&behind, SIGUSR1), 0);
    EXPECT_EQ(sigismember(&behind, SIGFPE), 0);
    EXPECT_EQ(action_of(SIGFPE), SIG_DFL);
  }
}

TEST_P(InAProgram, CodeRunsInTheDefaultFloatingPointEnvironment) {
  fenv_t before;
  fegetenv(&before);
  fesetround(FE_DOWNWARD);
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_DIVBYZERO);
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  const unsigned mine = _mm_getcsr();
  unsigned during = 0;
  meanwhile = [&] {
    during = _mm_getcsr();
    volatile float zero = 0, quotient = 1 / zero;
    (void)quotient;
  };
  rig.launch("call_meanwhile", 1, 1, {});
  EXPECT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(during & 0xFFC0, 0x1F80u);
  EXPECT_EQ(_mm_getcsr(), mine) << "what the code raised is not the program's";
  rig.launch("crash", 1, 32, {});
  EXPECT_EQ(rig.sync(), Progress::fault);
  EXPECT_EQ(_mm_getcsr(), mine) << "behind a jump too";
  EXPECT_EQ(fegetround(), FE_DOWNWARD);
  std::uint16_t x87 = 0;
  asm volatile("fnstcw %0" : "=m"(x87));
  EXPECT_EQ(x87 & 0xC00, 0x400) << "the x87's rounding";
  fesetenv(&before);
}

} // namespace deadheat::device_test
