#include "replay/search/exploration.h"

#include <algorithm>
#include <utility>

#include "replay/search/exploration_access.h"

namespace deadheat::search {

using device::NextAccess;

namespace {

constexpr std::uint64_t sc_order = ~std::uint64_t(0); // a place that all fence.sc operations touch

template <typename T> bool contains(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

} // namespace

Exploration::ThreadId Exploration::id_of(const Agent& agent) {
  const auto [at, fresh] = threads_.try_emplace(agent, ThreadId(threads_.size()));
  if (fresh) agents_.push_back(agent);
  return at->second;
}

void Exploration::join_begin(Clock& into, std::uint32_t operation) {
  const Operation& begun = operations_[operation];
  join(into, begun.submitted);
  for (std::uint32_t before : begun.after) join(into, operations_[before].done);
}

Exploration::Clock& Exploration::clock_of(ThreadId thread) {
  if (clocks_.size() < threads_.size()) clocks_.resize(threads_.size());
  begun_.resize(clocks_.size());
  if (!begun_[thread]) {
    begun_[thread] = true;
    Agent agent = agents_[thread];
    if (agent.kind == Agent::Kind::async_copy) {
      agent.kind = Agent::Kind::thread;
      agent.copy = 0;
      const ThreadId issuer = id_of(agent);
      const Clock issued = clock_of(issuer);
      join(clock_of(thread), issued);
      join_groups(issuer, thread);
    } else {
      join_begin(clocks_[thread], agent.operation);
    }
  }
  return clocks_[thread];
}

void Exploration::submitted(std::uint32_t operation, const std::vector<std::uint32_t>& after) {
  flush();
  std::set<std::uint32_t> before = host_before_;
  for (std::uint32_t earlier : after) {
    before.insert(earlier);
    const auto known = operations_.find(earlier);
    if (known != operations_.end()) before.insert(known->second.before.begin(), known->second.before.end());
  }
  operations_[operation] = {host_, after, {}, std::move(before)};
}

void Exploration::completed(std::uint32_t operation) {
  flush();
  Clock done;
  join_begin(done, operation);
  for (ThreadId thread = 0; thread < begun_.size(); ++thread)
    if (begun_[thread] && agents_[thread].operation == operation) join(done, clocks_[thread]);
  operations_[operation].done = std::move(done);
}

void Exploration::host_waited(const std::vector<std::uint32_t>& operations) {
  flush();
  for (std::uint32_t operation : operations) {
    const Operation& waited = operations_[operation];
    join(host_, waited.done);
    host_before_.insert(operation);
    host_before_.insert(waited.before.begin(), waited.before.end());
  }
}

void Exploration::copies_waited(std::uint32_t operation, std::uint32_t block, std::uint32_t thread,
                                std::uint32_t groups) {
  flush();
  if (cut_) return;
  Agent agent{.kind = Agent::Kind::thread, .operation = operation, .block = block, .thread = thread};
  Clock& clock = clock_of(id_of(agent));
  agent.kind = Agent::Kind::async_copy;
  for (agent.copy = 0; agent.copy < groups; ++agent.copy)
    if (auto copy = threads_.find(agent); copy != threads_.end() && copy->second < clocks_.size())
      join(clock, clocks_[copy->second]);
}

void Exploration::join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t n = 0; n < other.size(); ++n) into[n] = std::max(into[n], other[n]);
}

template <typename F> void Exploration::each_place(const NextAccess& access, F&& f) const {
  if (access.fence_sc && limits_.old_values) f(Place{sc_order, 0});
  if (!access.fence)
    for (std::uint32_t n = 0; n < access.bytes; ++n) f(Place{access.memory, access.address + n});
}

// Of two operations at one byte.
bool Exploration::commute(const NextAccess& a, const NextAccess& b, std::uint64_t byte, bool old_values) {
  if (a.fence || b.fence) return false;
  if (!writes(a) && !writes(b)) return true;
  if (old_values) return false;
  if (a.commutes && a.commutes == b.commutes && a.address == b.address) return true;
  auto written = [&](const NextAccess& n) { return *n.value >> 8 * (byte - n.address) & 0xFF; };
  return a.value && b.value && written(a) == written(b);
}

bool Exploration::independent(const NextAccess& a, const NextAccess& b) const {
  if (a.fence_sc && b.fence_sc) return !limits_.old_values;
  if (a.fence || b.fence) return true;
  if (a.touched.empty() && b.touched.empty()) {
    if (a.memory != b.memory) return true;
    const std::uint64_t end = std::min(a.address + a.bytes, b.address + b.bytes);
    for (std::uint64_t byte = std::max(a.address, b.address); byte < end; ++byte)
      if (!commute(a, b, byte, limits_.old_values)) return false;
    return true;
  }
  bool conflict = false;
  each_range(a, [&](const device::Touched& x) {
    each_range(b, [&](const device::Touched& y) {
      const bool meet = (x.writes || y.writes) && x.memory == y.memory && x.address < y.address + y.bytes &&
                        y.address < x.address + x.bytes;
      const bool alike = x.writes && y.writes && x.fill >= 0 && x.fill == y.fill && !limits_.old_values;
      conflict |= meet && !alike;
    });
  });
  return !conflict;
}

// A copy to where nobody reads reads to no effect.
NextAccess Exploration::as_seen(const NextAccess& access) const {
  NextAccess seen = access;
  for (const Unread& unread : limits_.unread)
    if (access.agent.kind == Agent::Kind::operation && access.agent.operation == unread.operation)
      seen.touched = {{0, unread.address, unread.bytes, true}};
  return seen;
}

void Exploration::begin() {
  depth_ = 0;
  cut_ = asked_ = over_ = false;
  redundant_ = std::exchange(repeats_, false);
  performed_.reset();
  events_.clear();
  clocks_.clear();
  begun_.clear();
  operations_.clear();
  host_.clear();
  host_before_.clear();
  wide_.clear();
  bytes_.clear();
  phases_.clear();
}

void Exploration::cut(bool redundant) {
  cut_ = true;
  redundant_ |= redundant;
}

void Exploration::beyond(const char* what) {
  if (beyond_.empty()) beyond_ = what;
}

void Exploration::met(std::uint32_t operation, std::uint32_t block, const std::vector<std::uint32_t>& threads) {
  flush();
  if (cut_) return;
  Clock all;
  std::vector<ThreadId> ids;
  for (std::uint32_t thread : threads) {
    ids.push_back(id_of({.kind = Agent::Kind::thread, .operation = operation, .block = block, .thread = thread}));
    join(all, clock_of(ids.back()));
  }
  for (ThreadId id : ids) {
    clocks_[id] = all;
    join_groups(ids.front(), id); // they may have told each other something
  }
}

void Exploration::arrived(const Agent& who, const Object& at_object, std::uint32_t phase, bool completes) {
  flush();
  if (cut_) return;
  const ThreadId thread = id_of(who);
  join_groups(users_of_objects_.try_emplace(at_object, thread).first->second, thread);
  const Clock& own = clock_of(thread);
  std::map<std::uint32_t, Phase>& phases = phases_[at_object];
  const auto before = phase ? phases.find(phase - 1) : phases.end();
  Phase& now = phases[phase];
  join(now.arrivals, own);
  if (before == phases.end()) return;
  bool ordered = true;
  const Clock& earlier = before->second.arrivals;
  for (ThreadId n = 0; n < earlier.size(); ++n) ordered &= at(own, n) >= earlier[n];
  if (completes)
    for (const auto& [waiter, number] : before->second.waits) ordered &= at(now.arrivals, waiter) >= number;
  if (!ordered) beyond("phases of an mbarrier that do not wait for each other");
}

void Exploration::waited(const Agent& who, const Object& at_object, std::uint32_t phase) {
  flush();
  if (cut_) return;
  const ThreadId thread = id_of(who);
  join_groups(users_of_objects_.try_emplace(at_object, thread).first->second, thread);
  Clock& own = clock_of(thread);
  std::map<std::uint32_t, Phase>& phases = phases_[at_object];
  for (const auto& [number, at_phase] : phases)
    if (number <= phase) join(own, at_phase.arrivals);
  phases[phase].waits.emplace_back(thread, at(own, thread));
}

// The operations of other threads that it conflicts with, and that no operation at their place came after.
std::vector<std::uint32_t> Exploration::predecessors(const Next& next) const {
  std::vector<std::uint32_t> found;
  if (!next.access.touched.empty()) {
    for (std::uint32_t e = 0; e < events_.size(); ++e)
      if (!independent(events_[e].what.access, next.access)) found.push_back(e);
    return found;
  }
  for (const std::uint32_t e : wide_)
    if (!independent(events_[e].what.access, next.access)) found.push_back(e);
  each_place(next.access, [&](const Place& place) {
    auto byte = bytes_.find(place);
    if (byte == bytes_.end()) return;
    const bool joins = std::all_of(byte->second.last.begin(), byte->second.last.end(), [&](std::uint32_t e) {
      return commute(events_[e].what.access, next.access, std::get<1>(place), limits_.old_values);
    });
    const std::vector<std::uint32_t>& those = joins ? byte->second.before : byte->second.last;
    found.insert(found.end(), those.begin(), those.end());
  });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Which of them does nothing else order before it? There the other order is to be run.
void Exploration::find_races(const Next& next, const std::vector<std::uint32_t>& conflicting) {
  const Clock before = clock_of(next.thread);
  for (std::uint32_t e : conflicting) {
    const Event& event = events_[e];
    if (event.what.thread == next.thread || at(before, event.what.thread) >= event.number) continue;
    const bool through = std::any_of(conflicting.begin(), conflicting.end(), [&](std::uint32_t other) {
      return other != e && at(events_[other].clock, event.what.thread) >= event.number;
    });
    if (through) continue;
    join_groups(event.what.thread, next.thread);
    raced_.insert(next.thread);
    if (!of_others(next.thread)) come_back(e, next, before);
  }
}

// In the state before the event, somebody shall go first with whom the run gets to `next` without the event. Who can:
// threads whose first operation among those that do not come after the event has none of the others before it.
void Exploration::come_back(std::uint32_t e, const Next& next, const Clock& before) {
  const Event& event = events_[e];
  std::map<ThreadId, std::uint32_t> first; // number of the thread's first operation among those
  std::vector<std::pair<ThreadId, const Clock*>> heads;
  for (std::size_t n = e + 1; n < events_.size(); ++n) {
    const Event& later = events_[n];
    if (at(later.clock, event.what.thread) >= event.number) continue;
    // Of other groups only what `next` comes after, by the order of a stream or a wait.
    if (of_others(later.what.thread) && at(before, later.what.thread) < later.number) continue;
    if (first.try_emplace(later.what.thread, later.number).second) heads.push_back({later.what.thread, &later.clock});
  }
  Clock own = before;
  for (std::uint32_t p : predecessors(next))
    if (p != e) join(own, events_[p].clock);
  if (first.try_emplace(next.thread, at(before, next.thread) + 1).second) heads.push_back({next.thread, &own});
  Node& node = nodes_[e];
  ThreadId best = ~0u;
  for (const auto& [thread, clock] : heads) {
    const bool leads = std::none_of(first.begin(), first.end(), [&](const auto& other) {
      return other.first != thread && at(*clock, other.first) >= other.second;
    });
    if (!leads) continue;
    if (contains(node.backtrack, thread)) return;
    const bool able =
        std::any_of(node.able.begin(), node.able.end(), [&](const Next& n) { return n.thread == thread; });
    if (able && (best == ~0u || thread == next.thread)) best = thread;
    if (!able && thread == next.thread) come_back_earlier(e, next, before);
  }
  if (best != ~0u) node.backtrack.push_back(best);
}

// The thread waited for a value when the event came. Before an earlier one it may not have had to.
void Exploration::come_back_earlier(std::uint32_t e, const Next& next, const Clock& before) {
  while (e-- > 0) {
    const Event& event = events_[e];
    if (event.what.thread == next.thread || at(before, event.what.thread) >= event.number) continue;
    if (independent(event.what.access, next.access)) continue;
    Node& node = nodes_[e];
    const bool able =
        std::any_of(node.able.begin(), node.able.end(), [&](const Next& n) { return n.thread == next.thread; });
    if (able && !contains(node.backtrack, next.thread)) node.backtrack.push_back(next.thread);
  }
}

void Exploration::wrote(std::uint64_t value) {
  if (!performed_) return;
  NextAccess& access = performed_->first.access;
  if (access.agent.kind == Agent::Kind::thread && access.bytes <= 8) access.value = value;
}

void Exploration::flush() {
  if (!performed_) return;
  const auto [next, fresh] = *std::exchange(performed_, std::nullopt);
  // Who sleeps before it is compared with what it wrote.
  for (Next& able : nodes_[events_.size()].able)
    if (able.thread == next.thread) able.access.value = next.access.value;
  perform(next, fresh);
}

void Exploration::perform(const Next& next, bool fresh) {
  const std::vector<std::uint32_t> conflicting = predecessors(next);
  if (!whole_)
    for (std::uint32_t e : conflicting)
      if (passes_on(events_[e].what.access) && passes_on(next.access)) join_groups(events_[e].what.thread, next.thread);
  for (const Unread& unread : limits_.unread)
    each_range(next.access, [&](const device::Touched& t) {
      const bool reads = next.access.touched.empty() ? next.access.access != AccessKind::write : !t.writes;
      was_read_ |= reads && next.access.agent.operation != unread.operation && t.memory == 0 && t.bytes &&
                   t.address < unread.address + unread.bytes && unread.address < t.address + t.bytes;
    });
  if (fresh) note_groups(next); // others were in the run before
  if (fresh) note_operations(next, conflicting);
  if (fresh) find_races(next, conflicting);
  Clock& clock = clock_of(next.thread);
  for (std::uint32_t e : conflicting) join(clock, events_[e].clock);
  if (clock.size() <= next.thread) clock.resize(next.thread + 1);
  const std::uint32_t number = ++clock[next.thread], index = std::uint32_t(events_.size());
  events_.push_back({next, number, clock});
  if (!next.access.touched.empty()) return wide_.push_back(index);
  each_place(next.access, [&](const Place& place) {
    Byte& byte = bytes_[place];
    const bool joins = std::all_of(byte.last.begin(), byte.last.end(), [&](std::uint32_t e) {
      return commute(events_[e].what.access, next.access, std::get<1>(place), limits_.old_values);
    });
    if (!joins) {
      byte.before = std::move(byte.last);
      byte.last.clear();
    }
    byte.last.push_back(index);
  });
}

std::size_t Exploration::choose(const std::vector<NextAccess>& able, const std::vector<NextAccess>& waiting) {
  flush();
  asked_ = false;
  if (cut_) return 0;
  if (depth_ >= limits_.operations || threads_.size() > limits_.threads) {
    beyond(depth_ >= limits_.operations ? "too many operations" : "too many threads");
    over_ = true;
    cut(false);
    return 0;
  }
  for (const NextAccess& access : able)
    if (access.agent.kind == Agent::Kind::async_copy) clock_of(id_of(access.agent)); // what its issuer has done by now
  const std::size_t depth = depth_++;
  if (depth == nodes_.size()) {
    Node node;
    for (const NextAccess& access : able) node.able.push_back({id_of(access.agent), as_seen(access)});
    const Node* parent = depth ? &nodes_[depth - 1] : nullptr;
    if (parent) {
      // What a thread's store is going to write is known if it was performed from here. Both lists are in one order.
      const std::size_t count = parent->able.size();
      std::size_t from = 0;
      for (Next& next : node.able)
        for (std::size_t n = 0; n < count; ++n) {
          const Next& before = parent->able[(from + n) % count];
          if (before.thread != next.thread) continue;
          if (next.thread != parent->chosen) next.access.value = before.access.value;
          from = from + n + 1;
          break;
        }
      const NextAccess& performed = events_.back().what.access;
      for (ThreadId thread : parent->asleep) {
        auto next =
            std::find_if(parent->able.begin(), parent->able.end(), [&](const Next& n) { return n.thread == thread; });
        if (thread != parent->chosen && independent(next->access, performed)) node.asleep.push_back(thread);
      }
    }
    // Whoever ran goes on, where that is new; else the next after it.
    const Next* chosen = nullptr;
    for (const Next& n : node.able) {
      if (contains(node.asleep, n.thread)) continue;
      if (!chosen || (parent && n.thread == parent->chosen)) chosen = &n;
    }
    if (!chosen) {
      for (const NextAccess& access : waiting) {
        const Next next{id_of(access.agent), access};
        find_races(next, predecessors(next));
      }
      cut(true);
      return 0;
    }
    node.chosen = chosen->thread;
    node.backtrack = {chosen->thread};
    nodes_.push_back(std::move(node));
  }
  const Node& node = nodes_[depth];
  for (std::size_t n = 0; n < able.size(); ++n) {
    if (id_of(able[n].agent) != node.chosen) continue;
    asked_ = true;
    performed_.emplace(Next{node.chosen, as_seen(able[n])}, depth >= fresh_);
    return n;
  }
  beyond("the run does not repeat itself");
  cut(false);
  return 0;
}

void Exploration::stuck(const std::vector<NextAccess>& waiting) {
  flush();
  if (cut_) return;
  for (const NextAccess& access : waiting) {
    const Next next{id_of(access.agent), access};
    find_races(next, predecessors(next));
    // Had it come earlier, it might not have waited.
    if (phases_.count({access.memory, access.address})) beyond("an mbarrier's phase that somebody comes too late for");
  }
  cut(false);
}

std::size_t Exploration::age(std::size_t count) {
  if (cut_ || !asked_ || depth_ > nodes_.size()) return 0;
  Node& node = nodes_[depth_ - 1];
  node.ages = count;
  return std::min(node.age, count - 1);
}

bool Exploration::end() {
  flush();
  traces_ += !redundant_;
  if (over_) return false;
  if (whole_ && grouped_) { // groups touch each other's memory: everything once more, together
    grouped_ = false;
    groups_ = 1;
    traces_ = 0;
    nodes_.clear();
    to_come_.clear();
    fresh_ = 0;
    return true;
  }
  if (limits_.by_groups && !grouped_ && !whole_) {
    std::vector<ThreadId> roots;
    for (ThreadId thread : raced_) roots.push_back(root(thread));
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    whole_ = roots.size() < 2;
    if (!whole_) {
      grouped_ = true;
      groups_ = roots.size();
      to_come_ = std::move(roots);
      return next_group();
    }
  }
  while (!nodes_.empty()) {
    Node& node = nodes_.back();
    fresh_ = nodes_.size() - 1;
    if (node.age + 1 < node.ages && !of_others(node.chosen)) {
      ++node.age;
      return true;
    }
    node.asleep.push_back(node.chosen);
    for (ThreadId thread : node.backtrack)
      if (!contains(node.asleep, thread)) {
        node.chosen = thread;
        node.age = 0;
        node.ages = 1;
        return true;
      }
    nodes_.pop_back();
  }
  return next_group();
}

} // namespace deadheat::search
