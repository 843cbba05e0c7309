// Release and acquire patterns, observation order, mbarrier phases (PTX ISA 8.7 to 8.9).
#include <algorithm>
#include <bit>

#include "analyzer/order/causality.h"

namespace deadheat::order {

namespace {

constexpr std::size_t most_pending = 32;
constexpr std::size_t most_contributions = 4096;
constexpr Scope scopes[] = {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys};

}  // namespace

// ---- scopes

bool Causality::same_cluster(ThreadKey a, ThreadKey b) const {
  return a.operation() == b.operation() && (a.block_bits() == b.block_bits() || cluster_of(a) == cluster_of(b));
}

// Are there other blocks in its cluster?
bool Causality::in_cluster(ThreadKey thread) const {
  const Launch* of = launch(thread.operation());
  return of && of->cluster.count() > 1;
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

void Causality::contribute(Chain& chain, ThreadKey key, Scope scope, ReleasedPointer released, bool with_earlier) {
  auto& all = chain.contributions;
  if (!all.empty() && all.back().released == released && all.back().thread == key && all.back().scope == scope) return;
  if (!device_wide(scope)) chain.all_wide = false;
  chain.devices |= device_bit(operations_.device(key.operation()));
  all.push_back({key, scope, std::move(released), with_earlier});
  if (all.size() % most_contributions == 0 && chain.all_wide && !operations_.several_devices()) {
    // A long chain: readers that are that far behind would acquire a little more than they saw.
    const ReleasedPointer all_of_them = only_known(acquirable(key, chain, all.size(), Scope::sys));
    const std::size_t first = all.size() - most_contributions;
    for (std::size_t i = first; i < all.size() - most_contributions / 4; ++i) all[i].released = all_of_them;
    chain.readers->wide.selection.changed(first);
  }
}

// What the first `count` contributions of gpu and sys scope released.
ClockPointer Causality::released_widely(Chain& chain, std::size_t count) const {
  auto& [looked_at, selection] = chain.readers->wide;
  for (; looked_at < count; ++looked_at) {
    const Contribution& contribution = chain.contributions[looked_at];
    if (device_wide(contribution.scope)) selection.add(contribution, looked_at);
  }
  return selection.released(chain.contributions, count);
}

// Of those that are selected, and of those that come with them, which are of gpu or sys scope.
ClockPointer Causality::released(Chain& chain, Selection& selection, std::size_t count) const {
  const ClockPointer clock = selection.released(chain.contributions, count);
  const std::size_t whole = selection.whole(count);
  return whole ? Clock::join(clock, released_widely(chain, whole)) : clock;
}

ClockPointer Causality::acquirable(ThreadKey key, Chain& chain, std::size_t count, Scope scope) const {
  count = std::min(count, chain.contributions.size());
  if (!count || scope == Scope::none) return nullptr;
  if (!chain.readers) chain.readers = std::make_unique<Readers>();
  const bool wide = device_wide(scope);
  if (wide && chain.all_wide) return across_the_device(key, chain, count, scope);

  // What the thread's own block contributed, with any scope, and its cluster with that scope or a wider one.
  Readers::Places& places = wide ? chain.readers->narrow : chain.readers->all;
  for (; places.looked_at < count; ++places.looked_at) {
    const Contribution& contribution = chain.contributions[places.looked_at];
    if (wide && device_wide(contribution.scope)) continue;
    places.blocks[contribution.thread.block_bits()].selection.add(contribution, places.looked_at);
    if (contribution.scope >= Scope::cluster && in_cluster(contribution.thread))
      places.clusters[cluster_bits(contribution.thread)].add(contribution, places.looked_at);
  }
  Readers::Places::Block& own = places.blocks[key.block_bits()];
  if (own.count == count && own.scope == scope) return own.acquired;
  ClockPointer clock = wide ? across_the_device(key, chain, count, scope) : nullptr;
  if (scope >= Scope::cluster && in_cluster(key)) {
    const auto cluster = places.clusters.find(cluster_bits(key));
    if (cluster != places.clusters.end()) clock = Clock::join(clock, released(chain, cluster->second, count));
  }
  clock = Clock::join(clock, released(chain, own.selection, count));
  own.count = count, own.scope = scope, own.acquired = clock;
  return clock;
}

// Of contributions of gpu and sys scope, with one of these.
ClockPointer Causality::across_the_device(ThreadKey key, Chain& chain, std::size_t count, Scope scope) const {
  if (!operations_.several_devices()) return released_widely(chain, count);
  const bool anywhere = operations_.on_any_device(key.operation());
  auto& [looked_at, selection] =
      chain.readers->wide_on[{anywhere ? ~0u : operations_.device(key.operation()), scope == Scope::sys}];
  for (; looked_at < count; ++looked_at) {
    const Contribution& contribution = chain.contributions[looked_at];
    const Scope needed = reach(contribution, key);
    if (device_wide(contribution.scope) && needed != Scope::none && needed <= scope)
      selection.add(contribution, looked_at);
  }
  return released(chain, selection, count);
}

void Causality::await(ThreadKey key, const Pending& read) {
  if (!read.count) return;
  Thread& state = thread(key);
  for (Pending& earlier : state.pending) {
    if (earlier.chain != read.chain || !(earlier.location == read.location) || earlier.scope != read.scope) continue;
    earlier.count = std::max(earlier.count, read.count);
    return;
  }
  state.pending.push_back(read);
  if (state.pending.size() <= most_pending) return;
  for (std::size_t i = 0; i < most_pending / 2; ++i) {
    for (Scope scope : scopes) {
      ClockPointer& clock = state.pending_clocks[std::size_t(scope)];
      const Pending& earlier = state.pending[i];
      clock = Clock::join(clock, acquirable(key, *earlier.chain, earlier.count, std::min(scope, earlier.scope)));
    }
  }
  state.pending.erase(state.pending.begin(), state.pending.begin() + most_pending / 2);
}

// What a fence of that scope acquires by earlier reads.
ClockPointer Causality::awaited(ThreadKey key, Scope scope) {
  const Thread& state = thread(key);
  ClockPointer clock = state.pending_clocks[std::size_t(scope)];
  for (const Pending& read : state.pending)
    clock = Clock::join(clock, acquirable(key, *read.chain, read.count, std::min(scope, read.scope)));
  return clock;
}

void Causality::release(ByScope& released, Scope scope, const ReleasedPointer& last) {
  // It stands for earlier ones that reach no farther.
  for (std::size_t s = 0; s <= std::size_t(scope); ++s) released[s] = nullptr;
  released[std::size_t(scope)] = last;
}

// ---- fences and strong accesses

void Causality::fence(ThreadKey key, Ordering ordering, Scope scope, Stamp now, Restriction of) {
  if (scope == Scope::none || rules_.only_marked) return;
  if (of != Restriction::none) return restricted_fence(key, ordering, scope, now, of);
  took_device_for_all_ |= ordering == Ordering::sc && scope == Scope::sys && !operations_.several_devices();
  if (is_acquire(ordering)) {
    Thread& state = thread(key);
    synchronize(key, awaited(key, scope));
    if (ordering == Ordering::sc && !rules_.fence_sc_order) fence_follows(key, scope, now);
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
    const ReleasedPointer before = snapshot(key, now);
    release(thread(key).released, scope, before);
    if (ordering == Ordering::sc && !rules_.fence_sc_order) fence_precedes(key, scope, before, now);
    synced(key, now);
  }
}

// It takes the place of no other: what those ordered, it orders in part.
void Causality::restricted_fence(ThreadKey key, Ordering ordering, Scope scope, Stamp now, Restriction of) {
  Thread& state = thread(key);
  if (is_acquire(ordering) && of == Restriction::shared)
    acquire(key, Clock::of_shared(awaited(key, scope), key.operation()));
  if (!is_release(ordering)) return;
  ReleasedPointer& released = state.released[std::size_t(scope)];
  released = only_known(Clock::join(released ? released->clock() : nullptr,
                                    of == Restriction::shared
                                        ? Clock::of_shared(snapshot(key, now)->clock(), key.operation())
                                        : Clock::with(nullptr, {{key.block_bits(), inits_group(key.thread()), now}})));
  synced(key, now);
}

// Of a location that releases nothing and never did, an access that releases nothing leaves nothing for others to
// acquire: it need not be remembered.
bool Causality::leaves_nothing(const StrongAccess& access) const {
  if (watched(access) || is_release(access.ordering) || is_acquire(access.ordering)) return false;
  if (may_be_known(access.location) || (access.reads && !access.writes && observed_around(access))) return false;
  if (threads_.empty() || !access.writes) return true;
  if (const Block* of = find_block(access.thread); !of || of->threads_with_state.empty()) return true;
  if (find_block(access.thread)->has_fence_orders()) return false;
  const Thread* state = find_thread(access.thread);
  if (!state) return true;
  auto empty = [](const ByScope& released) {
    return std::none_of(released.begin(), released.end(), [](const ReleasedPointer& of) { return of != nullptr; });
  };
  return state->released_at.empty() && empty(state->released);
}

bool Causality::orders_nothing(Ordering ordering, bool writes) const {
  return !rules_.observers && !is_release(ordering) && !is_acquire(ordering) && locations_.empty() &&
         (threads_.empty() || !writes);
}

Stamp Causality::strong_access(const StrongAccess& access, Stamp now) {
  if (rules_.only_marked) {
    pass_on(access, now);
    return 0;
  }
  if (leaves_nothing(access)) return 0;
  auto [place, fresh] = locations_.try_emplace(access.location);
  LocationState& at = place->second;
  if (fresh) location_bits_.set(location_bit(access.location));
  if (fresh && access.location.block) block(access.thread).locations.push_back(access.location);

  // Who does not look at what an operation read may have come before what it observed, as well.
  const bool looked_at = !access.reduction && !access.unused;
  const Write* observed = nullptr; // by the read
  ChainPointer chain; // that it is of
  std::size_t count = 0, fenced_count = 0;
  bool latest = false;
  if (access.reads) {
    const Write* seen = observed_by(access, at);
    const bool guessed = access.order_first != access.order_last;
    const bool acquires_something = seen && !seen->chain->contributions.empty() && is_acquire(access.ordering);
    if (guessed && acquires_something && !access.unused) ++assumed_edges_;
    if (seen && mutual(seen->writer, seen->scope, access.thread, access.scope)) {
      observed = seen;
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
  ReleasedPointer before; // what a read-modify-write releases, without what it acquires from this chain
  const bool acquires = is_acquire(access.ordering) && access.reads && !access.reduction;
  const bool for_later = !access.reduction && !(acquires && everywhere(access.scope)); // operations to acquire
  Seen may_acquire{chain, count};
  if (unused_reads_ && count) {
    if (access.unused)
      may_acquire = certain(access, at, may_acquire);
    else if (looked_at)
      remember_looked_at(access, *observed, at, now);
  }
  if (acquires) {
    std::vector<Pending>& pending = thread(access.thread).pending;
    for (const Pending& read : pending) { // earlier strong reads of the same location (8.8)
      if (!(read.location == sized) || (read.chain == may_acquire.chain && read.count <= may_acquire.count)) continue;
      synchronize(access.thread, acquirable(access.thread, *read.chain, read.count, access.scope));
    }
    if (everywhere(access.scope)) // there is no more to acquire
      std::erase_if(pending, [&](const Pending& read) { return read.location == sized; });
    const bool relays = access.writes && !access.unused && is_release(access.ordering) && latest &&
                        device_wide(access.scope) && chain->all_wide && on_one_device(*chain, access.thread);
    if (relays) before = snapshot(access.thread, now);
    if (may_acquire.chain)
      synchronize(access.thread, acquirable(access.thread, *may_acquire.chain, may_acquire.count, access.scope));
  }
  if (may_acquire.chain && for_later) await(access.thread, {sized, may_acquire.chain, may_acquire.count});
  const Stamp continues = latest && looked_at ? chain->first : 0;
  if (!access.writes) return continues;

  if (!chain) {
    chain = make_counted<Chain>();
    chain->first = now;
  } else if (!latest) { // it read an older write: a branch of that chain
    auto branch = make_counted<Chain>();
    branch->first = now;
    for (std::size_t i = 0; i < std::min(count, chain->contributions.size()); ++i) {
      const Contribution& c = chain->contributions[i];
      contribute(*branch, c.thread, c.scope, c.released, c.with_earlier);
    }
    for (const auto& [group, all] : chain->fenced) { // the last of each
      if (const Chain::Fenced* last = chain->last_fenced(group, fenced_count)) branch->add_fenced(group, last->before);
    }
    chain = branch;
  }
  if (is_release(access.ordering)) {
    const ReleasedPointer released = before ? before : snapshot(access.thread, now);
    contribute(*chain, access.thread, access.scope, released, before != nullptr);
    synced(access.thread, now);
    // Of a later write that is no part of this chain it brings what came with the chain, too.
    release(thread(access.thread).released_at[sized], access.scope, before ? snapshot(access.thread, now) : released);
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
  make_room(at.writes);
  at.writes.push_back({access.thread, access.scope, access.bytes, access.form, access.reads, access.value_written,
                       access.order_first, access.order_last, now, chain, chain->contributions.size(),
                       chain->fenced_count, nullptr});
  return continues;
}

void Causality::forget_locations() {
  if (locations_.size() < many_locations_ && !rules_.one_by_one) return;
  // What was observed orders the writes of one launch, or of launches that ran beside each other.
  std::erase_if(locations_, [&](const auto& at) {
    const LocationState& state = at.second;
    if (rules_.only_marked) return rules_.one_by_one || !state.writes.back().told;
    return (state.writes.empty() || state.writes.back().chain->releases_nothing()) &&
           (state.observations.empty() || !operations_.concurrent());
  });
  many_locations_ = std::max<std::size_t>(1 << 16, 2 * locations_.size());
  location_bits_.reset();
  for (const auto& [location, state] : locations_) location_bits_.set(location_bit(location));
}

// ---- mbarrier objects

void Causality::mbarrier_init(const Location& object) {
  if (!defer(ThreadKey::first_of(object.block - 1), object, {.what = Deferred::What::mbarrier_init}))
    apply_mbarrier_init(object);
}

void Causality::apply_mbarrier_init(const Location& object) {
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
  if (!state.chain) {
    constexpr std::size_t usual = 8; // warps that arrive
    state.chain = make_counted<Chain>();
    state.chain->contributions.reserve(usual);
  }
  return state;
}

void Causality::mbarrier_arrive(ThreadKey lane0, std::uint32_t lanes, const Location& object, std::uint32_t phase,
                                Ordering ordering, Scope scope, Stamp now) {
  if (is_release(ordering)) synced(lane0, now);
  if (!defer(lane0, object,
             {.stamp = now,
              .lanes = lanes,
              .phase = phase,
              .what = Deferred::What::mbarrier_arrive,
              .ordering = ordering,
              .scope = scope}))
    apply_mbarrier_arrive(lane0, lanes, object, phase, ordering, scope, now);
}

void Causality::apply_mbarrier_arrive(ThreadKey lane0, std::uint32_t lanes, const Location& object, std::uint32_t phase,
                                      Ordering ordering, Scope scope, Stamp now) {
  MbarrierState::Phase& at = mbarrier_phase(lane0, object, phase);
  const ChainPointer& chain = at.chain;
  Block& of = block(lane0);
  const std::uint32_t warp = lane0.warp();
  if (is_release(ordering)) {
    if (of.arrived.size() <= warp) of.arrived.resize(warp + 1);
    std::vector<Arrived>& last = of.arrived[warp];
    std::erase_if(last, [&](Arrived& earlier) { return !(earlier.lanes &= ~lanes); });
    of.own.each(lane0, lanes, [&](std::uint32_t alike, const ClockPointer& own) {
      const ThreadKey first(lane0.operation(), lane0.block(), warp * 32 + std::uint32_t(std::countr_zero(alike)));
      const ClockPointer known = joined(of.common, own);
      if (rules_.only_marked && !known) return;
      const auto released = rules_.only_marked ? only_known(known)
                                               : make_counted<const Released>(known, first, of.barrier, of.warps[warp],
                                                                              now, alike & (alike - 1));
      contribute(*chain, first, scope, released);
      if (object.block - 1 != lane0.block_bits()) {
        MbarrierState::Remote& remote = scope > Scope::cta ? at.remote_wide : at.remote;
        remote.released.add(*released);
      }
      last.push_back({alike, now, own, of.common});
    });
  }
  if (of.threads_with_state.empty()) return;
  for (std::uint32_t rest = lanes; rest; rest &= rest - 1) {
    const ThreadKey key(lane0.operation(), lane0.block(), warp * 32 + std::uint32_t(std::countr_zero(rest)));
    const Thread* state = find_thread(key);
    if (!state) continue;
    const ByScope released = state->released; // an arrival after a fence ends a release pattern of the fence's scope
    for (std::size_t s = 0; s < released.size(); ++s) {
      if (released[s]) contribute(*chain, key, std::min(Scope(s), scope), released[s]); // no farther than it
    }
  }
}

void Causality::mbarrier_async_arrive(ThreadKey lane0, std::uint32_t lanes, const Location& object, std::uint32_t phase,
                                      Stamp now) {
  if (rules_.only_marked) return;
  if (!defer(lane0, object,
             {.stamp = now, .lanes = lanes, .phase = phase, .what = Deferred::What::mbarrier_async_arrive}))
    apply_mbarrier_async_arrive(lane0, lanes, object, phase, now);
}

void Causality::apply_mbarrier_async_arrive(ThreadKey lane0, std::uint32_t lanes, const Location& object,
                                            std::uint32_t phase, Stamp now) {
  // Ordered after the copies that each thread has issued, and after nothing else of the thread (8.9.1.1).
  const ChainPointer& chain = mbarrier_phase(lane0, object, phase).chain;
  std::vector<ClockEntry> entries;
  for (std::uint32_t rest = lanes; rest; rest &= rest - 1)
    entries.push_back({lane0.block_bits(), async_group(lane0.thread() + std::uint32_t(std::countr_zero(rest))), now});
  contribute(*chain, lane0, Scope::cta, only_known(Clock::with(nullptr, entries)));
}

bool remembered::MbarrierState::Phase::seen_by(const Seen& who) const {
  return std::any_of(seen.begin(), seen.end(), [&](const Seen& of) {
    return of.lane0 == who.lane0 && !(who.lanes & ~of.lanes) && of.scope == who.scope &&
           of.contributions == who.contributions;
  });
}

void remembered::MbarrierState::Phase::add_seen(const Seen& who) {
  const auto gone = [&](Seen& of) { return of.lane0 == who.lane0 && !(of.lanes &= ~who.lanes); };
  seen.erase(std::remove_if(seen.begin(), seen.end(), gone), seen.end());
  constexpr std::size_t most = 64; // of warps that wait; others look again
  if (seen.size() < most) seen.push_back(who);
}

void Causality::mbarrier_test(ThreadKey lane0, std::uint32_t lanes, const Location& object, std::uint32_t phase,
                              Ordering ordering, Scope scope, bool unused) {
  if (!defer(lane0, object,
             {.lanes = lanes,
              .phase = phase,
              .what = Deferred::What::mbarrier_test,
              .ordering = ordering,
              .scope = scope,
              .yes = unused}))
    apply_mbarrier_test(lane0, lanes, object, phase, ordering, scope, unused);
}

void Causality::apply_mbarrier_test(ThreadKey lane0, std::uint32_t lanes, const Location& object, std::uint32_t phase,
                                    Ordering ordering, Scope scope, bool unused) {
  auto found = mbarriers_.find(object);
  if (found == mbarriers_.end()) return;
  if (unused_tests_) {
    const ClockEntry complete{object.block - 1, phase_group(object.address),
                              (Stamp(found->second.lives) << 32) + phase + 1};
    // It reads shared memory: whatever comes before such reads, which leave nothing to take back, comes before it.
    std::uint32_t go_on = 0;
    block(lane0).own.each(lane0, lanes, [&](std::uint32_t alike, const ClockPointer&) {
      const ThreadKey key(lane0.operation(), lane0.block(), lane0.thread() + std::uint32_t(std::countr_zero(alike)));
      const auto seen = [&](std::uint32_t kind) {
        return seen_entry(key, {complete.block, complete.group | kind, complete.stamp});
      };
      if (!unused || seen(0) || seen(only_reads_bulk) || seen(only_shared_bulk) ||
          seen(only_shared_bulk | only_reads_bulk))
        go_on |= alike;
    });
    lanes = go_on;
    if (!lanes) return;
    acquire(lane0, lanes, Clock::with(nullptr, {complete}));
  }
  auto& phases = found->second.phases;
  const auto acquire_reads = [&](MbarrierState::Remote& of) {
    const ClockPointer& released = of.released.clock();
    if (of.of != released) of.of = released, of.reads = Clock::of_reads(released);
    acquire(lane0, lanes, of.reads);
  };
  for (auto at = phases.begin(); at != phases.end() && at->first <= phase; ++at) {
    // Earlier phases are complete too. Long gone ones were seen by whoever arrived since.
    if (phase - at->first > 2) {
      at->second.seen.clear();
      continue;
    }
    auto& [chain, remote, remote_wide, seen] = at->second;
    if (is_acquire(ordering)) {
      const MbarrierState::Phase::Seen now_seen{lane0.bits, lanes, scope, chain->contributions.size()};
      if (at->second.seen_by(now_seen)) continue;
      at->second.add_seen(now_seen);
      acquire(lane0, lanes, acquirable(lane0, *chain, chain->contributions.size(), scope));
      acquire_reads(remote);
      if (scope <= Scope::cta) acquire_reads(remote_wide);
    } else {
      for (std::uint32_t rest = lanes; rest; rest &= rest - 1) {
        const std::uint32_t lane = std::uint32_t(std::countr_zero(rest));
        await(ThreadKey(lane0.operation(), lane0.block(), lane0.thread() + lane),
              {object, chain, chain->contributions.size(), scope});
      }
    }
  }
  constexpr std::size_t most_phases = 16;
  while (phases.size() > most_phases) phases.erase(phases.begin());
}

} // namespace deadheat::order
