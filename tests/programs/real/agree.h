// What the programs share that run a library's algorithms at many sizes: input, device arrays, the comparison with the
// host's answer, and the line that says how it went.
//
// A program ends with conclude(): `ok N cases of A to B elements`, or one line for each case that went wrong and status
// 1. Sizes given on the command line replace a program's own: tests/programs/large.py does that. One thread only.
#pragma once

#include "check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

namespace agree {

struct Tally {
  int cases = 0, wrong = 0;
  std::size_t smallest = ~std::size_t{0}, largest = 0;
};

inline Tally& tally() {
  static Tally the;
  return the;
}

// Numbers that look random and are the same on every machine: splitmix64 of the place.
inline std::uint64_t scatter(std::uint64_t place) {
  std::uint64_t z = place * 0x9e3779b97f4a7c15u + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// `count` whole numbers from `low` to `high`, both possible; exact in every arithmetic type that holds them.
template <class T>
std::vector<T> values(std::size_t count, long long low, long long high, std::uint64_t seed = 0) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = static_cast<T>(
        low + static_cast<long long>(scatter(i + (seed << 32)) % static_cast<std::uint64_t>(high - low + 1)));
  return all;
}

// Ascending numbers in which runs of equal ones have 1 to `longest` elements.
template <class T>
std::vector<T> runs(std::size_t count, int longest, std::uint64_t seed = 0) {
  std::vector<T> all(count);
  T key = 0;
  for (std::size_t i = 0, left = 0; i < count; ++i, --left) {
    if (left == 0) ++key, left = 1 + scatter(i + (seed << 32)) % longest;
    all[i] = key;
  }
  return all;
}

// Bits, not values: NaNs agree with themselves, -0 does not agree with 0.
template <class T>
bool same(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Counts one case. Says where the first difference is.
template <class T>
void equal(const char* what, std::size_t size, const std::vector<T>& got, const std::vector<T>& expected) {
  Tally& sum = tally();
  ++sum.cases;
  sum.smallest = std::min(sum.smallest, size);
  sum.largest = std::max(sum.largest, size);
  if (got.size() != expected.size()) {
    ++sum.wrong;
    std::printf("wrong: %s of %zu: %zu results instead of %zu\n", what, size, got.size(), expected.size());
    return;
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (same(got[i], expected[i])) continue;
    ++sum.wrong;
    std::printf("wrong: %s of %zu: differs from element %zu on\n", what, size, i);
    return;
  }
}

// The same for values that need not agree to the last bit.
template <class T>
void near(const char* what, std::size_t size, const std::vector<T>& got, const std::vector<T>& expected,
          double tolerance) {
  std::vector<T> settled = expected;
  for (std::size_t i = 0; i < expected.size() && i < got.size(); ++i) {
    double distance = static_cast<double>(got[i]) - static_cast<double>(expected[i]);
    if (distance <= tolerance && -distance <= tolerance) settled[i] = got[i];
  }
  equal(what, size, got, settled);
}

inline void is_true(const char* what, std::size_t size, bool good) {
  equal(what, size, std::vector<int>{good}, std::vector<int>{1});
}

// An array in device memory that frees itself.
template <class T>
class Array {
 public:
  explicit Array(const std::vector<T>& from) : count_(from.size()) {
    CHECK(cudaMalloc(&data_, count_ * sizeof(T)));
    CHECK(cudaMemcpy(data_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  // Every byte 0x5a.
  explicit Array(std::size_t count) : count_(count) {
    CHECK(cudaMalloc(&data_, count * sizeof(T)));
    CHECK(cudaMemset(data_, 0x5a, count * sizeof(T)));
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { cudaFree(data_); }

  operator T*() const { return data_; }
  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::vector<T> host() const { return to_host(data_, count_); }
  std::vector<T> host(std::size_t count) const { return to_host(data_, std::min(count, count_)); }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

template <class T>
Array<T> filled(std::size_t count, T value) {
  return Array<T>(std::vector<T>(count, value));
}

// Calls a device-wide algorithm of CUB twice, as its interface asks: for the size of its temporary storage, then for
// the work itself.
template <class Call>
void two_phases(Call call) {
  std::size_t bytes = 0;
  CHECK(call(nullptr, bytes));
  void* temporary = nullptr;
  CHECK(cudaMalloc(&temporary, std::max<std::size_t>(bytes, 1)));
  CHECK(call(temporary, bytes));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(temporary));
}

// The sizes on the command line; `usual` without any.
inline std::vector<int> sizes(int argument_count, char** arguments, std::initializer_list<int> usual) {
  std::vector<int> chosen;
  for (int i = 1; i < argument_count; ++i) chosen.push_back(std::atoi(arguments[i]));
  return chosen.empty() ? std::vector<int>(usual) : chosen;
}

inline int conclude() {
  const Tally& sum = tally();
  if (sum.wrong > 0 || sum.cases == 0) return std::printf("%d of %d cases wrong\n", sum.wrong, sum.cases), 1;
  std::printf("ok %d cases of %zu to %zu elements\n", sum.cases, sum.smallest, sum.largest);
  return 0;
}

} // namespace agree
