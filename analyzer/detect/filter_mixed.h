// Two entries of a word under one name: what is known of its weak accesses, and of its strong ones.
//
// Words that a block writes and then adds to, or reads and adds to by turns, have both; their neighbours have the same
// two, but for the lanes, which are kept relative to one that each word's own entry has.
//
// Invariant: a pair in use counts its units. Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "analyzer/detect/filter_pages.h"
#include "analyzer/detect/filter_pairs.h"

namespace deadheat::detect {

class MixedPairs {
 public:
  // units: `crowded` where fewer units than that share a pair, on average.
  explicit MixedPairs(unsigned units) : units_(units) {}

  struct Mixed {
    Entry weak, strong;
    bool operator==(const Mixed& other) const {
      return weak.segment == other.weak.segment && weak.who == other.weak.who &&
             strong.segment == other.strong.segment && strong.who == other.strong.who;
    }
  };
  // Counts one more unit; fresh: of none before.
  SegmentId put(const Mixed& wanted, bool& fresh);
  bool known(const Mixed& wanted) const { return recent(wanted) != 0; }
  Mixed get(SegmentId name) const {
    const Pair& pair = *pool_.at(name);
    return {pair.weak, pair.strong};
  }
  // One unit less. What it said of weak accesses, where no other unit has it.
  std::optional<Entry> drop(SegmentId name);
  bool crowded() const { return count_ > total_users_ / units_ + few_pairs; }

  // Calls name(Entry& weak, Entry& strong) for all.
  template <typename Name>
  void each(Name&& name) {
    for (SegmentId id = 1; id <= pool_.count(); ++id) {
      Pair& pair = *pool_.at(id);
      if (pair.users) name(pair.weak, pair.strong);
    }
  }
  std::uint64_t bytes() const { return pool_.bytes(); }
  void trim(); // gives memory back once nothing is in use

 private:
  struct [[gnu::packed]] Pair {
    Entry weak, strong;
    std::uint16_t users = 0;
  };
  static_assert(sizeof(Pair) == 12);
  static constexpr std::uint16_t most_users = 0xFFFF;
  static constexpr std::uint64_t few_pairs = 1 << 12;
  static std::size_t place(const Mixed& of) {
    return ((std::uint64_t(of.weak.segment) << 8 | of.weak.who) * 0x9e3779b97f4a7c15u ^
            (std::uint64_t(of.strong.segment) << 8 | of.strong.who) * 0xd6e8feb86659fd93u) >>
           52;
  }
  SegmentId recent(const Mixed& wanted) const;

  const std::uint64_t units_;
  CellPool<Pair, 1> pool_;
  std::uint64_t count_ = 0, total_users_ = 0;
  std::array<SegmentId, 4096> recent_{}; // by hash of what they say, which is looked at again
};

} // namespace deadheat::detect
