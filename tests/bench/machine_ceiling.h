// How much faster the machine itself is on several cores: loops that share nothing, on one core and on each of several.
//
// What a benchmark gains by more cores is to be judged by this: cores may share caches, memory and even their pipelines
// with each other and with other machines' loads.
//
// Thread-safety: starts threads of its own and joins them.
#pragma once

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace deadheat::bench {

// How many times as much work `threads` threads do in a second as one does. work(thread): always as much.
inline double gain(unsigned threads, const std::function<void(unsigned)>& work) {
  auto seconds = [&](unsigned count) {
    const auto begin = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> all;
      for (unsigned i = 0; i < count; ++i) all.emplace_back([&work, i] { work(i); });
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  return threads * seconds(1) / seconds(threads);
}

// Additions and multiplications in registers, each of which waits for the one before: what two threads of one core
// gain, too.
inline double arithmetic_gain(unsigned threads) {
  return gain(threads, [](unsigned thread) {
    std::uint64_t a = thread, b = 1;
    for (std::uint64_t i = 0; i < 200'000'000; ++i) {
      a = a * 0x9e3779b97f4a7c15u + i;
      b ^= a >> 7;
      asm volatile("" : "+r"(b));
    }
  });
}

// As many operations at once as a core has pipelines for: threads that share a core share that.
inline void fill_pipelines(std::uint64_t turns) {
  std::uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
  for (std::uint64_t i = 0; i < turns; ++i) {
    a += i, b ^= i, c -= i, d += b, e ^= a, f += c, g -= i, h ^= i;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
  }
}
inline double pipelines_gain(unsigned threads) {
  return gain(threads, [](unsigned) { fill_pipelines(200'000'000); });
}

inline void run_on(const std::vector<int>& cpus) { // this thread, and those that it starts
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// Of the processors that the process may use, some that share no pipelines with each other, by measurement: a virtual
// machine does not tell which are threads of one core.
inline std::vector<int> cpus_apart() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  auto seconds = [](std::vector<int> cpus) {
    double best = 1e9;
    for (int attempt = 0; attempt < 5; ++attempt) {
      std::atomic<std::size_t> ready{0};
      std::vector<double> took(cpus.size());
      {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < cpus.size(); ++i) {
          threads.emplace_back([&, i] {
            run_on({cpus[i]});
            for (++ready; ready < cpus.size();) std::this_thread::yield();
            const auto begin = std::chrono::steady_clock::now();
            fill_pipelines(1'000'000);
            took[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
          });
        }
      }
      best = std::min(best, *std::max_element(took.begin(), took.end()));
    }
    return best;
  };
  std::vector<int> apart;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const double alone = seconds({cpu});
    const bool shares =
        std::any_of(apart.begin(), apart.end(), [&](int other) { return seconds({other, cpu}) > 1.35 * alone; });
    if (!shares) apart.push_back(cpu);
  }
  return apart;
}

// Words of 64 MB a thread, each somewhere, read and written: what looking up scattered accesses costs at least.
inline double memory_gain(unsigned threads) {
  constexpr std::size_t words = std::size_t(1) << 23, bytes = words * sizeof(std::uint64_t);
  std::vector<std::uint64_t*> tables(threads);
  for (std::uint64_t*& table : tables) {
    table = static_cast<std::uint64_t*>(std::aligned_alloc(std::size_t(2) << 20, bytes));
    if (!table) std::abort();
    madvise(table, bytes, MADV_HUGEPAGE); // as the analysis asks for
    for (std::size_t i = 0; i < words; ++i) table[i] = i;
  }
  const double result = gain(threads, [&](unsigned thread) {
    std::uint64_t state = thread;
    for (unsigned i = 0; i < 20'000'000; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      ++tables[thread][(state >> 33) % words];
    }
  });
  for (std::uint64_t* table : tables) std::free(table);
  return result;
}

} // namespace deadheat::bench
