// Better witnesses of a race: pairs of schedules that show the same with fewer context switches, without other
// conflicting accesses changing places, and whatever memory holds that nobody wrote.
//
// Tried are: one access held back, from two base orders (directed.h); and randomised priorities of small depth, whose
// context switches are shrunk by delta debugging.
//
// Thread-safety: as Session.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "replay/search/interleaving.h"
#include "replay/search/session.h"

namespace deadheat::search {

struct Candidate {
  Schedule a, b;
  bool solid = true;          // the outputs differ in bytes that memory nobody wrote has no part in
  std::vector<SitePair> others = {}; // pairs of sites besides the race's own that changed places
  bool own_others = false;    // other instances of the pair did
  std::uint64_t switches = 0; // that b has and a has not
  static constexpr std::uint64_t few = 6;
  bool good() const { return solid && others.empty() && switches <= few; }
  bool better_than(const Candidate& other) const;
};

class Alternatives {
 public:
  struct Wanted {
    Race::Instance instance;
    SiteName first, second; // the race's sites, the smaller first
  };
  Alternatives(const Session& session, std::uint64_t budget, std::uint64_t seed, std::uint64_t visible)
      : session_(session), budget_(budget), seed_(seed), visible_(visible) {}

  // What the two schedules show; null: the same outputs, or, with `must_change`, the pair in one order.
  Expected<std::optional<Candidate>> measure(const Schedule& a, const Schedule& b, const Wanted& wanted,
                                             bool must_change);
  // The best that was found until `deadline`, which may be `than` itself.
  Expected<Candidate> better(Candidate than, const Wanted& wanted, std::chrono::steady_clock::time_point deadline);

 private:
  Expected<bool> is_solid(const Schedule& a, const Schedule& b, const Outputs& of_a, const Outputs& of_b);
  Expected<std::optional<Schedule>> directed(int base, const std::optional<Hold>& hold);
  Expected<void> by_direction(Candidate& best, const Wanted& wanted);
  Expected<void> by_priorities(Candidate& best, const Wanted& wanted, std::chrono::steady_clock::time_point deadline);

  const Session& session_;
  const std::uint64_t budget_, seed_, visible_;
};

} // namespace deadheat::search
