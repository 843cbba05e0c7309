// A program that is run from inside of a job: what comes of it, and that the job notices nothing.
#include "tracer/cupti/apart.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace deadheat::cupti {
namespace {

using namespace std::chrono_literals;
using How = Ended::How;

Ended shell(const std::string& script, std::string_view input = {}, std::chrono::milliseconds most = 20s) {
  return run_apart({"/bin/sh", {"-c", script}, {"PATH=/usr/bin:/bin"}, input, most});
}

// In a process of its own, which ends with 0 where that returns true.
template <typename Test>
int in_a_process(Test&& test) {
  const pid_t child = fork();
  if (child == 0) _exit(test() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// Whether that process comes to run, or to run no more, within some seconds.
bool becomes(pid_t process, bool running) {
  for (int i = 0; i < 500; ++i) {
    const bool runs = std::ifstream("/proc/" + std::to_string(process) + "/cmdline").peek() != EOF;
    if (runs == running) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TEST(Apart, InputOutputAndStatus) {
  const std::string input(5'000'000, 'x');
  const Ended ended = shell("cat /proc/self/fd/3 > /proc/self/fd/4; echo one; echo two >&2; exit 3", input);
  EXPECT_EQ(ended.how, How::exited);
  EXPECT_EQ(ended.status, 3);
  EXPECT_EQ(ended.output, input);
  EXPECT_EQ(ended.said, "one\ntwo\n");
}

TEST(Apart, Signal) {
  const Ended ended = shell("kill -SEGV $$");
  EXPECT_EQ(ended.how, How::by_signal);
  EXPECT_EQ(ended.status, SIGSEGV);
}

// With what it has started itself.
TEST(Apart, Late) {
  const auto begin = std::chrono::steady_clock::now();
  const Ended ended = shell("sleep 300 & echo $!; wait", {}, 300ms);
  EXPECT_EQ(ended.how, How::late);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  const pid_t started = std::atoi(ended.said.c_str());
  ASSERT_GT(started, 0);
  EXPECT_TRUE(becomes(started, false));
}

TEST(Apart, NoSuchProgram) {
  const Ended ended = run_apart({"/no/such/program", {}, {}, {}, 1s});
  EXPECT_EQ(ended.how, How::not_begun);
  EXPECT_EQ(ended.status, ENOENT);
}

TEST(Apart, NoDescriptors) {
  EXPECT_EQ(in_a_process([] {
              const int next = dup(0);
              const rlimit few{rlim_t(next) + 2, rlim_t(next) + 2};
              return setrlimit(RLIMIT_NOFILE, &few) == 0 && shell("true").how == How::not_begun;
            }),
            0);
}

// Of threads and processes, of which it takes a thread and two processes.
TEST(Apart, NoMoreProcesses) {
  for (rlim_t most = 0; most < 4; ++most) {
    EXPECT_EQ(in_a_process([most] {
                constexpr uid_t nobody = 54'321; // limits are of users, and not of root
                const rlimit few{most, most};
                if (getuid() == 0 && setresuid(nobody, nobody, nobody) != 0) return false;
                if (setrlimit(RLIMIT_NPROC, &few) != 0) return false;
                const Ended ended = shell("true");
                return ended.how == How::not_begun && ended.status == EAGAIN;
              }),
              0)
        << most;
  }
}

// A file in memory that may not be so large: the signal for that would end the job.
TEST(Apart, NoRoomForItsInput) {
  EXPECT_EQ(in_a_process([] {
              const rlimit small{1000, 1000};
              return setrlimit(RLIMIT_FSIZE, &small) == 0 &&
                     shell("true", std::string(5000, 'x')).how == How::not_begun && shell("true").how == How::exited;
            }),
            0);
}

// It has the environment that it is given, no signal is blocked or ignored, it leads a session, nothing but five
// descriptors is open, and it leaves no core files.
TEST(Apart, StartsAsANewProgram) {
  const int open_file = open("/dev/null", O_RDONLY);
  const auto ignored = std::signal(SIGPIPE, SIG_IGN);
  rlimit core{};
  getrlimit(RLIMIT_CORE, &core);
  const rlimit dumps{core.rlim_max, core.rlim_max};
  setrlimit(RLIMIT_CORE, &dumps);
  sigset_t some, before;
  sigemptyset(&some);
  sigaddset(&some, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &some, &before);
  const Ended signals = run_apart({"/bin/grep", {"-e", "SigBlk", "-e", "SigIgn", "/proc/self/status"}, {}, {}, 20s});
  const Ended ended =
      shell("env | grep -v -e PWD -e SHLVL -e ^_= ; ls /proc/$$/fd; ulimit -c; cut -d' ' -f6 /proc/$$/stat; echo $$");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::signal(SIGPIPE, ignored);
  setrlimit(RLIMIT_CORE, &core);
  close(open_file);
  EXPECT_EQ(signals.said, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
  const std::string expected = "PATH=/usr/bin:/bin\n0\n1\n2\n3\n4\n0\n";
  ASSERT_EQ(ended.said.substr(0, expected.size()), expected);
  const std::string rest = ended.said.substr(expected.size());
  EXPECT_EQ(rest.substr(0, rest.find('\n')) + "\n", rest.substr(rest.find('\n') + 1));
}

std::atomic<int> children_ended{0}, forks{0}, alarms{0};

// Neither SIGCHLD nor a child to wait for, and no handlers of fork; where the job has a child, it gets that one only.
TEST(Apart, IsNotTheJobsChild) {
  struct sigaction action{}, before{};
  action.sa_handler = [](int) { ++children_ended; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGCHLD, &action, &before);
  static const int registered = pthread_atfork([] { ++forks; }, nullptr, nullptr);
  EXPECT_EQ(registered, 0);
  forks = children_ended = 0;
  std::atomic<bool> over{false};
  std::atomic<int> asked{0}, seen{0};
  std::thread waiter([&] {
    while (!over) {
      ++asked;
      seen += waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
    }
  });
  const Ended ended = shell("sleep 0.2; exit 7");
  over = true;
  waiter.join();
  EXPECT_EQ(ended.status, 7);
  EXPECT_EQ(waitpid(-1, nullptr, 0), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_GT(asked.load(), 100);
  EXPECT_EQ(seen.load(), 0);
  EXPECT_EQ(children_ended.load(), 0);
  EXPECT_EQ(forks.load(), 0);

  const pid_t child = fork();
  if (child == 0) _exit(5);
  EXPECT_EQ(shell("exit 8").status, 8);
  int status = 0;
  EXPECT_EQ(waitpid(-1, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 5);
  sigaction(SIGCHLD, &before, nullptr);
}

TEST(Apart, WhereTheJobIgnoresItsChildren) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(shell("exit 9").status, 9);
  std::signal(SIGCHLD, before);
}

TEST(Apart, HandlersOfTheCallingThreadRun) {
  struct sigaction action{}, before{};
  action.sa_handler = [](int) { ++alarms; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> in_time{false};
  std::thread other([&, caller = pthread_self()] {
    std::this_thread::sleep_for(100ms);
    pthread_kill(caller, SIGUSR1);
    std::this_thread::sleep_for(300ms);
    in_time = alarms == 1;
  });
  EXPECT_EQ(shell("sleep 1").how, How::exited);
  other.join();
  EXPECT_TRUE(in_time);
  sigaction(SIGUSR1, &before, nullptr);
}

// What the job closes meanwhile is closed: who reads at a pipe's other end sees it.
TEST(Apart, KeepsNoDescriptorsOpen) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::atomic<bool> in_time{false};
  std::thread reader([&] {
    std::this_thread::sleep_for(200ms);
    close(ends[1]);
    const auto closed = std::chrono::steady_clock::now();
    char byte = 0;
    const ssize_t bytes = read(ends[0], &byte, 1);
    in_time = bytes == 0 && std::chrono::steady_clock::now() - closed < 1s;
  });
  EXPECT_EQ(shell("sleep 2").how, How::exited);
  reader.join();
  EXPECT_TRUE(in_time);
  close(ends[0]);
}

TEST(Apart, EndsWithTheJob) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t job = fork();
  if (job == 0) {
    const std::string name = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(ends[1]);
    shell("echo $$ > " + name + "; exec sleep 300", {}, 60s);
    _exit(0);
  }
  char text[32] = {};
  ASSERT_GT(read(ends[0], text, sizeof text - 1), 0);
  const pid_t program = std::atoi(text);
  EXPECT_TRUE(becomes(program, true));
  kill(job, SIGKILL);
  int status = 0;
  waitpid(job, &status, 0);
  EXPECT_TRUE(becomes(program, false));
  close(ends[0]);
  close(ends[1]);
}

TEST(Apart, SeveralAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i, &right] {
      for (int turn = 0; turn < 10; ++turn) {
        const std::string input = std::to_string(i) + "." + std::to_string(turn);
        const Ended ended = shell("cat <&3 >&4; exit " + std::to_string(i), input);
        right += ended.how == How::exited && ended.status == i && ended.output == input;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 80);
}

} // namespace
} // namespace deadheat::cupti
