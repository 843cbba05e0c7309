// Randomised priorities: who goes on under Schedule::Kind::priorities (Burckhardt, Kothari, Musuvathi, Nagarakatte: A
// Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010).
//
// Every agent has a priority of its own, random unless Schedule::order says otherwise; whoever can go on and has the
// highest does. At depth - 1 random
// decisions the agent that runs falls below all that have not fallen. An agent that gives way by itself (nanosleep, a
// loop that used up its turn) falls below everybody, so that whom it waits for gets on.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "deadheat/schedule.h"
#include "replay/device/block.h"

namespace deadheat::device {

class Priorities {
 public:
  explicit Priorities(const Schedule& schedule);

  void add(Block& block, std::uint32_t thread); // can go on
  void forget(const Launch& launch);
  // The thread that can go on with the highest priority; false: none can.
  bool best(Block*& block, std::uint32_t& thread, std::uint64_t& priority);
  std::uint64_t of(const Agent& agent) const;

  // Decision number `now`, with `running` the agent that ran: falls where a change point was passed.
  void passed(std::uint64_t now, const Agent& running);
  void gives_way(const Agent& agent);
  // Decisions until the next change point.
  std::int64_t until_change(std::uint64_t now) const;

 private:
  using Key = std::tuple<std::uint8_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  struct Entry {
    std::uint64_t priority;
    Block* block;
    std::uint32_t operation, index, thread;
    friend bool operator<(const Entry& a, const Entry& b) { return a.priority < b.priority; }
  };
  static Key key(const Agent& agent);
  static Agent agent(const Block& block, std::uint32_t thread);
  void fall(const Agent& agent, std::uint64_t to);

  std::uint64_t seed_;
  Schedule::Order order_;
  std::vector<std::uint64_t> changes_; // ascending
  std::size_t next_change_ = 0;
  std::uint64_t floor_;                // the priority of who fell last
  std::map<Key, std::uint64_t> fallen_;
  std::vector<Entry> heap_;            // may hold entries that no longer hold
};

} // namespace deadheat::device
