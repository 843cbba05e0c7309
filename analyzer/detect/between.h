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
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/detect/detector.h"

namespace deadheat::detect {

// Two accesses that follow each other in the program's order.
struct Gap {
  PlaceId before = 0, behind = 0;
  friend auto operator<=>(const Gap&, const Gap&) = default;
};

// A function of the program's text: its file, and its name without what a template was made for.
using FunctionName = std::pair<std::string, std::string>;
FunctionName function_name(const SourceFrame& frame);

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
  // Barriers outside of a function that a thread came to behind one call of it and before the next: there its callers
  // synchronize. Null where it is not known: of functions that no race has both of its accesses in.
  const std::set<PlaceId>* between_calls(const FunctionName& function) const;

 private:
  static constexpr std::size_t most_races = 1024; // that are followed
  static constexpr std::size_t most_instances = 8; // of each, beside that which stands for all
  static constexpr std::size_t most_steps = 4096; // of a thread
  static constexpr std::size_t most_kept = std::size_t(1) << 22; // steps of all instances
  static constexpr std::size_t most_functions = 64;
  using Functions = std::uint64_t; // a bit each
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
    Functions called = 0; // that it has been in
    std::map<PlaceId, Functions> behind; // barriers outside of functions that it has not come back to since
    struct Side {
      order::Stamp stamp = 0;
      Steps* steps = nullptr;
      Instance* of = nullptr;
    };
    std::vector<Side> sides; // of races, that it has still to come to
  };
  using Warp = std::map<unsigned, Thread>; // by lane
  void note_functions(const FoundRace& race);
  Functions around(PlaceId place);
  void comes_to(Thread& thread, PlaceId place);
  void passes(Thread& thread, PlaceId barrier);
  void pass(std::uint32_t launch, std::uint32_t block, PlaceId barrier, const trace::Warp* warp, std::uint32_t mask);
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
  std::map<FunctionName, unsigned> functions_; // that both accesses of a race are in: their bits
  std::unordered_map<PlaceId, Functions> around_;
  std::vector<std::set<PlaceId>> between_calls_; // by bit
  std::size_t kept_ = 0;
  bool torn_ = false;
};

} // namespace deadheat::detect
