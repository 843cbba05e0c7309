// Better witnesses of a race: pairs of schedules that show the same with fewer context switches, without other
// conflicting accesses changing places, and whatever memory holds that nobody wrote.
//
// Tried are: one access held back, from several base orders (directed.h); and randomised priorities of small depth,
// whose context switches are shrunk by delta debugging.
//
// Thread-safety: as Session.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "replay/search/directed.h"
#include "replay/search/interleaving.h"
#include "replay/search/session.h"

namespace deadheat::search {

// Where the outputs differ, do they say more of the order than of what memory holds that nobody wrote?
enum class Footing : std::uint8_t {
  certain, // some byte is the same whatever such memory holds in either run
  one_sided, // in one run; in the other it comes from such memory
  doubtful // in neither
};

struct Candidate {
  struct Direction { // how Directed makes it
    Directed::Base base;
    Directed::Apart::When when;
    bool exchanged; // the second side waits for the first
  };
  Schedule a, b;
  std::optional<Direction> direction = {};
  Footing footing = Footing::certain;
  std::vector<SitePair> others = {}; // pairs of sites besides the race's own that changed places
  bool own_others = false;    // other instances of the pair did
  std::uint64_t switches = 0; // that b has and a has not
  static constexpr std::uint64_t few = 6;
  static constexpr std::uint64_t many = 32; // nobody reads that: as bad as that others changed places
  bool good() const { return footing != Footing::doubtful && others.empty() && switches <= few; }
  bool perfect() const { return good() && !own_others; } // nothing but the instance changed places
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
  // Runs of as few blocks and threads as still show the difference and change nothing else; null: of all.
  struct Smaller {
    Schedule a, b;
    std::uint64_t blocks = 0, threads = 0; // that stay
  };
  Expected<std::optional<Smaller>> smaller(const Candidate& than, const Wanted& wanted, std::uint64_t blocks,
                                           std::uint64_t threads, std::chrono::steady_clock::time_point deadline);
  // The best that was found until `deadline`, which may be `than` itself.
  Expected<Candidate> better(Candidate than, const Wanted& wanted, std::chrono::steady_clock::time_point deadline);

 private:
  Expected<Footing> footing(const Schedule& a, const Schedule& b, const Outputs& of_a, const Outputs& of_b);
  Expected<std::optional<Schedule>> directed(Directed::Base base, const Directed::Apart& apart,
                                             const std::optional<Hold>& hold, const std::vector<Absent>& absent);
  Expected<std::optional<Candidate>> directed_pair(const Candidate::Direction& direction, const Wanted& wanted,
                                                   const std::vector<Absent>& absent);
  Expected<void> by_direction(Candidate& best, const Wanted& wanted, std::chrono::steady_clock::time_point deadline);
  Expected<void> by_priorities(Candidate& best, const Wanted& wanted, std::chrono::steady_clock::time_point deadline);

  const Session& session_;
  const std::uint64_t budget_, seed_, visible_;
};

} // namespace deadheat::search
