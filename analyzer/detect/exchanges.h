// Races between two launches that wait for each other, in runs on a GPU: kernels in two streams that hand each other
// messages by flags in memory, as an all-reduce does. Where a launch's records were put in order by themselves there, a
// wait does not come behind the write that ended it if that is of another launch: whether the two accesses are ordered
// so is not known. It is of launches that run at the same time in the log, whose records were put in order together.
// (On the embedded device it always is.)
//
// Feed it the log's records, once the races are known.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analyzer/detect/detector.h"

namespace deadheat::detect {

class Exchanges final : public trace::RecordVisitor {
 public:
  Exchanges(const Detector& detector, const std::vector<FoundRace>& races);
  bool access(const trace::AccessView& access) override;
  bool record(trace::Record& record) override;

  bool possible() const { return !launches_.empty(); }
  // After the last record: one of the race's launches reads in a loop, strongly, what the other writes so.
  bool unknown(std::size_t race) const;

 private:
  static constexpr std::size_t most_words = 1 << 16; // of a launch; beyond, what else it does is not looked at
  struct Words {
    std::unordered_set<std::uint64_t> polled, written; // addresses
  };
  using Pair = std::pair<std::uint32_t, std::uint32_t>; // launches
  Pair launches_of(const FoundRace& race) const; // 0: none

  const Detector& detector_;
  const std::vector<FoundRace>& races_;
  bool on_gpu_ = false;
  std::unordered_map<std::uint32_t, Words> launches_; // of such races
  std::unordered_map<std::uint32_t, std::uint32_t> numbers_; // of these launches, by operation
  std::set<std::uint32_t> running_;
  std::set<Pair> together_; // that ran at the same time: the smaller number first
  std::unordered_map<std::uint32_t, std::vector<Site>> modules_;
};

} // namespace deadheat::detect
