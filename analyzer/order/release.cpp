// Release and acquire patterns, observation order, mbarrier phases (PTX ISA 8.7 to 8.9).
#include <algorithm>

#include "analyzer/order/causality.h"

namespace deadheat::order {

namespace {

constexpr std::size_t most_writes = 8, most_pending = 32;
constexpr std::size_t most_contributions = 4096;
constexpr Scope scopes[] = {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys};

}  // namespace

// ---- scopes

bool Causality::same_cluster(ThreadKey a, ThreadKey b) const {
  return a.operation() == b.operation() && (a.block_bits() == b.block_bits() || cluster_of(a) == cluster_of(b));
}

bool Causality::mutual(ThreadKey a, Scope a_scope, ThreadKey b, Scope b_scope) const {
  auto includes = [&](Scope scope) {
    switch (scope) {
      case Scope::none: return false;
      case Scope::cta: return a.block_bits() == b.block_bits();
      case Scope::cluster: return same_cluster(a, b);
      case Scope::gpu: return same_device(a, b);
      case Scope::sys: return true;
    }
    return false;
  };
  return includes(a_scope) && includes(b_scope);
}

Scope Causality::reach(const Contribution& contribution, ThreadKey key) const {
  if (contribution.thread.block_bits() == key.block_bits()) return Scope::cta;
  if (contribution.scope >= Scope::cluster && same_cluster(contribution.thread, key)) return Scope::cluster;
  if (device_wide(contribution.scope) && same_device(contribution.thread, key)) return Scope::gpu;
  return contribution.scope == Scope::sys ? Scope::sys : Scope::none;
}

// ---- chains

void Causality::contribute(Chain& chain, ThreadKey key, Scope scope, ClockPointer clock, bool with_earlier) {
  auto& all = chain.contributions;
  if (!all.empty() && all.back().clock == clock && all.back().thread == key && all.back().scope == scope) return;
  if (!device_wide(scope)) chain.all_wide = false;
  if (scope == Scope::cluster) chain.clusters = true;
  chain.devices |= device_bit(operations_.device(key.operation()));
  all.push_back({key, scope, std::move(clock), with_earlier});
  if (all.size() % most_contributions == 0 && chain.all_wide && !operations_.several_devices()) {
    // A long chain: readers that are that far behind would acquire a little more than they saw.
    ClockPointer clock_of_all = acquirable(key, chain, all.size(), Scope::sys);
    for (std::size_t i = all.size() - most_contributions; i < all.size() - most_contributions / 4; ++i) {
      all[i].clock = clock_of_all;
    }
  }
}

ClockPointer Causality::acquirable(ThreadKey key, Chain& chain, std::size_t count, Scope scope) const {
  count = std::min(count, chain.contributions.size());
  ClockPointer clock;
  if (!count || scope == Scope::none) return clock;
  auto add = [&](std::size_t i) { clock = Clock::join(clock, chain.contributions[i].clock); };

  // What the thread's own block contributed, with any scope.
  if (!chain.all_wide || !device_wide(scope)) {
    Chain::Merged& own = chain.blocks[key.block_bits()];
    bool behind = own.count > count;
    std::size_t from = behind ? 0 : own.count;
    for (std::size_t i = from; i < count; ++i) {
      const Contribution& contribution = chain.contributions[i];
      if (contribution.thread.block_bits() != key.block_bits()) continue;
      add(i);
      for (std::size_t j = 0; contribution.with_earlier && j < i; ++j) add(j);
    }
    if (!behind) {
      own.clock = Clock::join(own.clock, clock);
      own.count = count;
      clock = own.clock;
    }
  }
  if (device_wide(scope) && operations_.several_devices()) {
    clock = Clock::join(clock, across_devices(key, chain, count, scope));
  } else if (device_wide(scope)) {
    if (chain.wide.count <= count) {
      for (std::size_t& i = chain.wide.count; i < count; ++i) {
        const Contribution& contribution = chain.contributions[i];
        if (device_wide(contribution.scope)) chain.wide.clock = Clock::join(chain.wide.clock, contribution.clock);
      }
      clock = Clock::join(clock, chain.wide.clock);
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        if (device_wide(chain.contributions[i].scope)) add(i);
      }
    }
  }
  if (chain.clusters || scope == Scope::cluster) {
    for (std::size_t i = 0; i < count; ++i) {
      const Contribution& contribution = chain.contributions[i];
      if (scope < Scope::cluster || reach(contribution, key) != Scope::cluster) continue;
      add(i);
      for (std::size_t j = 0; contribution.with_earlier && j < i; ++j) add(j);
    }
  }
  return clock;
}

// Of contributions of gpu and sys scope, where not all threads are on one device.
ClockPointer Causality::across_devices(ThreadKey key, Chain& chain, std::size_t count, Scope scope) const {
  Chain::Merged behind;
  const bool anywhere = operations_.on_any_device(key.operation());
  Chain::Merged& upto = chain.wide_on[{anywhere ? ~0u : operations_.device(key.operation()), scope == Scope::sys}];
  Chain::Merged& merged = upto.count <= count ? upto : behind;
  const auto add = [&](std::size_t i) { merged.clock = Clock::join(merged.clock, chain.contributions[i].clock); };
  for (std::size_t& i = merged.count; i < count; ++i) {
    const Contribution& contribution = chain.contributions[i];
    const Scope needed = reach(contribution, key);
    if (!device_wide(contribution.scope) || needed == Scope::none || needed > scope) continue;
    add(i);
    if (!contribution.with_earlier) continue;
    for (std::size_t j = merged.whole; j < i; ++j) add(j);
    merged.whole = i + 1;
  }
  return merged.clock;
}

void Causality::await(ThreadKey key, const Location& location, const ChainPointer& chain, std::size_t count) {
  if (!count) return;
  Thread& state = thread(key);
  for (Pending& read : state.pending) {
    if (read.chain != chain || !(read.location == location)) continue;
    read.count = std::max(read.count, count);
    return;
  }
  state.pending.push_back({location, chain, count});
  if (state.pending.size() <= most_pending) return;
  for (std::size_t i = 0; i < most_pending / 2; ++i) {
    for (Scope scope : scopes) {
      ClockPointer& clock = state.pending_clocks[std::size_t(scope)];
      clock = Clock::join(clock, acquirable(key, *state.pending[i].chain, state.pending[i].count, scope));
    }
  }
  state.pending.erase(state.pending.begin(), state.pending.begin() + most_pending / 2);
}

// What a fence of that scope acquires by earlier reads.
ClockPointer Causality::awaited(ThreadKey key, Scope scope) {
  const Thread& state = thread(key);
  ClockPointer clock = state.pending_clocks[std::size_t(scope)];
  for (const Pending& read : state.pending) clock = Clock::join(clock, acquirable(key, *read.chain, read.count, scope));
  return clock;
}

void Causality::release(ByScope& released, Scope scope, const ClockPointer& clock) {
  // It stands for earlier ones that reach no farther.
  for (std::size_t s = 0; s <= std::size_t(scope); ++s) released[s] = nullptr;
  released[std::size_t(scope)] = clock;
}

// ---- fences and strong accesses

void Causality::fence(ThreadKey key, Ordering ordering, Scope scope, Stamp now, Restriction of) {
  if (scope == Scope::none) return;
  if (of != Restriction::none) return restricted_fence(key, ordering, scope, now, of);
  if (is_acquire(ordering)) {
    Thread& state = thread(key);
    synchronize(key, awaited(key, scope));
    if (ordering == Ordering::sc && device_wide(scope) && !rules_.fence_sc_order) {
      fence_follows(key, Reach::device, now);
      if (scope == Scope::sys) fence_follows(key, Reach::system, now);
    }
    if (everywhere(scope)) {  // there is no more to acquire
      state.pending.clear();
      state.pending_clocks = {};
    }
  }
  if (rules_.fence_sc_order && ordering == Ordering::sc) {
    acquire(key, acquirable(key, fence_sc_, fence_sc_.contributions.size(), scope));
    contribute(fence_sc_, key, scope, snapshot(key, now));
    synced(key, now);
  }
  if (is_release(ordering)) {
    const ClockPointer before = snapshot(key, now);
    release(thread(key).released, scope, before);
    if (ordering == Ordering::sc && device_wide(scope) && !rules_.fence_sc_order) {
      fence_precedes(key, Reach::device, before, now);
      if (scope == Scope::sys) fence_precedes(key, Reach::system, before, now);
    }
    synced(key, now);
  }
}

// It takes the place of no other: what those ordered, it orders in part.
void Causality::restricted_fence(ThreadKey key, Ordering ordering, Scope scope, Stamp now, Restriction of) {
  Thread& state = thread(key);
  if (is_acquire(ordering) && of == Restriction::shared)
    acquire(key, Clock::of_shared(awaited(key, scope), key.operation()));
  if (!is_release(ordering)) return;
  ClockPointer& released = state.released[std::size_t(scope)];
  released = Clock::join(released, of == Restriction::shared
                                       ? Clock::of_shared(snapshot(key, now), key.operation())
                                       : Clock::with(nullptr, {{key.block_bits(), inits_group(key.thread()), now}}));
  synced(key, now);
}

// Of a location that releases nothing and never did, an access that releases nothing leaves nothing for others to
// acquire: it need not be remembered.
bool Causality::leaves_nothing(const StrongAccess& access) const {
  if (watched(access) || is_release(access.ordering) || is_acquire(access.ordering)) return false;
  if (may_be_known(access.location) || (access.reads && !access.writes && observed_around(access))) return false;
  if (threads_.empty() || !access.writes) return true;
  if (const Block* of = find_block(access.thread); !of || of->threads_with_state.empty()) return true;
  if (find_block(access.thread)->fence_orders[0]) return false;
  const Thread* state = find_thread(access.thread);
  if (!state) return true;
  auto empty = [](const ByScope& released) {
    return std::none_of(released.begin(), released.end(), [](const ClockPointer& clock) { return clock != nullptr; });
  };
  return state->released_at.empty() && empty(state->released);
}

bool Causality::orders_nothing(Ordering ordering, bool writes) const {
  return !rules_.observers && !is_release(ordering) && !is_acquire(ordering) && locations_.empty() &&
         (threads_.empty() || !writes);
}

Stamp Causality::strong_access(const StrongAccess& access, Stamp now) {
  if (leaves_nothing(access)) return 0;
  auto [place, fresh] = locations_.try_emplace(access.location);
  LocationState& at = place->second;
  if (fresh) location_bits_.set(location_bit(access.location));
  if (fresh && access.location.block) block(access.thread).locations.push_back(access.location);

  // Who does not look at what an operation read may have come before what it observed, as well.
  const bool looked_at = !access.reduction && !access.unused;
  ChainPointer chain; // that the read observes
  std::size_t count = 0, fenced_count = 0;
  bool latest = false;
  if (access.reads) {
    const Write* seen = observed_by(access, at);
    const bool guessed = access.order_first != access.order_last;
    const bool acquires_something = seen && !seen->chain->contributions.empty() && is_acquire(access.ordering);
    if (guessed && acquires_something && !access.unused) ++assumed_edges_;
    if (seen && mutual(seen->writer, seen->scope, access.thread, access.scope)) {
      chain = seen->chain;
      count = seen->contributions;
      fenced_count = seen->fenced;
      latest = !at.writes.empty() && seen == &at.writes.back();
      if (looked_at && seen->fenced) fence_observed(access.thread, chain, seen->fenced, now);
      if (looked_at && watched(access)) observe(access, *seen, now);
    }
  }

  Location sized = access.location; // release and acquire patterns are of one location
  sized.bytes = access.bytes;
  ClockPointer before; // what a read-modify-write releases, without what it acquires from this chain
  const bool acquires = is_acquire(access.ordering) && access.reads && !access.reduction;
  const bool for_later = !access.reduction && !(acquires && everywhere(access.scope)); // operations to acquire
  Seen may_acquire{chain, count};
  if (unused_reads_ && count) {
    if (access.unused)
      may_acquire = certain(access, at, may_acquire);
    else if (looked_at)
      remember_looked_at(access, at, chain, count, now);
  }
  if (acquires) {
    for (const Pending& read : thread(access.thread).pending) { // earlier strong reads of the same location (8.8)
      if (!(read.location == sized)) continue;
      synchronize(access.thread, acquirable(access.thread, *read.chain, read.count, access.scope));
    }
    const bool relays = access.writes && !access.unused && is_release(access.ordering) && latest &&
                        device_wide(access.scope) && chain->all_wide && on_one_device(*chain, access.thread);
    if (relays) before = snapshot(access.thread, now);
    if (may_acquire.chain)
      synchronize(access.thread, acquirable(access.thread, *may_acquire.chain, may_acquire.count, access.scope));
  }
  if (may_acquire.chain && for_later) await(access.thread, sized, may_acquire.chain, may_acquire.count);
  const Stamp continues = latest && looked_at ? chain->first : 0;
  if (!access.writes) return continues;

  if (!chain) {
    chain = std::make_shared<Chain>();
    chain->first = now;
  } else if (!latest) { // it read an older write: a branch of that chain
    auto branch = std::make_shared<Chain>();
    branch->first = now;
    for (std::size_t i = 0; i < std::min(count, chain->contributions.size()); ++i) {
      const Contribution& c = chain->contributions[i];
      contribute(*branch, c.thread, c.scope, c.clock, c.with_earlier);
    }
    for (std::size_t i = fenced_count; i > 0; --i) { // the last of each
      const Chain::Fenced& last = chain->fenced[i - 1];
      if (std::none_of(branch->fenced.begin(), branch->fenced.end(),
                       [&](const Chain::Fenced& later) { return later.device == last.device; }))
        branch->fenced.push_back(last);
    }
    chain = branch;
  }
  if (is_release(access.ordering)) {
    ClockPointer clock = before ? before : snapshot(access.thread, now);
    contribute(*chain, access.thread, access.scope, clock, before != nullptr);
    synced(access.thread, now);
    // Of a later write that is no part of this chain it brings what came with the chain, too.
    release(thread(access.thread).released_at[sized], access.scope, before ? snapshot(access.thread, now) : clock);
  }
  if (const Thread* state = find_thread(access.thread)) {
    auto contribute_all = [&](const ByScope& released) {
      for (std::size_t s = 0; s < released.size(); ++s) {
        if (released[s]) contribute(*chain, access.thread, Scope(s), released[s]);
      }
    };
    auto earlier = state->released_at.find(sized);
    if (earlier != state->released_at.end()) contribute_all(earlier->second);
    contribute_all(state->released);
  }
  add_fenced(chain, access.thread);
  // A write that nothing can synchronize with need not be remembered behind another of its bytes.
  if (!watched(access) && !at.writes.empty() && at.writes.back().bytes <= access.bytes &&
      at.writes.back().chain->releases_nothing())
    at.writes.pop_back();
  if (at.writes.size() >= most_writes) at.writes.erase(at.writes.begin());
  at.writes.push_back({access.thread, access.scope, access.bytes, access.form, access.reads, access.value_written,
                       access.order_first, access.order_last, now, chain, chain->contributions.size(),
                       chain->fenced.size()});
  return continues;
}

void Causality::forget_locations() {
  if (locations_.size() < many_locations_) return;
  // What was observed orders the writes of one launch, or of launches that ran beside each other.
  std::erase_if(locations_, [&](const auto& at) {
    const LocationState& state = at.second;
    return (state.writes.empty() || state.writes.back().chain->releases_nothing()) &&
           (state.observations.empty() || !operations_.concurrent());
  });
  many_locations_ = std::max<std::size_t>(1 << 16, 2 * locations_.size());
  location_bits_.reset();
  for (const auto& [location, state] : locations_) location_bits_.set(location_bit(location));
}

// ---- mbarrier objects

void Causality::mbarrier_init(const Location& object) {
  const auto found = mbarriers_.find(object);
  if (found == mbarriers_.end()) return;
  const std::uint32_t lives = found->second.lives + 1;
  found->second = {};
  found->second.lives = lives;
}

Causality::MbarrierState::Phase& Causality::mbarrier_phase(ThreadKey key, const Location& object, std::uint32_t phase) {
  auto [at, fresh] = mbarriers_.try_emplace(object);
  if (fresh) block(key).locations.push_back(object);
  MbarrierState::Phase& state = at->second.phases[phase];
  if (!state.chain) state.chain = std::make_shared<Chain>();
  return state;
}

void Causality::mbarrier_arrive(ThreadKey key, const Location& object, std::uint32_t phase, Ordering ordering,
                                Scope scope, Stamp now) {
  MbarrierState::Phase& at = mbarrier_phase(key, object, phase);
  const ChainPointer& chain = at.chain;
  if (is_release(ordering)) {
    const ClockPointer clock = snapshot(key, now);
    contribute(*chain, key, scope, clock);
    if (object.block - 1 != key.block_bits()) {
      MbarrierState::Remote& remote = scope > Scope::cta ? at.remote_wide : at.remote;
      remote = {Clock::join(remote.released, clock), nullptr};
    }
    synced(key, now);
    Thread& state = thread(key);
    state.arrived = {now, state.own, block(key).common};
  }
  const ByScope released = thread(key).released; // an arrival after a fence ends a release pattern of the fence's scope
  for (std::size_t s = 0; s < released.size(); ++s) {
    if (released[s]) contribute(*chain, key, std::min(Scope(s), scope), released[s]); // no farther than it
  }
}

void Causality::mbarrier_async_arrive(ThreadKey key, const Location& object, std::uint32_t phase, Stamp now) {
  // Ordered after the copies that the thread has issued, and after nothing else of the thread (8.9.1.1).
  const ChainPointer& chain = mbarrier_phase(key, object, phase).chain;
  contribute(*chain, key, Scope::cta, Clock::with(nullptr, {{key.block_bits(), async_group(key.thread()), now}}));
}

void Causality::mbarrier_test(ThreadKey key, const Location& object, std::uint32_t phase, Ordering ordering,
                              Scope scope, bool unused) {
  auto found = mbarriers_.find(object);
  if (found == mbarriers_.end()) return;
  if (unused_tests_) {
    const ClockEntry complete{object.block - 1, phase_group(object.address),
                              (Stamp(found->second.lives) << 32) + phase + 1};
    // It reads shared memory: whatever comes before such reads, which leave nothing to take back, comes before it.
    const auto seen = [&](std::uint32_t kind) {
      return seen_entry(key, {complete.block, complete.group | kind, complete.stamp});
    };
    if (unused && !seen(0) && !seen(only_reads_bulk) && !seen(only_shared_bulk) &&
        !seen(only_shared_bulk | only_reads_bulk))
      return;
    Thread& state = thread(key);
    state.own = Clock::with(state.own, {complete});
  }
  auto& phases = found->second.phases;
  const auto acquire_reads = [&](MbarrierState::Remote& of) {
    if (!of.reads) of.reads = Clock::of_reads(of.released);
    acquire(key, of.reads);
  };
  for (auto at = phases.begin(); at != phases.end() && at->first <= phase; ++at) {
    // Earlier phases are complete too. Long gone ones were seen by whoever arrived since.
    if (phase - at->first > 2) continue;
    auto& [chain, remote, remote_wide] = at->second;
    if (is_acquire(ordering)) {
      acquire(key, acquirable(key, *chain, chain->contributions.size(), scope));
      acquire_reads(remote);
      if (scope <= Scope::cta) acquire_reads(remote_wide);
    } else {
      await(key, object, chain, chain->contributions.size());
    }
  }
  constexpr std::size_t most_phases = 16;
  while (phases.size() > most_phases) phases.erase(phases.begin());
}

} // namespace deadheat::order
