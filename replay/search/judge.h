// The search for a verdict on one race after the other (search.h), in one session: two runs that take the pair in
// either order, then other orders and older values; and what shows a difference, described and written down.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "replay/search/alternatives.h"
#include "replay/search/interleaving.h"
#include "replay/search/search.h"
#include "replay/search/session.h"
#include "replay/search/systematic.h"
#include "replay/search/witness.h"

namespace deadheat::search {

// Two schedules that take the accesses of one instance of a race in either order, everything else as it comes.
struct SchedulePair {
  Schedule first_then_second, second_then_first;
};
SchedulePair schedule_pair(const Race::Instance& instance);
constexpr std::uint64_t schedules_of_whole = 4; // tried for a race
constexpr std::uint64_t most_logged = 1 << 20; // operations of runs that are compared one by one

class Judge {
 public:
  // `alone`: nothing but this race can make outputs differ.
  Judge(const Session& session, const SearchOptions& options, const Run& natural, std::uint64_t budget, bool alone)
      : session_(session), options_(options), natural_(natural), budget_(budget), alone_(alone) {}

  // `again`: a race that the same fault makes has been found harmful. Then the first schedules that show a difference
  // will do, and less time is spent on finding them.
  Expected<void> judge(Race& race, bool again);
  // Races whose two operations race in no other way, by id: what changes when these change places is the race's doing.
  void sole(std::set<std::uint32_t> races) { sole_ = std::move(races); }

 private:
  using Clock = std::chrono::steady_clock;

  // Instances (attempts.cpp). Of what returns a bool: true when the verdict is made.
  // Schedules that take the pair in either order, the narrowest first.
  std::vector<std::pair<Race::Instance, SchedulePair>> attempts(const Race& race) const;
  Expected<bool> attempt(Race& race, const Race::Instance& instance, SchedulePair pair);
  // Of many instances whose writes come first, that which changes the outputs when its read does not see the write. All
  // are tried at once: but once one of them matters, what follows is another run, to which the others mean nothing. So
  // it is one alone that counts.
  Expected<bool> one_of_many(Race& race);
  // Holds change the natural order, in which the lanes of a warp go together: that can be many switches, other accesses
  // may change places, too, and the difference may rest on memory that nobody wrote. A better witness of the instance
  // is looked for then. False: what there is does not show the pair alone, in few switches; other instances come first.
  Expected<bool> settle(Race& race, const SchedulePair& pair, const Race::Instance& instance, bool old_shown);
  Expected<bool> better_by_old_values(Race& race);
  Expected<void> accept_doubtful(Race& race); // or what is better than it
  Expected<void> accept(Race& race, const Candidate& best, const Race::Instance& instance);

  // The search (judge.cpp).
  // Every schedule of the run, if it is small: explored once for all races. Null: it is not.
  Expected<const Systematic*> every_schedule();
  // Number 0, 1, … of the orders in which other instances of the pair change places too: in every fourth, the accesses
  // of the pair are walked through uniformly.
  Expected<Schedule> ordering(const Race& race, std::uint64_t number);
  // Two runs of one order of threads, in which reads of this pair return older values in the one and not in the other.
  // Once for a race. True: that changed the outputs, and the verdict is made.
  Expected<bool> by_old_values(Race& race);
  static bool may_be_old(const Race& race); // something that a read of the race returns
  static bool reads_non_coherently(const Race& race); // ld.global.nc
  // Two operations the other way round as a whole (whole_operations.cpp): what single threads change first need not
  // show, where they write what was there before. True: that changed the outputs, and the verdict is made.
  bool may_turn(const Race& race) const;
  Expected<bool> by_whole_operations(Race& race);
  Expected<bool> turns_alone(const Race& race, const SchedulePair& pair, const Race::Instance& instance) const;
  // Is what differs between the outputs of the two the race's doing, as far as it shows in what the pair does
  // (effect.h)?
  Expected<bool> tells(const Race& race, const Schedule& a, const Schedule& b) const;
  bool of_side(const RaceSide& side, const SiteName& name) const; // the instruction, or one of the same lines
  // A run that shows old values and does not end is no harm that accesses do which the model allows: a loop that waits
  // for the new one sees it eventually.
  static bool waits_in_vain(const Race& race, const Run& run);
  double seconds() const; // at most, for the race
  Clock::time_point deadline() const;
  // `kept`: schedules that are left for later.
  bool spent(const Race& race, std::uint64_t kept = 0) const;
  static std::vector<SiteName> sites_of(const Race& race);

  // What was found (evidence.cpp).
  // A pair of schedules whose outputs differ: describes the difference and writes the witness. `directed`: the instance
  // that they take in either order; without one, that at which the runs part.
  Expected<void> found(Race& race, const SchedulePair& pair, const Run& a, const Run& b,
                       const std::optional<Race::Instance>& directed);
  // What the two runs of a witness did, and what else than the instance changed places.
  // `choose`: the instance may become that at which they part.
  Expected<void> describe(Race& race, const SchedulePair& pair, Race::Instance& instance, bool choose);
  Expected<void> write(Race& race, const Witness& witness, const Session& run);
  // An order that changes the outputs: the switches in it that matter.
  Expected<void> found_by_order(Race& race, const Schedule& schedule, const Run& run);
  // Both as lists: of the switches that they share and of the old values, those that matter.
  Expected<bool> found_by_old_values(Race& race, const SchedulePair& pair, const Run& with);

  const Session& session_;
  const SearchOptions& options_;
  const Run& natural_;
  std::uint64_t budget_;
  bool alone_;
  std::set<std::uint32_t> sole_;
  std::optional<Systematic> all_; // every schedule, if the run is small
  std::optional<Log> log_; // of the natural run

  struct OfARace {
    Clock::time_point begin;
    bool again = false;
    std::optional<std::pair<Candidate, Race::Instance>> doubtful; // the best so far of those that are not good
    unsigned doubts = 0;
    std::uint64_t driven = 0; // pairs of runs that took the race in either order
    std::size_t patient_tries = 0;
    std::string trouble; // why an instance could not be
    bool tried_old_values = false;
    std::optional<Witness::Smaller> smaller; // of the witness that is written next
    std::uint64_t elsewhere = 0; // schedules whose outputs differed by what other accesses did
  };
  OfARace this_race_; // that is judged
};

} // namespace deadheat::search
