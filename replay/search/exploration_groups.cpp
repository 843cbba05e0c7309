// Threads that share no memory are explored one group after another (exploration.h).
#include <algorithm>

#include "replay/search/exploration.h"
#include "replay/search/exploration_access.h"

namespace deadheat::search {

Exploration::ThreadId Exploration::root(ThreadId thread) {
  while (parents_.size() <= thread) parents_.push_back(ThreadId(parents_.size()));
  while (parents_[thread] != thread) thread = parents_[thread] = parents_[parents_[thread]];
  return thread;
}

void Exploration::join_groups(ThreadId a, ThreadId b) {
  if (!limits_.by_groups || whole_) return;
  a = root(a);
  b = root(b);
  if (a == b) return;
  parents_[std::max(a, b)] = std::min(a, b);
  whole_ = grouped_; // what was run did not know it
}

// Two groups may touch the same memory in runs that are made for the one and for the other only. So what either has
// touched in any run counts.
void Exploration::note_groups(const Next& next) {
  constexpr std::size_t most_readers = 2, most_writers = 8; // of different groups: enough to see that there are some
  if (!limits_.by_groups || whole_ || next.access.fence || !passes_on(next.access)) return;
  const ThreadId own = next.thread;
  each_range(next.access, [&](const device::Touched& t) {
    for (std::uint64_t byte = t.address; byte < t.address + t.bytes; ++byte) {
      Users& users = users_[Place{t.memory, byte}];
      int value = t.fill;
      if (next.access.value) value = int(*next.access.value >> 8 * (byte - next.access.address) & 0xFF);
      const bool reads = !t.writes || next.access.access == AccessKind::atomic;
      for (const auto& [writer, written] : users.writers)
        if (reads || value < 0 || written != value) join_groups(writer, own);
      if (t.writes)
        for (ThreadId reader : users.readers) join_groups(reader, own);
      auto mine = [&](ThreadId thread) { return root(thread) == root(own); };
      if (users.readers.size() == most_readers && root(users.readers[0]) == root(users.readers[1]))
        users.readers.pop_back(); // their groups have become one since
      if (reads && users.readers.size() < most_readers &&
          std::none_of(users.readers.begin(), users.readers.end(), mine))
        users.readers.push_back(own);
      if (!t.writes) continue;
      const bool known = std::any_of(users.writers.begin(), users.writers.end(),
                                     [&](const auto& w) { return mine(w.first) && w.second == value; });
      if (known) continue;
      if (users.writers.size() < most_writers)
        users.writers.emplace_back(own, value);
      else
        join_groups(users.writers.front().first, own);
    }
  });
}

// Groups are free of each other while the order of streams binds them one way only: where it leads from one group to
// another and, through conflicts that have another order, back again, the orders of the one allow orders of the other.
void Exploration::note_operations(const Next& next, const std::vector<std::uint32_t>& conflicting) {
  if (!limits_.by_groups || whole_) return;
  const std::uint32_t own = next.access.agent.operation;
  for (std::uint32_t e : conflicting) {
    const std::uint32_t other = events_[e].what.access.agent.operation;
    if (other == own) continue;
    if (operations_[own].before.count(other) || operations_[other].before.count(own)) continue;
    if (raced_operations_.emplace(std::min(own, other), std::max(own, other)).second) whole_ |= !operations_in_turn();
  }
}

// Whether no way leads from an operation to one before it: on with the order of streams, either way between those that
// race.
bool Exploration::operations_in_turn() const {
  std::map<std::uint32_t, std::set<std::uint32_t>> onward;
  for (const auto& [operation, known] : operations_)
    for (std::uint32_t before : known.before) onward[before].insert(operation);
  for (const auto& [a, b] : raced_operations_) {
    onward[a].insert(b);
    onward[b].insert(a);
  }
  for (const auto& [operation, known] : operations_) {
    std::vector<std::uint32_t> todo{operation};
    std::set<std::uint32_t> reached{operation};
    while (!todo.empty()) {
      const std::uint32_t at = todo.back();
      todo.pop_back();
      if (known.before.count(at)) return false;
      for (std::uint32_t further : onward[at])
        if (reached.insert(further).second) todo.push_back(further);
    }
  }
  return true;
}

bool Exploration::of_others(ThreadId thread) { return grouped_ && !whole_ && root(thread) != group_; }

// The orders of the next group: its first run is one that has been made.
bool Exploration::next_group() {
  if (to_come_.empty()) return false;
  group_ = to_come_.back();
  to_come_.pop_back();
  nodes_.clear();
  fresh_ = 0;
  repeats_ = true;
  return true;
}

} // namespace deadheat::search
