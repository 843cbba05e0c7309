#include "tests/unit/slots_oracle.h"

#include <algorithm>
#include <optional>

namespace deadheat::test {

namespace {

using Kind = Event::Kind;

// Every strong access releases and acquires, and a vote orders what its lanes do.
Execution strengthened(Execution execution) {
  for (Event& event : execution.events) {
    if (event.kind == Kind::access && event.strong()) {
      event.ordering = event.access == AccessKind::read    ? Ordering::acquire
                       : event.access == AccessKind::write ? Ordering::release
                                                           : Ordering::acq_rel;
      event.scope = Scope::sys;
    } else if (event.kind == Kind::mbarrier_arrive || event.kind == Kind::mbarrier_test) {
      event.ordering = event.kind == Kind::mbarrier_arrive ? Ordering::release : Ordering::acquire;
      event.scope = Scope::sys;
    }
    if (event.kind == Kind::cluster_arrive || event.kind == Kind::warp_barrier) event.relaxed = false;
  }
  return execution;
}

class Slots {
 public:
  Slots(const Execution& execution, const Flags& flags)
      : execution_(execution), events_(execution.events), flags_(flags) {}

  EventPairs refilled() const {
    const auto before = base_causality(strengthened(execution_));
    EventPairs found;
    for (std::size_t read = 0; read < events_.size(); ++read) {
      if (!is_flagged(read)) continue;
      const std::optional<std::size_t> at = taken_at(read);
      for (std::size_t write = read + 1; at && write < events_.size(); ++write) {
        if (fills(write) && !same_thread(read, write) && !before[read][write] && !replaced(read, *at, write) &&
            changes_data(read, write))
          found.insert({read, write});
      }
    }
    return found;
  }

 private:
  bool first_element(std::size_t e) const { return events_[e].kind == Kind::access && !events_[e].continued; }
  std::size_t elements(std::size_t e) const { return e + 1 < events_.size() && events_[e + 1].continued ? 2 : 1; }
  bool is_flagged(std::size_t e) const { return first_element(e) && flags_.count(site_of(execution_, e)); }
  bool fills(std::size_t e) const {
    const Event& event = events_[e];
    return first_element(e) && event.access == AccessKind::write &&
           (event.ordering == Ordering::relaxed || event.ordering == Ordering::volatile_);
  }
  bool same_thread(std::size_t a, std::size_t b) const {
    return events_[a].block == events_[b].block && events_[a].thread == events_[b].thread;
  }
  bool same_place(std::size_t a, std::size_t b) const {
    const Event &x = events_[a], &y = events_[b];
    return x.shared == y.shared && (!x.shared || x.memory_of() == y.memory_of()) && x.address == y.address;
  }
  // What a flagged read's thread may come to next.
  bool told(std::size_t e) const {
    switch (events_[e].kind) {
      case Kind::access: return !events_[e].continued;
      case Kind::warp_barrier: return !events_[e].relaxed;
      case Kind::fence:
      case Kind::arrive:
      case Kind::block_barrier:
      case Kind::cluster_arrive:
      case Kind::cluster_wait: return true;
      default: return false;
    }
  }
  // The event that shows that the read was the last one of a wait.
  std::optional<std::size_t> taken_at(std::size_t read) const {
    const ptx::FlaggedRead& flagged = flags_.at(site_of(execution_, read));
    const ptx::FlaggedRead::Next* next = &flagged.next;
    for (std::size_t e = read + 1; e < events_.size(); ++e) {
      if (events_[e].kind == Kind::launch_begin || events_[e].kind == Kind::launch_end || !same_thread(read, e))
        continue;
      if (events_[e].kind == Kind::exit) return next->ends ? std::optional(e) : std::nullopt;
      if (!told(e)) continue;
      const std::uint32_t site = site_of(execution_, e);
      const auto is_among = [&](const std::vector<std::uint32_t>& sites) {
        return std::count(sites.begin(), sites.end(), site) != 0;
      };
      if (is_among(next->beside)) {
        next = &flagged.behind_others;
        continue;
      }
      if (is_among(flagged.again)) {
        const bool elsewhere = !events_[e].strong() || !same_place(read, e);
        return elsewhere && flagged.moves_on ? std::optional(e) : std::nullopt;
      }
      return is_among(next->behind) ? std::optional(e) : std::nullopt;
    }
    return {};
  }
  // Has the thread, before the write, taken what it read there later by the same instruction, and this, too?
  bool replaced(std::size_t read, std::size_t taken, std::size_t write) const {
    for (std::size_t later = read + 1; later < write; ++later) {
      if (!is_flagged(later) || !same_thread(read, later) || !same_place(read, later) ||
          site_of(execution_, read) != site_of(execution_, later))
        continue;
      const std::optional<std::size_t> at = taken_at(later);
      if (at && taken < write && *at < write) return true;
    }
    return false;
  }
  bool changes_data(std::size_t read, std::size_t write) const {
    const std::uint32_t data = flags_.at(site_of(execution_, read)).data;
    const bool alike = same_place(read, write) && elements(read) == elements(write);
    for (std::size_t r = 0; r < elements(read); ++r) {
      for (std::size_t w = 0; w < elements(write); ++w) {
        if (!(data >> r & 1) || !same_place(read + r, write + w)) continue;
        if (!alike || events_[read + r].value_read != events_[write + w].value_written) return true;
      }
    }
    return false;
  }

  const Execution& execution_;
  const std::vector<Event>& events_;
  const Flags& flags_;
};

} // namespace

std::uint32_t site_of(const Execution& execution, std::size_t event) {
  const std::vector<Event>& events = execution.events;
  if (events[event].kind == Kind::block_barrier || events[event].kind == Kind::warp_barrier) {
    while (event && events[event - 1].kind == events[event].kind && events[event - 1].group == events[event].group)
      --event;
    return std::uint32_t(event);
  }
  return events[event].instruction == Event::none ? std::uint32_t(event) : events[event].instruction;
}

EventPairs refilled(const Execution& execution, const Flags& flags) { return Slots(execution, flags).refilled(); }

} // namespace deadheat::test
