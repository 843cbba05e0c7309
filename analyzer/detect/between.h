// What the program does between the two accesses of a race inside a launch: where a synchronization that is missing
// would have to stand.
//
// Whichever access came first, one of the two threads is ahead of the other: it has performed what the other still has
// to. Between the two accesses lie those that it performed behind where the other one is. Feed it the records that a
// Detector was fed, once the races are known; its stamps count as the Detector's do.
//
// Thread-safety: none.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "analyzer/detect/detector.h"

namespace deadheat::detect {

// Two accesses that follow each other in the program's order.
struct Gap {
  PlaceId before = 0, behind = 0;
  friend auto operator<=>(const Gap&, const Gap&) = default;
};

class Between final : public trace::RecordVisitor {
 public:
  Between(const Detector& detector, const std::vector<FoundRace>& races);
  bool access(const trace::AccessView& access) override;
  bool record(trace::Record& record) override;
  void missing() override { torn_ = true; }

  // After the last record, of each instance of a race of which it is known: the gaps between the two, or between those
  // of the same two threads and bytes that are nearest to each other, in the program's order. `at_once`: both threads
  // are at the same place of the program, where no barrier can help.
  struct Found {
    std::vector<Gap> gaps;
    bool at_once = false;
  };
  std::vector<Found> gaps(std::size_t race) const;
  const std::set<PlaceId>& barriers() const { return barriers_; } // of blocks and warps that were executed

 private:
  static constexpr std::size_t most_races = 1024; // that are followed
  static constexpr std::size_t most_instances = 8; // of each, beside that which stands for all
  static constexpr std::size_t most_steps = 4096; // of a thread
  static constexpr std::size_t most_kept = std::size_t(1) << 22; // steps of all instances
  struct Steps { // accesses
    std::vector<PlaceId> places;
    std::vector<std::uint64_t> addresses;
    bool empty() const { return places.empty(); }
    Steps from(std::size_t begin) const {
      const auto at = std::ptrdiff_t(begin);
      return {{places.begin() + at, places.end()}, {addresses.begin() + at, addresses.end()}};
    }
  };
  struct Instance {
    Touch first, second;
    Steps before_first, before_second; // what each thread did, its own access at the end
    bool met_some = false; // so that not all that they did is unordered
    PlaceId barrier = 0; // the block's last full one before them
    bool one_block() const { return first.thread.block_bits() == second.thread.block_bits(); }
  };
  struct Thread {
    Steps steps; // since its block's last barrier, or, where it races with another block, its begin
    std::size_t since = 0; // the first behind its block's last barrier
    bool cut = false; // some are missing
    bool met_some = false; // at a barrier of some threads only, since then
    bool across_blocks = false;
    struct Side {
      order::Stamp stamp = 0;
      Steps* steps = nullptr;
      Instance* of = nullptr;
    };
    std::vector<Side> sides; // of races, that it has still to come to
  };
  using Warp = std::map<unsigned, Thread>; // by lane
  void follow(Instance& instance);
  Found between(const Instance& instance) const;
  bool comes_before(PlaceId a, PlaceId b, PlaceId barrier) const;
  int line_against(PlaceId a, PlaceId b) const;
  void met_some(std::uint32_t launch, std::uint32_t block);

  const Detector& detector_;
  order::Stamp now_ = 0;
  std::vector<std::vector<Instance>> instances_; // by race
  std::unordered_map<std::uint64_t, std::map<unsigned, Warp>> by_block_; // ThreadKey::block_bits
  std::unordered_map<std::uint64_t, PlaceId> last_barrier_; // of blocks
  std::set<PlaceId> barriers_;
  std::size_t kept_ = 0;
  bool torn_ = false;
};

} // namespace deadheat::detect
