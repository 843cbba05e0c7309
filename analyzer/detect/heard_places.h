// Where a strong access may have heard something: locations that were read, by an access whose value somebody looks at.
// What is released anywhere else reaches nobody.
//
// By hash: it may name others, too, and always does when there are very many. What it has does not depend on the order
// in which it was filled.
//
// Thread-safety: none while adding.
#pragma once

#include <cstdint>
#include <vector>

namespace deadheat::detect {

class HeardPlaces {
 public:
  // `memory` as in Shadow::access.
  void add(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes) {
    if (words_.empty()) words_.resize(size / 64);
    each(memory, address, bytes, [&](std::uint64_t bit) {
      words_[bit / 64] |= std::uint64_t(1) << bit % 64;
      return false;
    });
  }
  void add(const HeardPlaces& other) {
    if (words_.empty()) words_.resize(other.words_.size());
    for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool has(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes) const {
    return !words_.empty() &&
           each(memory, address, bytes, [&](std::uint64_t bit) { return (words_[bit / 64] >> bit % 64 & 1) != 0; });
  }

 private:
  static constexpr std::uint64_t size = std::uint64_t(1) << 22; // bits
  template <typename F>
  static bool each(std::uint64_t memory, std::uint64_t address, std::uint64_t bytes, F&& f) { // up to the first true
    for (std::uint64_t at = address / 8; at <= (address + bytes - 1) / 8; ++at)
      if (f((at * 0x9e3779b97f4a7c15u ^ memory * 0xc2b2ae3d27d4eb4fu) >> 42)) return true;
    return false;
  }

  std::vector<std::uint64_t> words_; // empty: none
};

} // namespace deadheat::detect
