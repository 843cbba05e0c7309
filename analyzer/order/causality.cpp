#include "analyzer/order/causality.h"

#include <algorithm>
#include <bit>

namespace deadheat::order {

namespace {

// Scopes that every thread of the device is in.
bool device_wide(Scope scope) { return scope == Scope::gpu || scope == Scope::sys; }

} // namespace

// ---- where things are ----------------------------------------------------------------------------------------------

Causality::Launch* Causality::launch(OperationIndex operation) {
  auto found = launches_.find(operation);
  return found == launches_.end() ? nullptr : &found->second;
}
const Causality::Launch* Causality::launch(OperationIndex operation) const {
  return const_cast<Causality*>(this)->launch(operation);
}

Causality::Block& Causality::block(ThreadKey thread) {
  Launch& of = launches_[thread.operation()];
  Block& block = of.blocks[thread.block()];
  if (block.warps.empty()) block.warps.resize(32);
  return block;
}

const Causality::Block* Causality::find_block(ThreadKey thread) const {
  const Launch* of = launch(thread.operation());
  if (!of) return nullptr;
  auto found = of->blocks.find(thread.block());
  return found == of->blocks.end() ? nullptr : &found->second;
}

Causality::Thread& Causality::thread(ThreadKey key) {
  auto [at, inserted] = threads_.try_emplace(key.bits);
  if (inserted) block(key).threads_with_state.push_back(key.thread());
  return at->second;
}

const Causality::Thread* Causality::find_thread(ThreadKey key) const {
  auto found = threads_.find(key.bits);
  return found == threads_.end() ? nullptr : &found->second;
}

std::uint32_t Causality::cluster_of(ThreadKey thread) const {
  const Launch* of = launch(thread.operation());
  if (!of) return thread.block();
  Dim3 at = coordinates(thread.block(), of->grid);
  const Dim3& size = of->cluster;
  std::uint32_t wide = (of->grid.x + size.x - 1) / size.x, high = (of->grid.y + size.y - 1) / size.y;
  return (at.z / size.z * high + at.y / size.y) * wide + at.x / size.x;
}

void Causality::launch_begin(OperationIndex operation, const Dim3& grid, const Dim3& block, const Dim3& cluster) {
  Launch& of = launches_[operation];
  of.grid = grid;
  of.block = block;
  of.cluster = {std::max(cluster.x, 1u), std::max(cluster.y, 1u), std::max(cluster.z, 1u)};
  of.blocks_per_cluster = std::uint32_t(of.cluster.count());
}

void Causality::launch_end(OperationIndex operation) {
  auto found = launches_.find(operation);
  if (found == launches_.end()) return;
  for (auto& [index, block] : found->second.blocks) {
    for (std::uint32_t thread : block.threads_with_state) threads_.erase(ThreadKey(operation, index, thread).bits);
  }
  launches_.erase(found);
}

// ---- clocks of threads ---------------------------------------------------------------------------------------------

ClockPointer Causality::snapshot(ThreadKey key, Stamp now) {
  const Block& of = block(key);
  const Thread* state = find_thread(key);
  return Clock::with(Clock::join(of.common, state ? state->own : nullptr),
                     {{key.block_bits(), whole_block, of.barrier},
                      {key.block_bits(), warp_group(key.warp()), of.warps[key.warp()]},
                      {key.block_bits(), thread_group(key.thread()), now}});
}

void Causality::acquire(ThreadKey key, const ClockPointer& clock) {
  if (!clock) return;
  Thread& state = thread(key);
  state.own = Clock::join(state.own, clock);
}

void Causality::acquire_chain(ThreadKey key, Chain& chain, std::size_t count, Scope scope) {
  count = std::min(count, chain.contributions.size());
  if (device_wide(scope) && count >= chain.merged) {
    for (; chain.merged < count; ++chain.merged) {
      const Contribution& contribution = chain.contributions[chain.merged];
      if (device_wide(contribution.scope)) {
        chain.merged_clock = Clock::join(chain.merged_clock, contribution.clock);
      }
    }
    acquire(key, chain.merged_clock);
    for (std::size_t i = 0; i < count; ++i) {
      const Contribution& contribution = chain.contributions[i];
      if (!device_wide(contribution.scope) && mutual(contribution.thread, contribution.scope, key, scope)) {
        acquire(key, contribution.clock);
      }
    }
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Contribution& contribution = chain.contributions[i];
    if (mutual(contribution.thread, contribution.scope, key, scope)) acquire(key, contribution.clock);
  }
}

// ---- barriers --------------------------------------------------------------------------------------------------------

void Causality::block_barrier(OperationIndex operation, std::uint32_t index, Stamp now) {
  Block& of = block(ThreadKey(operation, index, 0));
  ClockPointer last;
  for (std::uint32_t number : of.threads_with_state) {
    Thread& state = threads_[ThreadKey(operation, index, number).bits];
    if (state.own && state.own != last) of.common = Clock::join(of.common, state.own);
    last = std::move(state.own);
    state.own = nullptr;
  }
  of.barrier = now;
  ++of.barriers;
}

void Causality::barrier_arrive(OperationIndex operation, std::uint32_t index, std::uint32_t warp, std::uint32_t mask,
                               std::uint32_t barrier, std::uint32_t phase, bool sync, Stamp now) {
  Block& of = block(ThreadKey(operation, index, 0));
  Phase& at = of.phases[{barrier, phase}];
  std::vector<ClockEntry> entries;
  std::uint64_t bits = ThreadKey(operation, index, 0).block_bits();
  entries.push_back({bits, whole_block, of.barrier});
  entries.push_back({bits, warp_group(warp), mask == ~0u ? now : of.warps[warp & 31]});
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    ThreadKey key(operation, index, warp * 32 + std::uint32_t(std::countr_zero(rest)));
    if (mask != ~0u) entries.push_back({bits, thread_group(key.thread()), now});
    if (const Thread* state = find_thread(key)) at.clock = Clock::join(at.clock, state->own);
    if (sync) at.waiting.push_back(key);
  }
  at.clock = Clock::with(Clock::join(at.clock, of.common), std::move(entries));
}

void Causality::barrier_complete(OperationIndex operation, std::uint32_t index, std::uint32_t barrier,
                                 std::uint32_t phase) {
  Block& of = block(ThreadKey(operation, index, 0));
  auto found = of.phases.find({barrier, phase});
  if (found == of.phases.end()) return;
  Phase at = std::move(found->second);
  of.phases.erase(found);
  for (ThreadKey key : at.waiting) acquire(key, at.clock);
}

void Causality::warp_barrier(OperationIndex operation, std::uint32_t index, std::uint32_t warp, std::uint32_t mask,
                             Stamp now) {
  Block& of = block(ThreadKey(operation, index, 0));
  ClockPointer all;
  bool any = false;
  std::vector<ClockEntry> entries;
  std::uint64_t bits = ThreadKey(operation, index, 0).block_bits();
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    ThreadKey key(operation, index, warp * 32 + std::uint32_t(std::countr_zero(rest)));
    if (const Thread* state = find_thread(key); state && state->own) {
      all = Clock::join(all, state->own);
      any = true;
    }
    if (mask != ~0u) entries.push_back({bits, thread_group(key.thread()), now});
  }
  if (mask == ~0u) {
    of.warps[warp & 31] = now;
    if (!any) return;
  } else {
    all = Clock::with(all, std::move(entries));
  }
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    acquire(ThreadKey(operation, index, warp * 32 + std::uint32_t(std::countr_zero(rest))), all);
  }
}

void Causality::cluster_barrier(OperationIndex operation, std::uint32_t index, std::uint32_t warp, std::uint32_t mask,
                                std::uint32_t phase, bool wait, bool relaxed, Stamp now) {
  Launch& of = launches_[operation];
  Phase& at = of.cluster_phases[{cluster_of(ThreadKey(operation, index, 0)), phase}];
  for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
    ThreadKey key(operation, index, warp * 32 + std::uint32_t(std::countr_zero(rest)));
    if (wait) {
      acquire(key, at.clock);
    } else if (!relaxed) {
      at.clock = Clock::join(at.clock, snapshot(key, now));
    }
  }
}

// ---- release and acquire ---------------------------------------------------------------------------------------------

bool Causality::mutual(ThreadKey a, Scope a_scope, ThreadKey b, Scope b_scope) const {
  auto includes = [&](ThreadKey from, Scope scope, ThreadKey other) {
    switch (scope) {
      case Scope::none: return false;
      case Scope::cta: return from.block_bits() == other.block_bits();
      case Scope::cluster:
        return from.operation() == other.operation() && cluster_of(from) == cluster_of(other);
      case Scope::gpu:
      case Scope::sys: return true;
    }
    return false;
  };
  return includes(a, a_scope, b) && includes(b, b_scope, a);
}

void Causality::fence(ThreadKey key, Ordering ordering, Scope scope, Stamp now) {
  Thread& state = thread(key);
  if (is_acquire(ordering)) {
    std::vector<Pending> pending = std::move(state.pending);
    state.pending.clear();
    for (const Pending& read : pending) acquire_chain(key, *read.chain, read.count, scope);
    // A fence of a narrow scope may leave what a wider one will acquire.
    if (!device_wide(scope)) thread(key).pending = std::move(pending);
  }
  if (is_release(ordering)) {
    Thread& after = thread(key);
    if (after.released && scope < after.released_scope) {
      // The wider fence before stays the first operation of patterns that reach farther; the narrower one is newer for
      // those near by. Keep the wider: it is what cross-block patterns need, and block-wide ones meet at barriers.
      if (scope == Scope::cta) return;
    }
    after.released = snapshot(key, now);
    after.released_scope = scope;
  }
}

void Causality::strong_access(const StrongAccess& access, Stamp now) {
  LocationState& at = locations_[access.location];
  bool linked = at.written && at.bytes == access.bytes && mutual(at.writer, at.scope, access.thread, access.scope);
  if (access.reads && linked && at.value == access.value_read) {
    at.observers.emplace_back(access.thread, now);
    if (!access.reduction) {
      if (is_acquire(access.ordering)) acquire_chain(access.thread, *at.chain, at.chain->contributions.size(), access.scope);
      Thread& state = thread(access.thread);
      auto same = std::find_if(state.pending.begin(), state.pending.end(),
                               [&](const Pending& read) { return read.chain == at.chain; });
      if (same != state.pending.end()) {
        same->count = at.chain->contributions.size();
      } else if (!at.chain->contributions.empty()) {
        state.pending.push_back({at.chain, at.chain->contributions.size()});
      }
    }
  } else if (access.reads) {
    linked = false; // it read something else
  }
  if (!access.writes) return;

  bool continues = access.reads && linked; // a read-modify-write keeps the chain
  if (!continues || !at.chain) at.chain = std::make_shared<Chain>();
  at.written = true;
  at.writer = access.thread;
  at.scope = access.scope;
  at.bytes = access.bytes;
  at.value = access.value_written;
  Thread& state = thread(access.thread);
  if (is_release(access.ordering)) {
    ClockPointer clock = snapshot(access.thread, now);
    at.chain->contributions.push_back({access.thread, access.scope, clock});
    state.released_at[access.location.address] = clock;
  } else if (auto earlier = state.released_at.find(access.location.address); earlier != state.released_at.end()) {
    at.chain->contributions.push_back({access.thread, access.scope, earlier->second});
  }
  if (state.released) at.chain->contributions.push_back({access.thread, state.released_scope, state.released});
}

// ---- asynchronous copies ----------------------------------------------------------------------------------------------

AsyncGroup Causality::async_issue(ThreadKey key) {
  Thread& state = thread(key);
  if (!state.open_group) {
    state.open_group = AsyncGroup(async_groups_.size());
    async_groups_.push_back({key, 0});
  }
  return state.open_group;
}

void Causality::async_commit(ThreadKey key) {
  Thread& state = thread(key);
  // An empty group counts too.
  if (!state.open_group) async_issue(key);
  state.committed.push_back(state.open_group);
  state.open_group = 0;
}

void Causality::async_wait(ThreadKey key, std::uint32_t pending, bool all, Stamp now) {
  Thread& state = thread(key);
  if (all) {
    if (state.open_group) state.committed.push_back(state.open_group);
    state.open_group = 0;
    pending = 0;
  }
  while (state.committed.size() > pending) {
    AsyncState& group = async_groups_[state.committed.front()];
    if (!group.complete) group.complete = now;
    state.committed.erase(state.committed.begin());
  }
}

void Causality::mbarrier_init(const Location& object) { mbarriers_.erase(object); }

void Causality::mbarrier_arrive(ThreadKey key, const Location& object, std::uint32_t phase, Ordering ordering,
                                Scope scope, Stamp now) {
  if (!is_release(ordering)) return;
  mbarriers_[object].phases[phase].push_back({key, scope, snapshot(key, now)});
}

void Causality::mbarrier_async_arrive(ThreadKey key, const Location& object, std::uint32_t phase, Stamp now) {
  // Ordered after the copies that the thread has issued, and nothing else of the thread (8.9.1.1): their accesses are
  // complete from here on for whoever sees the phase complete.
  Thread& state = thread(key);
  auto complete = [&](AsyncGroup group) {
    if (group && !async_groups_[group].complete) async_groups_[group].complete = now;
  };
  complete(state.open_group);
  for (AsyncGroup group : state.committed) complete(group);
  mbarriers_[object].phases[phase].push_back({key, Scope::cta, snapshot(key, now)});
}

void Causality::mbarrier_test(ThreadKey key, const Location& object, std::uint32_t phase, Ordering ordering,
                              Scope scope) {
  if (!is_acquire(ordering)) return;
  auto found = mbarriers_.find(object);
  if (found == mbarriers_.end()) return;
  for (const auto& [number, contributions] : found->second.phases) {
    if (number > phase) break;
    for (const Contribution& contribution : contributions) {
      if (mutual(contribution.thread, contribution.scope, key, scope)) acquire(key, contribution.clock);
    }
  }
}

// ---- questions -------------------------------------------------------------------------------------------------------

bool Causality::ordered(ThreadKey first, Stamp stamp, AsyncGroup group, ThreadKey second) const {
  if (group) {
    const AsyncState& state = async_groups_[group];
    bool same_operation = first.operation() == second.operation();
    if (!state.complete) return !same_operation && operations_.ordered(first.operation(), second.operation());
    stamp = state.complete;
  }
  if (first == second) return true;
  if (first.operation() != second.operation()) {
    if (operations_.ordered(first.operation(), second.operation())) return true;
  } else if (first.block_bits() == second.block_bits()) {
    const Block* of = find_block(second);
    if (of && stamp <= of->barrier) return true;
    if (of && first.warp() == second.warp() && stamp <= of->warps[second.warp()]) return true;
  }
  const Block* of = find_block(second);
  if (of && of->common && of->common->seen(first) >= stamp) return true;
  const Thread* state = find_thread(second);
  return state && state->own && state->own->seen(first) >= stamp;
}

bool Causality::observed(const Location& location, Stamp write, ThreadKey second, Stamp now) const {
  auto found = locations_.find(location);
  if (found == locations_.end()) return false;
  const auto& observers = found->second.observers;
  for (auto at = observers.rbegin(); at != observers.rend() && at->second > write; ++at) {
    if (at->second < now && ordered(at->first, at->second, 0, second)) return true;
  }
  return false;
}

std::uint32_t Causality::barriers_passed(ThreadKey thread) const {
  const Block* of = find_block(thread);
  return of ? of->barriers : 0;
}

} // namespace deadheat::order
