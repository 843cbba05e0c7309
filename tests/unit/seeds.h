// Seeds of tests whose inputs are random. Each has its usual ones; tools/random.sh asks for others, and for many more:
//
//   DEADHEAT_SEEDS_FROM=N    those N behind the usual ones
//   DEADHEAT_SEEDS_TIMES=N   N times as many
//
// Thread-safety: pure functions of the environment.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <ranges>
#include <vector>

namespace deadheat::test {

inline std::uint64_t seed_setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}
inline std::uint64_t seeds_from() { return seed_setting("DEADHEAT_SEEDS_FROM", 0); }
inline std::uint64_t seeds_times() { return seed_setting("DEADHEAT_SEEDS_TIMES", 1); }

// Usually first, first + 1…, as many as that.
inline auto seeds(std::uint64_t first, std::uint64_t usual) {
  first += seeds_from();
  return std::views::iota(first, first + usual * seeds_times());
}
inline std::vector<unsigned> seed_list(std::uint64_t first, std::uint64_t usual) {
  std::vector<unsigned> list;
  for (const std::uint64_t seed : seeds(first, usual)) list.push_back(unsigned(seed));
  return list;
}

} // namespace deadheat::test
