// How much faster the machine itself is on several cores: loops that share nothing, on one core and on each of several.
//
// What a benchmark gains by more cores is to be judged by this: cores may share caches, memory and even their pipelines
// with each other and with other machines' loads.
//
// Thread-safety: starts threads of its own and joins them.
#pragma once

#include <sys/mman.h>

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

// Additions and multiplications in registers.
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
