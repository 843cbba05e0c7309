#include "replay/device/holds.h"

#include <algorithm>
#include <cstring>

#include "deadheat/proxy_fence.h"
#include "replay/device/machine.h"

namespace deadheat::device {

using engine::ThreadContext;

namespace {

bool is_of(const AccessName& name, const Block& block, std::uint32_t thread) {
  return name.launch && name.launch == block.launch->request.launch && name.block == block.index &&
         name.thread == thread;
}
bool is_at(const AccessName& name, const Block& block, std::uint32_t thread, std::uint32_t site) {
  return is_of(name, block, thread) && name.site == site && name.module == block.launch->request.module;
}
bool is_copy(const Block& block, std::uint32_t site) {
  return (*block.launch->request.sites->sites)[site].kind == SiteKind::async_copy ||
         (*block.launch->request.sites->sites)[site].kind == SiteKind::bulk_copy;
}

std::uint32_t bytes_of(const Site& site) { return std::uint32_t(site.element_bytes) * site.elements; }

} // namespace

Holds::Holds(const std::vector<Hold>& holds) {
  for (const Hold& hold : holds) {
    states_.emplace_back();
    states_.back().hold = hold;
  }
}

void Holds::begin(Launch& launch) {
  const LaunchRequest& request = launch.request;
  launch.named = false;
  launch.marked = request.sites->stop;
  for (State& s : states_)
    for (const AccessName* name : {&s.hold.held, &s.hold.until}) {
      if (!name->launch || name->launch != request.launch) continue;
      launch.named = true;
      if (name->site < launch.marked.size()) launch.marked[name->site] = 1;
    }
}

void Holds::ended(const Launch& launch) {
  for (State& s : states_) {
    if (s.hold.held.launch && s.hold.held.launch == launch.request.launch) s.unseen = false; // its memory may go away
    if (s.hold.until.launch && s.hold.until.launch == launch.request.launch && !s.until_done) {
      s.until_gone = true;
      let_go(s);
    }
  }
}

bool Holds::names(std::uint32_t launch, std::uint32_t block) const {
  return std::any_of(states_.begin(), states_.end(), [&](const State& s) {
    return (s.hold.held.launch == launch && s.hold.held.block == block) ||
           (s.hold.until.launch == launch && s.hold.until.block == block);
  });
}

void Holds::count_waiting() {
  waiting_ = 0;
  for (const State& s : states_) waiting_ += s.waits || s.urgent;
}

// The held side's wait is over: a thread gets ready; a copy or an operation is looked at again by its owner.
bool Holds::let_go(State& s) {
  if (!s.waits) return false;
  s.waits = false;
  if (s.until_done) s.before_held = true;
  s.urgent = s.block; // settle_held makes it ready
  count_waiting();
  return true;
}

Holds::Bytes Holds::bytes_before(const Block& block, const ThreadContext& thread) {
  const Site& site = (*block.launch->request.sites->sites)[thread.pending_site];
  if (site.kind != SiteKind::access) return {};
  const Machine& machine = *static_cast<Machine*>(block.launch->context.exec->machine);
  const std::uint32_t bytes = bytes_of(site);
  const std::uint8_t* at = machine.bytes_at(thread, thread.pending_address, bytes);
  return at ? Bytes{at, at + bytes} : Bytes{};
}

Holds::Action Holds::reached(Block& block, const ThreadContext& thread) {
  const std::uint32_t site = thread.pending_site;
  Action action = Action::go;
  if (is_copy(block, site)) return action;
  for (State& s : states_) {
    if (s.hold.in_place) {
      reached_in_place(s, block, thread);
      continue;
    }
    if (s.unseen) watch(s, block, thread);
    if (is_at(s.hold.until, block, thread.linear, site) && s.until_seen++ == s.hold.until.nth) {
      s.performs_until = true;
      s.until_bytes = bytes_before(block, thread);
    }
    if (is_at(s.hold.held, block, thread.linear, site) && s.held_seen++ == s.hold.held.nth) {
      s.held_bytes = bytes_before(block, thread);
      s.reached = true;
      s.block = &block;
      if (s.until_done) s.before_held = true;
      if (s.free()) continue;
      s.waits = true;
      action = Action::hold;
    }
  }
  if (action == Action::hold) count_waiting();
  return action;
}

void Holds::reached_in_place(State& s, Block& block, const ThreadContext& thread) {
  const std::uint32_t site = thread.pending_site;
  if (is_at(s.hold.until, block, thread.linear, site)) {
    if (s.until_seen++ == s.hold.until.nth) {
      s.performs_until = true;
      s.until_address = thread.pending_address;
    } else if (s.unseen) {
      const Bytes reads = bytes_before(block, thread);
      if (reads.begin < s.at + s.before.size() && s.at < reads.end) s.unseen = false; // it has seen the write
    }
  }
  if (is_at(s.hold.held, block, thread.linear, site) && s.held_seen++ == s.hold.held.nth && !s.until_done) {
    auto& machine = *static_cast<Machine*>(block.launch->context.exec->machine);
    s.reached = true;
    s.block = &block;
    const Site& held = (*block.launch->request.sites->sites)[site];
    s.foresees = held.kind == SiteKind::access && held.access == AccessKind::read;
    s.performs_held = s.foresees ? !s.hold.foreseen.bytes.empty() : can_be_unseen(machine, s);
  }
}

// Before the held read: shows it what is written later. Whoever reads takes the bytes away again (resumed()).
void Holds::foresee(State& s, const Block& block, const ThreadContext& thread) {
  const auto& machine = *static_cast<Machine*>(block.launch->context.exec->machine);
  const std::vector<std::uint8_t>& bytes = s.hold.foreseen.bytes;
  s.at = machine.bytes_at(thread, s.hold.foreseen.address, std::uint32_t(bytes.size()));
  if (!s.at) return;
  s.before.assign(s.at, s.at + bytes.size());
  std::memcpy(s.at, bytes.data(), bytes.size());
}

// Of a write that shall not be seen: does something order the two after all?
void Holds::watch(State& s, const Block& block, const ThreadContext& thread) {
  const std::vector<Site>& sites = *block.launch->request.sites->sites;
  if (thread.pending_site >= sites.size()) return;
  const Site& site = sites[thread.pending_site];
  const bool same_block = s.hold.held.launch == s.hold.until.launch && s.hold.held.block == s.hold.until.block;
  const bool across = site.kind == SiteKind::proxy_fence && site.proxy == Proxy::async;
  if (across && (!one_way(site) || is_release(site.ordering)))
    s.proxy_fenced = true; // on no path that matters, perhaps: no matter
  if (site.scope == Scope::none || (site.scope == Scope::cta && !same_block)) return;
  const bool fence = site.kind == SiteKind::fence;
  if (is_of(s.hold.held, block, thread.linear)) s.released_by_held |= fence || is_release(site.ordering);
  if (is_of(s.hold.until, block, thread.linear)) s.acquired_by_until |= fence || is_acquire(site.ordering);
}

void Holds::met(const Block& block, const std::array<std::uint32_t, max_warps>& lanes) {
  auto among = [&](const AccessName& name) {
    return is_of(name, block, name.thread) && lanes[name.thread / warp_lanes] >> name.thread % warp_lanes & 1;
  };
  for (State& s : states_)
    if (s.unseen && among(s.hold.held) && among(s.hold.until)) s.met = true;
}

void Holds::met(const Cluster& cluster) {
  auto among = [&](const AccessName& name) {
    return std::any_of(cluster.blocks.begin(), cluster.blocks.end(),
                       [&](const Block* block) { return is_of(name, *block, name.thread); });
  };
  for (State& s : states_)
    if (s.unseen && among(s.hold.held) && among(s.hold.until)) s.met = true;
}

std::int64_t Holds::quantum(const Block& block, const ThreadContext& thread, std::int64_t otherwise) {
  for (State& s : states_) {
    if (s.performs_held && is_of(s.hold.held, block, thread.linear)) {
      otherwise = 0; // to see what it writes
      if (s.foresees) foresee(s, block, thread);
    }
    if (!s.performs_until || !is_of(s.hold.until, block, thread.linear)) continue;
    if (s.waits || s.foresees) otherwise = 0;
    if (!s.unseen || (!s.hold.in_place && (s.met || (s.released_by_held && s.acquired_by_until)))) continue;
    if (std::memcmp(s.at, s.after.data(), s.after.size()) != 0) continue; // others have written there since
    otherwise = 0;
    std::memcpy(s.at, s.before.data(), s.before.size());
    s.shown = old_shown_ = true;
  }
  return otherwise;
}

bool Holds::resumed(Block& block, const ThreadContext& thread) {
  bool any = false;
  for (State& s : states_) {
    if (s.performs_held && s.foresees && is_of(s.hold.held, block, thread.linear)) {
      s.performs_held = false;
      if (s.at) std::memcpy(s.at, s.before.data(), s.before.size());
      old_shown_ |= s.at != nullptr;
    } else if (s.performs_held && is_of(s.hold.held, block, thread.linear)) {
      s.performs_held = false;
      s.after.assign(s.at, s.at + s.before.size());
      s.unseen = s.before != s.after && !s.until_done;
    }
    if (!s.performs_until || !is_of(s.hold.until, block, thread.linear)) continue;
    s.performs_until = false;
    s.until_done = true;
    if (s.foresees) {
      const Site& writes = (*block.launch->request.sites->sites)[s.hold.until.site];
      const std::uint32_t bytes = bytes_of(writes);
      const auto& machine = *static_cast<Machine*>(block.launch->context.exec->machine);
      const std::uint8_t* const at = machine.bytes_at(thread, s.until_address, bytes);
      if (at && writes.kind == SiteKind::access && writes.access != AccessKind::read)
        s.until_wrote = {s.until_address, {at, at + bytes}};
      s.before_held = s.at && s.until_wrote == s.hold.foreseen;
    }
    if (s.shown) {
      // What a read saw is over; an atomic's result stays; a write is overtaken.
      const Site& site = (*block.launch->request.sites->sites)[s.hold.until.site];
      if (site.access == AccessKind::write || std::memcmp(s.at, s.before.data(), s.before.size()) == 0)
        std::memcpy(s.at, s.after.data(), s.after.size());
      s.shown = false;
      s.before_held = true;
      s.released = false;
    }
    s.unseen = false;
    any |= let_go(s);
  }
  return any;
}

bool Holds::exited(Block& block, std::uint32_t warp, std::uint32_t lanes) {
  bool any = false;
  for (State& s : states_) {
    const AccessName& until = s.hold.until;
    if (s.until_done || until.thread / warp_lanes != warp || !(lanes >> until.thread % warp_lanes & 1) ||
        !is_of(until, block, until.thread))
      continue;
    // A copy may still be performed; a thread's access cannot.
    if (is_copy(block, until.site) && s.until_seen > until.nth) continue;
    s.until_gone = true;
    any |= let_go(s);
  }
  return any;
}

void Holds::copy_issued(Block& block, const ThreadContext& thread, AsyncCopy& copy) {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    State& s = states_[i];
    if (is_at(s.hold.until, block, thread.linear, copy.site) && s.until_seen++ == s.hold.until.nth)
      copy.until = std::int32_t(i);
    if (is_at(s.hold.held, block, thread.linear, copy.site) && s.held_seen++ == s.hold.held.nth) {
      s.reached = true;
      s.block = &block;
      copy.hold = std::int32_t(i);
      if (s.until_done) s.before_held = true;
      s.waits = !s.free();
    }
  }
  count_waiting();
}

bool Holds::delays(std::int32_t hold) const { return !states_[std::size_t(hold)].free(); }

void Holds::show(const AsyncCopy& copy) {
  if (copy.until < 0) return;
  State& s = states_[std::size_t(copy.until)];
  if (!s.unseen || !s.across || s.proxy_fenced) return;
  if (std::memcmp(s.at, s.after.data(), s.after.size()) != 0) return; // others have written there since
  std::memcpy(s.at, s.before.data(), s.before.size());
  s.shown = old_shown_ = true;
}

bool Holds::copied(const AsyncCopy& copy) {
  if (copy.until < 0) return false;
  State& s = states_[std::size_t(copy.until)];
  if (s.shown) { // what the copy saw is over
    if (std::memcmp(s.at, s.before.data(), s.before.size()) == 0) std::memcpy(s.at, s.after.data(), s.after.size());
    s.shown = false;
    s.before_held = true;
    s.released = false;
  }
  s.unseen = false;
  s.until_done = true;
  return let_go(s);
}

bool Holds::may_begin(std::uint32_t operation) {
  bool may = true;
  for (State& s : states_) {
    if (s.hold.held.launch || s.hold.held.operation != operation) continue;
    s.reached = true;
    if (s.until_done) s.before_held = true;
    if (s.free()) continue;
    s.waits = true;
    may = false;
  }
  if (!may) count_waiting();
  return may;
}

std::uint64_t Holds::seen() const {
  std::uint64_t seen = 0;
  for (const State& s : states_)
    seen += std::min<std::uint64_t>(s.held_seen, s.hold.held.nth + std::uint64_t(1)) +
            std::min<std::uint64_t>(s.until_seen, s.hold.until.nth + std::uint64_t(1));
  return seen;
}

void Holds::operation_done(std::uint32_t operation) {
  for (State& s : states_) {
    if (s.hold.until.launch || s.hold.until.operation != operation) continue;
    s.until_done = true;
    let_go(s);
  }
}

std::vector<Hold> Holds::unmet() const {
  std::vector<Hold> all;
  for (const State& s : states_)
    if (s.waits) all.push_back(s.hold);
  return all;
}

// A held thread or copy whose wait is over performs its access now.
void Holds::settle_held(Machine& machine, State& s) {
  s.urgent = false;
  count_waiting();
  Block& block = *s.block;
  const std::uint32_t thread = s.hold.held.thread, warp = thread / warp_lanes, lane = thread % warp_lanes;
  if (is_copy(block, s.hold.held.site)) {
    machine.perform_ready(block, thread);
    machine.settle(block, warp);
    return;
  }
  WarpState& state = block.warps[warp];
  if (!(state.held >> lane & 1)) return;
  // Another hold may delay the same access.
  for (const State& other : states_)
    if (other.waits && is_at(other.hold.held, block, thread, s.hold.held.site)) return;
  state.held &= ~(1u << lane);
  state.before_visible |= 1u << lane;
  machine.make_ready(block, warp, 1u << lane);
  machine.note_progress();
  s.unseen = s.released && can_be_unseen(machine, s);
  machine.run_lane(block, warp, lane, 0);
  if (s.unseen) {
    s.after.assign(s.at, s.at + s.before.size());
    s.unseen = s.before != s.after; // else there is nothing to see
  }
}

// Before the held thread performs its access: saves what it will overwrite.
bool Holds::can_be_unseen(Machine& machine, State& s) {
  Block& block = *s.block;
  const AccessName& held = s.hold.held;
  if (!s.hold.until.launch) return false;
  // Sites are of one module where the launch is the same.
  const auto& sites = *block.launch->request.sites->sites;
  s.across = s.hold.until.launch == held.launch && s.hold.until.site < sites.size() &&
             sites[s.hold.until.site].kind == SiteKind::bulk_copy && sites[s.hold.until.site].proxy == Proxy::async;
  s.proxy_fenced = false;
  const Site& site = (*block.launch->request.sites->sites)[held.site];
  if (site.kind != SiteKind::access || site.access == AccessKind::read) return false;
  const std::uint32_t bytes = bytes_of(site);
  const ThreadContext& thread = block.threads[held.thread];
  s.at = machine.bytes_at(thread, thread.pending_address, bytes);
  if (!s.at || bytes == 0) return false;
  s.before.assign(s.at, s.at + bytes);
  return true;
}

// Runs the thread of `until` and what it waits for, as far as that goes. True: `until` has been performed.
bool Holds::drive(Machine& machine, State& s) {
  const AccessName& until = s.hold.until;
  Launch* launch = nullptr;
  for (const auto& l : machine.launches())
    if (until.launch && l->request.launch == until.launch) launch = l.get();
  if (!launch || until.block >= launch->blocks || until.thread >= launch->threads) return false;
  auto resident = [&]() -> Block* {
    for (const auto& b : launch->resident)
      if (b->index == until.block) return b.get();
    return nullptr;
  };
  Block* block = resident();
  if (!block) block = machine.admit_early(*launch, until.block);
  if (!block) return false;
  const std::uint32_t warp = until.thread / warp_lanes, lane = until.thread % warp_lanes, bit = 1u << lane;
  WarpState& state = block->warps[warp];
  auto runnable = [](const WarpState& w) { return w.ready | w.visible; };
  auto at_mbarrier = [&] { // others of its block may arrive
    const std::uint32_t site = block->threads[until.thread].pending_site;
    const auto& sites = *launch->request.sites->sites;
    return site < sites.size() && sites[site].kind == SiteKind::mbarrier;
  };
  constexpr std::int64_t long_enough = std::int64_t(1) << 60;
  std::uint32_t spins = 0;
  while (!s.until_done && s.waits && !machine.faulted() && !machine.over_budget()) {
    if (runnable(state) & bit) {
      machine.run_lane(*block, warp, lane, long_enough);
    } else if (state.at_warp & bit && runnable(state)) {
      machine.run_lane(*block, warp, std::uint32_t(__builtin_ctz(runnable(state))), long_enough);
    } else if (state.parked & bit && machine.wake_changed(*block) && ++spins < 64) {
      continue;
    } else if ((state.at_barrier | state.at_warp | (at_mbarrier() ? state.parked : 0)) & bit) {
      std::uint32_t other = 0;
      while (other < block->warps_count && !runnable(block->warps[other])) ++other;
      if (other == block->warps_count) {
        if (machine.wake_changed(*block) && ++spins < 64) continue;
        break;
      }
      machine.run_lane(*block, other, std::uint32_t(__builtin_ctz(runnable(block->warps[other]))), long_enough);
    } else {
      break; // it waits for other blocks, is held itself, or is gone
    }
  }
  if (machine.over(*block)) machine.retire(*launch, block);
  return s.until_done;
}

void Holds::detour(Machine& machine) {
  for (bool again = true; again && !machine.faulted();) {
    again = false;
    for (State& s : states_) {
      if (s.waits && !s.free() && !s.hold.patient) again |= drive(machine, s);
      if (s.urgent) {
        settle_held(machine, s);
        again = true;
      }
    }
  }
}

bool Holds::release_one(Machine& machine) {
  for (State& s : states_) {
    if (!s.waits) continue;
    s.released = true;
    let_go(s);
    if (s.urgent) settle_held(machine, s);
    machine.note_progress();
    return true;
  }
  return false;
}

bool Holds::apart() const {
  return std::any_of(states_.begin(), states_.end(), [](const State& s) {
    return s.held_bytes.end && s.until_bytes.end &&
           (s.held_bytes.end <= s.until_bytes.begin || s.until_bytes.end <= s.held_bytes.begin);
  });
}

std::vector<std::uint8_t> Holds::states() const {
  std::vector<std::uint8_t> all;
  for (const State& s : states_)
    all.push_back(s.released ? 4 : s.before_held ? 3 : s.reached ? 2 : s.until_done ? 1 : 0);
  return all;
}

} // namespace deadheat::device
