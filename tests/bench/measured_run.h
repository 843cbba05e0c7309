// A benchmark's run in a process of its own: what it took, and the most memory that it had.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace deadheat::bench {

struct Cost {
  double wall = 0, cpu = 0, peak_bytes = 0;
  long waits = 0; // of its threads
  std::uint64_t accesses = 0, races = 0;
};

inline double seconds(const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); }

// A run of `body`, which returns what it did, in a process of its own; several may be under way at once.
class MeasuredRun {
 public:
  explicit MeasuredRun(const std::function<Cost()>& body) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    child_ = fork();
    if (child_ == 0) {
      const auto begin = std::chrono::steady_clock::now();
      Cost cost = body();
      cost.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (write(ends[1], &cost, sizeof cost) != sizeof cost) _exit(1);
      _exit(0);
    }
    close(ends[1]);
    result_ = ends[0];
  }
  Cost finish() { // once
    Cost cost;
    const bool good = read(result_, &cost, sizeof cost) == sizeof cost;
    rusage usage{};
    int status = 0;
    wait4(child_, &status, 0, &usage);
    close(result_);
    if (!good || status != 0) {
      std::fprintf(stderr, "a run failed\n");
      std::exit(1);
    }
    cost.cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    cost.peak_bytes = double(usage.ru_maxrss) * 1024;
    cost.waits = usage.ru_nvcsw;
    return cost;
  }

 private:
  pid_t child_ = 0;
  int result_ = -1;
};

inline Cost measure(const std::function<Cost()>& body) { return MeasuredRun(body).finish(); }

} // namespace deadheat::bench
