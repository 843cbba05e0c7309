// Undefined bits (engine/undefined.h) that wait to be seen: loads that they came from, and memory that holds results
// computed from them.
//
// Thread-safety: none; part of a machine.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "deadheat/trace.h"

namespace deadheat::device {

// Where results lie, in words of 8 bytes: word → number of the load that they come from. Of more than `most` words the
// rest is forgotten: what comes of them is then not reported.
class UndefinedWords {
 public:
  static constexpr std::size_t most = std::size_t(1) << 18;
  void add(std::uint64_t address, std::uint64_t bytes, std::uint32_t load);
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
  // The first that lies in the range and for which body(address of the word) holds, or -1.
  template <typename F>
  std::int64_t find(std::uint64_t address, std::uint64_t bytes, const F& body) const {
    for (auto at = words_.lower_bound(address / 8); at != words_.end() && at->first * 8 < address + bytes; ++at)
      if (body(at->first * 8)) return at->second;
    return -1;
  }
  void forget(std::uint64_t address, std::uint64_t bytes);
  bool empty() const { return words_.empty(); }
  void clear() { words_.clear(); }

 private:
  std::map<std::uint64_t, std::uint32_t> words_;
};

// Loads of undefined bits, one a site: the error that each is when what it read comes to matter.
class UndefinedLoads {
 public:
  // The number of the error's site; the first error counts.
  std::uint32_t add(const trace::MemoryError& error);
  // Once each: the error with the rest of its text, else null.
  const trace::MemoryError* report(std::uint32_t load, const std::string& use);

 private:
  struct Load {
    trace::MemoryError error;
    bool reported = false;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers_; // by module and site
  std::vector<Load> loads_;
};

} // namespace deadheat::device
