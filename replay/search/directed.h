// Runs that take one pair of accesses in a chosen order with the smallest detour, from a base order of one's own
// choice.
//
// Base orders: `runs_on`, each thread goes on as long as it can, as under the default of lists of switches; `in_step`,
// whoever has performed least goes on, so that threads stay side by side as if a barrier stood after every step. Where
// a missing barrier makes the first one read memory that nobody has written yet, the second one mostly does not.
//
// The two threads may be set apart from the others: they go on when nobody else can, or nobody else while they can.
// What the others do then stays the same whichever way the two take, and neither overwrites what the two wrote.
//
// When its turn for its access comes the held thread waits; the thread of the other goes on until it has performed
// that, or, where it cannot, the others; then the held one goes on at once. When only the held one can go on it does.
//
// Copies are performed when no thread can go on, but for one that the held thread waits for: as soon as it can be.
//
// Thread-safety: none.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "replay/device/chooser.h"

namespace deadheat::search {

class Directed final : public device::Chooser {
 public:
  enum class Base : std::uint8_t { runs_on, in_step };
  struct Apart { // two threads, named by an access of each
    enum class When : std::uint8_t { never, after_others, before_others } when = When::never;
    AccessName one, other;
  };
  Directed(Base base, std::optional<Hold> hold) : Directed(base, std::move(hold), Apart()) {}
  Directed(Base base, std::optional<Hold> hold, const Apart& apart)
      : base_(base), hold_(std::move(hold)), apart_(apart) {}

  std::size_t choose(const std::vector<device::NextAccess>& able,
                     const std::vector<device::NextAccess>& waiting) override;
  void stuck(const std::vector<device::NextAccess>&) override {}
  std::size_t age(std::size_t) override { return 0; }
  void met(std::uint32_t, std::uint32_t, const std::vector<std::uint32_t>&) override {}
  void beyond(const char*) override {}

  bool kept() const { return hold_ && held_waited_ && until_done_; } // the wait was over when the other was performed

 private:
  bool is_at(const device::NextAccess& next, const AccessName& name) const;
  std::size_t base_choice(const std::vector<device::NextAccess>& able, std::size_t but) const;
  bool waits_for_others(const Agent& agent) const;

  const Base base_;
  const std::optional<Hold> hold_;
  const Apart apart_;
  bool held_waited_ = false, until_done_ = false, gave_up_ = false, returns_ = false;
  Agent last_;
  std::map<Agent, std::uint64_t> performed_;
  std::map<std::tuple<Agent, std::uint32_t, std::uint32_t>, std::uint64_t> executions_; // by site
  struct Issued {
    std::uint32_t module = 0, site = 0;
    std::uint64_t nth = 0;
  };
  std::map<Agent, std::vector<Issued>> issued_; // the copies of each thread
};

} // namespace deadheat::search
