// Two epochs of a unit under one name: that of its last write, and that of the reads since.
//
// Units that one warp wrote and one warp read, each lane the same number of lanes apart, have one *pair*, so that an
// entry of a table says either with no more room than a single epoch takes. Where units do not share pairs (what one
// warp reads was written by lanes anywhere), that of the write is *widened* until they do: it stands for all that the
// write's warp, block or operation did up to some stamp, which may move on as others join. So what is said to be
// ordered before an access is, and no race is missed; what is not ordered may be suspect in vain.
//
// Invariant: a pair in use counts its units.
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>

#include "analyzer/detect/filter_epochs.h"
#include "analyzer/detect/filter_pages.h"

namespace deadheat::detect {

struct [[gnu::packed]] Entry {
  SegmentId segment = 0; // or a pair's name
  std::uint8_t who = 0;
};
static_assert(sizeof(Entry) == 5);

class EpochPairs {
 public:
  // units: writes' epochs are widened where fewer units than that share a pair, on average. Without epochs: never.
  EpochPairs(const Epochs* epochs, unsigned units) : epochs_(epochs), units_(units) {}

  // Entries that name pairs: levels that stand for several lanes, whose lowest bits say little else.
  static bool is_pair(std::uint8_t who) { return (who >> 5) - 1u < 4 && (who & 0x18) == 0x08; }

  Entry put(const Cell& cell); // of one that has a write; counts one more unit
  // The same of one that has a write or reads: both are widened to what the segment has in common with them.
  Entry put_wide(const Cell& cell, SegmentId with);
  bool share(SegmentId pair) { // one more unit; false: there is no room
    Pair& known = *pool_.at(pair);
    if (known.users == most_users) return false;
    ++known.users;
    ++total_users_;
    return true;
  }
  // The lane that an entry says, where it means something; what it would be of another one.
  bool of_lane(Entry entry) const {
    const Pair& pair = *pool_.at(entry.segment);
    return (pair.write && pair.write_who >> 5 == one_lane) || (pair.reads && pair.reads_who >> 5 == one_lane);
  }
  static constexpr unsigned lane_of(std::uint8_t who) { return ((who >> 5) - 1u) * 8 + (who & 7); }
  static constexpr std::uint8_t who_of_lane(unsigned lane) { return who_of(1 + lane / 8, 8 | lane % 8); }
  void get(Entry entry, Cell& cell) const;
  void drop(SegmentId pair); // one unit less

  template <typename Name>
  void each_name(Name&& name) {
    for (SegmentId id = 1; id <= pool_.count(); ++id) {
      Pair& pair = *pool_.at(id);
      if (!pair.users) continue;
      SegmentId write = pair.write, reads = pair.reads;
      name(write);
      name(reads);
      pair.write = write;
      pair.reads = reads;
    }
  }
  std::uint64_t count() const { return count_; } // pairs
  std::uint64_t bytes() const { return pool_.bytes(); }
  void trim(); // gives memory back once nothing is in use

 private:
  struct [[gnu::packed]] Pair {
    SegmentId write = 0, reads = 0;
    std::uint16_t users = 0;
    std::uint8_t write_who = 0; // one_lane: and how many lanes from that of the entry
    std::uint8_t reads_who = 0; // the level; of one_lane, the entry has the lane
  };
  static_assert(sizeof(Pair) == 12);
  static constexpr std::uint8_t non_coherent = 1; // in reads_who
  static constexpr std::uint16_t most_users = 0xFFFF;
  static constexpr std::uint16_t most_joined = 512; // whose reads one epoch stands for: it is not to grow too wide
  static constexpr std::uint64_t few_pairs = 1 << 12;

  SegmentId widened(Pair& pair);
  SegmentId joined(const Pair& wide, bool join_reads);
  SegmentId add(const Pair& pair);
  bool crowded() const { return epochs_ && count_ > total_users_ / units_ + few_pairs; }
  static std::size_t place(std::uint64_t a, std::uint64_t b) {
    return (a * 0x9e3779b97f4a7c15u ^ b * 0xd6e8feb86659fd93u) >> 52;
  }

  const Epochs* const epochs_;
  const std::uint64_t units_;
  CellPool<Pair, 1> pool_;
  std::uint64_t count_ = 0, total_users_ = 0;
  // Recent ones, by hash of what they say; those with a widened write apart. What they say is looked at again.
  std::array<SegmentId, 4096> recent_{}, recent_wide_{};
};

} // namespace deadheat::detect
