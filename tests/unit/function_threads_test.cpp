// Threads for the program's host functions: whom their callers wait for.
#include "replay/embedded/function_threads.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <thread>

namespace deadheat::embedded {
namespace {

constexpr std::uint64_t patience = 80; // milliseconds; a quarter of it asleep

class FunctionThreadsTest : public ::testing::Test {
 protected:
  FunctionThreadsTest() : held(lock) {}
  ~FunctionThreadsTest() override { // they end before what they look at does
    tell();
    for (const device::RunsOn& function : running)
      while (!*function) threads.await_an_end();
  }
  device::RunsOn run(std::function<void()> function, std::uint64_t patience_of_it = patience) {
    const void* code = ::testing::UnitTest::GetInstance()->current_test_info(); // what others do is not known of it
    const device::RunsOn runs_on = threads.run(lock, code, std::move(function), patience_of_it);
    if (runs_on) running.push_back(runs_on);
    return runs_on;
  }
  void wait() {
    std::unique_lock hold(guard);
    changed.wait(hold, [&] { return told.load(); });
  }
  void spin() const {
    while (!told) continue;
  }
  void tell() {
    const std::lock_guard hold(guard);
    told = true;
    changed.notify_all();
  }
  // Of the process, like the library's: its threads stay.
  static inline FunctionThreads& threads = *new FunctionThreads;
  CallLock lock;
  std::mutex guard;
  std::unique_lock<CallLock> held;
  std::condition_variable changed;
  std::atomic<bool> told{false};
  std::vector<device::RunsOn> running;
};

TEST_F(FunctionThreadsTest, CallersWaitForWhatEnds) {
  std::thread::id where;
  EXPECT_EQ(run([&] { where = std::this_thread::get_id(); }), nullptr);
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_NE(where, std::thread::id());
}

TEST_F(FunctionThreadsTest, OneThatSleepsRunsOn) {
  const device::RunsOn runs_on = run([&] { wait(); });
  ASSERT_TRUE(runs_on);
  EXPECT_FALSE(*runs_on);
  tell();
  while (!*runs_on) threads.await_an_end();
}

TEST_F(FunctionThreadsTest, OneThatSpinsRunsOn) {
  const device::RunsOn runs_on = run([&] { spin(); });
  ASSERT_TRUE(runs_on);
  EXPECT_FALSE(*runs_on);
}

TEST_F(FunctionThreadsTest, OneThatLooksAndSleepsInTurnsRunsOn) {
  EXPECT_TRUE(run([&] {
    while (!told) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }));
}

TEST_F(FunctionThreadsTest, OneThatRanOnIsGivenUpSooner) {
  const auto takes = [&] {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(run([&] { wait(); }, 20 * patience));
    return std::chrono::steady_clock::now() - begin;
  };
  const auto first = takes();
  EXPECT_GE(first, std::chrono::milliseconds(5 * patience));
  EXPECT_LT(takes(), first / 2);
}

TEST_F(FunctionThreadsTest, OthersRunBesideOneThatRunsOn) {
  ASSERT_TRUE(run([&] { wait(); }));
  ASSERT_TRUE(run([&] { wait(); }));
  int ran = 0;
  EXPECT_EQ(run([&] { ++ran; }), nullptr);
  EXPECT_EQ(ran, 1);
}

TEST_F(FunctionThreadsTest, TheLockIsLent) {
  EXPECT_EQ(run([&] { const std::lock_guard hold(lock); }), nullptr);
  bool free = true;
  std::thread([&] {
    free = lock.try_lock();
    if (free) lock.unlock();
  }).join();
  EXPECT_FALSE(free);
}

TEST_F(FunctionThreadsTest, WithoutPatienceNobodyIsGivenUp) {
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(patience));
    tell();
  });
  EXPECT_EQ(run([&] { wait(); }, 0), nullptr);
  later.join();
}

} // namespace
} // namespace deadheat::embedded
