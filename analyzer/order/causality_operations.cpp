// Order across launches: what comes before a launch, or before its wait for the one before it, and what launches learn
// from others that run beside them.
//
// Causality order is transitive (PTX ISA 8.9.5). A thread of launch B that acquires from launch A, which runs beside
// it, has what came before: what A's thread knew, and whatever was over before A began, or before A waited. Whatever
// follows B begins with that, and hands it on like all that it knows: clocks have it from the start.
#include "analyzer/order/causality.h"

namespace deadheat::order {

bool Causality::seen_entry(ThreadKey key, const ClockEntry& entry) const {
  for (const Clock* clock : clocks_of(key, entry.block))
    if (clock && clock->entry(entry.block, entry.group) >= entry.stamp) return true;
  return false;
}

std::array<const Clock*, 2> Causality::clocks_of(ThreadKey key, std::uint64_t other) const {
  const Block* of = find_block(key, other);
  return {common_of(of, key).get(), own_of(of, key).get()};
}

// ---- which operations come before

namespace {

ClockEntry waited_in(OperationIndex operation, Stamp when, std::uint32_t group = dependency_group) {
  return {ThreadKey(operation, ~0u, 0).block_bits(), group, when};
}

} // namespace

void Causality::dependency_wait(ThreadKey key, Stamp now) {
  const ClockPointer more = Clock::with(inherited(key.operation(), true), {waited_in(key.operation(), now)});
  acquire(key, more);
}

// Of different operations: is all of `first`, or all that it read, before what `second` does now? So it is, too, where
// the thread has seen anything of an operation that began behind it.
bool Causality::operations_ordered(OperationIndex first, ThreadKey second, bool read) const {
  const OperationIndex own = second.operation();
  if (operations_.ordered(first, own)) return true;
  const bool concurrent = operations_.concurrent(), by_wait = operations_.ordered_by_wait(first, own);
  if (!concurrent && !by_wait) return false;
  for (const Clock* clock : clocks_of(second, first_block_of(first))) {
    if (!clock) continue;
    if (by_wait && has_waited(*clock, own, read)) return true;
    if (concurrent && begun_behind(*clock, first, own, read)) return true;
  }
  return false;
}

// Does it know of a thread of the operation that has waited?
bool Causality::has_waited(const Clock& clock, OperationIndex operation, bool read) {
  const auto knows = [&](const ClockEntry& waited) { return clock.entry(waited.block, waited.group) != 0; };
  return knows(waited_in(operation, 1)) || (read && knows(waited_in(operation, 1, dependency_reads)));
}

bool Causality::begun_behind(const Clock& clock, OperationIndex first, OperationIndex own, bool read) const {
  if (clock.within(own)) return false;
  for (std::optional<std::uint64_t> block = clock.next_block(0); block;) {
    const OperationIndex operation = operation_of_block(*block);
    const bool behind =
        operation != own && (operations_.ordered(first, operation) ||
                             (operations_.ordered_by_wait(first, operation) && has_waited(clock, operation, read)));
    if (behind && clock.knows_operation(operation, read)) return true;
    block = clock.next_block(first_block_of(std::uint64_t(operation) + 1));
  }
  return false;
}

// ---- what launches learn from others

// Acquires what a release pattern released, perhaps in another launch.
void Causality::synchronize(ThreadKey key, const ClockPointer& clock) {
  acquire(key, clock);
  learn(key, clock);
}

// So do the operations behind it.
void Causality::learn(ThreadKey key, const ClockPointer& clock) {
  if (!clock || !operations_.concurrent() || clock->within(key.operation())) return;
  const auto [chain, position] = operations_.place(key.operation());
  auto& learned = learned_[chain];
  auto at = learned.lower_bound(position);
  if (at == learned.end() || at->first != position)
    at = learned.emplace_hint(at, position, at == learned.begin() ? nullptr : std::prev(at)->second);
  for (; at != learned.end(); ++at) at->second = Clock::join(at->second, clock);
}

// What operations of that chain, up to the position, have learned; null: nothing.
ClockPointer Causality::learned(OperationClocks::Place last) const {
  const auto of_chain = learned_.find(last.chain);
  if (of_chain == learned_.end()) return nullptr;
  const auto behind = of_chain->second.upper_bound(last.position);
  return behind == of_chain->second.begin() ? nullptr : std::prev(behind)->second;
}

// What is known to an operation when it begins, or when it has waited, besides what is complete; null: nothing.
const ClockPointer& Causality::inherited(OperationIndex operation, bool waited) const {
  static const ClockPointer nothing;
  const bool began = rules_.only_marked && !rules_.one_by_one && marked_;
  if (learned_.empty() && !began) return nothing;
  const auto [at, fresh] = inherited_.try_emplace(2 * std::uint64_t(operation) + waited);
  ClockPointer& all = at->second;
  if (!fresh) return all;
  if (waited) {
    for (OperationIndex primary : operations_.waited_for(operation))
      all = Clock::join(Clock::join(all, inherited(primary, false)), learned(operations_.place(primary)));
  } else {
    for (const auto& [chain, position] : operations_.complete_before(operation))
      all = Clock::join(all, learned({chain, position}));
  }
  if (began) all = Clock::with(all, {{ThreadKey(operation, ~0u, 0).block_bits(), warp_group(0), 1}}); // begun_behind()
  // All of it is visible to all proxies: the end of a launch lies between.
  if (all && !rules_.only_marked) {
    std::vector<ClockEntry> visible = all->proxied(proxied_global);
    all = Clock::with(all, visible);
  }
  return all;
}

} // namespace deadheat::order
