// What runs beside the threads: asynchronous copies and matrix multiplications, fences between proxies.
#include <algorithm>
#include <bit>

#include "analyzer/order/causality.h"

namespace deadheat::order {

// ---- asynchronous copies

// Calls each(LaneCopies&) for the lanes, as many together as have done the same so far.
template <typename Each>
void Causality::each_alike(std::vector<LaneCopies>& all, std::uint32_t lanes, Each&& each) {
  const std::size_t known = all.size();
  for (std::size_t i = 0; i < known; ++i) {
    const std::uint32_t others = all[i].lanes & ~lanes;
    if (others == all[i].lanes) continue;
    lanes &= ~all[i].lanes;
    if (others) { // they come apart
      all.push_back(all[i]);
      all.back().lanes = others;
      all[i].lanes &= ~others;
    }
    each(all[i]);
  }
  if (lanes) each(all.emplace_back(LaneCopies{lanes, 0, {}}));
}

void Causality::forget_pending() {
  for (auto& [operation, of] : launches_) {
    for (auto& [index, block] : of.blocks) block.bulk_pending = nullptr;
  }
  bulk_pending_ = 0;
}

void Causality::forget_groups(std::vector<AsyncGroup> kept) {
  const auto keep = [&](AsyncGroup group) { kept.push_back(group); }; // whose completion is still to come
  const auto keep_both = [&](const BulkGroups& groups) { keep(groups.read), keep(groups.write); };
  for (const auto& [bits, thread] : threads_) {
    if (!thread.copies) continue;
    const Copies& state = *thread.copies;
    keep(state.open_matrix);
    keep_both(state.open_bulk);
    for (const BulkGroups& groups : state.committed_bulk) keep_both(groups);
  }
  for (const auto& [bits, all] : lane_copies_) {
    for (const LaneCopies& alike : all) {
      keep(alike.open);
      kept.insert(kept.end(), alike.committed.begin(), alike.committed.end());
    }
  }
  for (const auto& [operation, of] : launches_) {
    for (const auto& [index, block] : of.blocks) {
      if (!block.bulk_pending) continue;
      for (const Block::PendingBulk& pending : *block.bulk_pending) keep_both(pending.groups);
    }
  }
  async_groups_.keep(kept);
  many_groups_ = std::max<std::size_t>(1 << 16, 2 * async_groups_.size());
}

std::array<AsyncGroup, 32> Causality::async_issue(ThreadKey lane0, std::uint32_t lanes) {
  std::array<AsyncGroup, 32> groups{};
  AsyncGroup fresh = 0;
  each_alike(lane_copies_[lane0.bits], lanes, [&](LaneCopies& alike) {
    if (!alike.open) alike.open = fresh = fresh ? fresh : async_groups_.make(false);
    for (std::uint32_t rest = alike.lanes; rest; rest &= rest - 1) {
      groups[unsigned(std::countr_zero(rest))] = alike.open;
    }
  });
  return groups;
}

void Causality::async_commit(ThreadKey lane0, std::uint32_t lanes) {
  each_alike(lane_copies_[lane0.bits], lanes, [](LaneCopies& alike) {
    alike.committed.push_back(alike.open); // 0: an empty group; it counts too
    alike.open = 0;
  });
}

void Causality::async_wait(ThreadKey lane0, std::uint32_t lanes, std::uint32_t pending, bool all, Stamp now) {
  if (all) {
    async_commit(lane0, lanes);
    pending = 0;
  }
  std::vector<LaneCopies>& warp = lane_copies_[lane0.bits];
  each_alike(warp, lanes, [&](LaneCopies& alike) {
    std::vector<AsyncGroup>& of = alike.committed;
    const auto done = of.end() - std::ptrdiff_t(std::min<std::size_t>(of.size(), pending));
    for (auto at = of.begin(); at != done; ++at) {
      if (AsyncState* const group = async_groups_.find(*at)) group->completed_by(alike.lanes, now);
    }
    of.erase(of.begin(), done);
  });
  // Lanes that came apart are alike again when they have waited for the rest.
  for (std::size_t i = 0; i < warp.size(); ++i) {
    for (std::size_t j = warp.size() - 1; j > i; --j) {
      if (warp[i].open != warp[j].open || warp[i].committed != warp[j].committed) continue;
      warp[i].lanes |= warp[j].lanes;
      warp.erase(warp.begin() + std::ptrdiff_t(j));
    }
  }
}

// Rings: the thread has seen that a slot is free, arrives with the bytes that are to come, and issues the copy. Whoever
// waits for that phase knows what the thread knew.
Stamp Causality::last_told(ThreadKey key) {
  const Block& of = block(key);
  const ClockPointer& own = own_of(&of, key);
  const Stamp warp = of.warps[key.warp()];
  if (of.arrived.size() > key.warp()) {
    for (const Arrived& last : of.arrived[key.warp()]) {
      const bool nothing_since = own == last.own && of.common == last.common;
      if (last.lanes & lane_bit(key) && nothing_since && last.stamp >= std::max(of.barrier, warp)) return last.stamp;
    }
  }
  return !own && of.common == of.common_then && warp <= of.barrier ? of.barrier : 0;
}

bool Causality::complete_alike(AsyncGroup group, AsyncGroup earlier, bool of_same_thread) const {
  const AsyncState &now = group_of(group), &before = group_of(earlier);
  if (now.bulk && !now.completion.group) return true; // only its thread can wait for it, and tells what it knows
  if (!earlier || now.bulk != before.bulk) return false;
  if (!now.bulk) return of_same_thread;
  return now.completion.block == before.completion.block && now.completion.group == before.completion.group;
}

Stamp Causality::told(AsyncGroup group) const {
  const AsyncState& of = group_of(group);
  if (of.bulk && !of.told && of.completion.block) // its thread's block is that of the mbarrier, or leaves nothing
    find_block(ThreadKey::first_of(of.completion.block));
  return of.told;
}

Causality::BulkGroups Causality::bulk_issue(ThreadKey key, const Location* object) {
  auto make = [&] { return async_groups_.make(true); };
  if (object) {
    const BulkGroups groups{make(), make()}; // one behind the other
    Block& of = known_or_new_block(key);
    auto& pending = of.bulk_pending;
    if (!pending) pending = std::make_unique<std::deque<Block::PendingBulk>>();
    pending->push_back({key.thread(), *object, groups});
    ++bulk_pending_;
    for (const AsyncGroup group : {groups.read, groups.write})
      async_groups_.find(group)->completion = {object->block - 1, mbarrier_group(object->address), 0};
    const bool own = object->block - 1 == key.block_bits();
    if (!own || !defer(key, of,
                       {.lanes = lane_bit(key),
                        .phase = groups.read,
                        .what = Deferred::What::bulk_told,
                        .warp = std::uint8_t(key.warp())}))
      apply_bulk_told(key, groups);
    return groups;
  }
  // Copies of a group lie apart in time, but all complete when it is waited for.
  BulkGroups& open = copies(key).open_bulk;
  if (!open.read) {
    const BulkGroups groups{make(), make()};
    open = groups;
  }
  return open;
}

void Causality::apply_bulk_told(ThreadKey key, const BulkGroups& groups) {
  const Stamp told = last_told(key);
  for (const AsyncGroup group : {groups.read, groups.write})
    if (AsyncState* const copy = async_groups_.find(group)) copy->told = told;
}

void Causality::bulk_complete(ThreadKey key, const Location& object, std::uint32_t phase, Stamp now) {
  if (!object.block) return;
  const ClockEntry entry{object.block - 1, mbarrier_group(object.address), now};
  if (const auto& pending = known_or_new_block(key).bulk_pending) {
    const auto found = std::find_if(pending->begin(), pending->end(), [&](const Block::PendingBulk& copy) {
      return copy.thread == key.thread() && copy.object == object;
    });
    if (found != pending->end()) {
      for (AsyncGroup group : {found->groups.read, found->groups.write}) {
        if (AsyncState* const at = async_groups_.find(group)) at->completion = entry;
      }
      pending->erase(found);
      --bulk_pending_;
    }
  }
  if (rules_.only_marked) return;
  if (!defer(lane0_of(key), object, {.stamp = now, .phase = phase, .what = Deferred::What::bulk_complete}))
    apply_bulk_complete(object, phase, now);
}

void Causality::apply_bulk_complete(const Location& object, std::uint32_t phase, Stamp now) {
  const ClockEntry entry{object.block - 1, mbarrier_group(object.address), now};
  // "complete-tx has release semantics at cluster scope": of the copy's own accesses, whoever issued it. It is
  // performed where the object is.
  const ThreadKey there = ThreadKey::first_of(object.block - 1);
  contribute(*mbarrier_phase(there, object, phase).chain, there, Scope::cluster,
             only_known(Clock::with(nullptr, {entry})));
}

void Causality::bulk_commit(ThreadKey key) {
  Copies& state = copies(key);
  state.committed_bulk.push_back(state.open_bulk); // 0: an empty group; it counts too
  state.open_bulk = {};
}

void Causality::bulk_wait(ThreadKey key, std::uint32_t pending, bool reads_only, Stamp now) {
  Copies& state = copies(key);
  const std::size_t done = state.committed_bulk.size() - std::min<std::size_t>(state.committed_bulk.size(), pending);
  auto complete = [&](AsyncGroup group) {
    AsyncState* const at = async_groups_.find(group);
    if (at && !at->complete) at->completed_by(~0u, now);
  };
  for (; state.bulk_reads_done < done; ++state.bulk_reads_done)
    complete(state.committed_bulk[state.bulk_reads_done].read);
  if (reads_only) return;
  for (std::size_t i = 0; i < done; ++i, --state.bulk_reads_done) {
    complete(state.committed_bulk.front().write);
    state.committed_bulk.pop_front();
  }
}

AsyncGroup Causality::matrix_issue(ThreadKey key) {
  Copies& state = copies(key);
  if (!state.open_matrix) {
    state.open_matrix = async_groups_.make(true);
    async_groups_.find(state.open_matrix)->completion = {key.block_bits(), matrix_group(key.thread()),
                                                         state.matrix_groups + 1};
  }
  return state.open_matrix;
}

void Causality::matrix_commit(ThreadKey key) {
  Copies& state = copies(key);
  ++state.matrix_groups;
  state.open_matrix = 0;
}

void Causality::matrix_wait(ThreadKey key, std::uint32_t pending, bool uncounted) {
  if (rules_.only_marked) return;
  constexpr Stamp all = Stamp(1) << 32;
  const Thread* state = find_thread(key); // of what it issued nothing is left for later
  const std::uint32_t committed = state && state->copies ? state->copies->matrix_groups : 0;
  if (committed <= pending && !uncounted) return;
  const Stamp groups = uncounted ? all : committed - pending;
  if (!defer(key, known_or_new_block(key),
             {.object = groups,
              .lanes = lane_bit(key),
              .what = Deferred::What::matrix_wait,
              .warp = std::uint8_t(key.warp())}))
    apply_matrix_wait(key, groups);
}

void Causality::apply_matrix_wait(ThreadKey key, Stamp groups) {
  acquire(key, Clock::with(nullptr, {{key.block_bits(), matrix_group(key.thread()), groups}}));
}

// ---- proxies

void Causality::proxy_fence(ThreadKey lane0, std::uint32_t lanes, bool shared, bool global, Stamp now) {
  if (rules_.only_marked) return;
  Block& of = known_or_new_block(lane0);
  synced(lane0, now);
  if (!defer(lane0, of,
             {.stamp = now,
              .lanes = lanes,
              .what = Deferred::What::proxy_fence,
              .warp = std::uint8_t(lane0.warp()),
              .yes = shared,
              .also = global}))
    apply_proxy_fence(lane0, of, lanes, shared, global, now);
}

void Causality::apply_proxy_fence(ThreadKey lane0, Block& of, std::uint32_t lanes, bool shared, bool global,
                                  Stamp now) {
  const std::uint32_t warp = lane0.warp();
  const std::uint64_t bits = lane0.block_bits();
  for (const std::uint32_t space : {proxied_shared, proxied_global}) {
    if (!(space == proxied_shared ? shared : global)) continue;
    Proxied& last = last_proxied_[space == proxied_global]; // many threads know the same
    const auto visible = [&](const ClockPointer& known) {
      if (known && last.of != known) {
        std::vector<ClockEntry> entries = known->proxied(space);
        last = {known, Clock::with(nullptr, entries)};
      }
      return known ? last.visible : nullptr;
    };
    const ClockPointer done = Clock::with(
        nullptr, {{bits, space + whole_block, of.barrier}, {bits, space + warp_group(warp), of.warps[warp]}});
    of.own.add(warp, lanes,
               [&](const ClockPointer& own) { return joined(joined(own, visible(joined(of.common, own))), done); });
    of.own.add_to_each(warp, lanes, space + thread_group(0), now);
  }
}

// 9.7.13.4: "a .release proxy fence can form a release sequence that synchronizes with an acquire sequence that
// contains a .acquire proxy fence". So each is a fence of its scope, of async::generic one of shared memory alone
// (.sync_restrict); here it meets any other fence, too, since no word says that it does not. What the two establish is
// the order of "a prior memory access performed via the from-proxykind" and "a subsequent memory access performed via
// the to-proxykind": the prior ones are those that the release form releases, which makes them visible. The acquire
// form hands on what was released, and makes nothing visible itself: like any acquire it orders none of the accesses
// before it. The range of tensormap::generic's acquire form is of accesses through the tensormap proxy, of which there
// are no records.
void Causality::one_way_fence(ThreadKey key, Proxy to, Ordering ordering, Scope scope, Stamp now) {
  const bool async = to == Proxy::async;
  if (async && is_release(ordering)) proxy_fence(key, true, false, now);
  fence(key, ordering, scope, now, async ? Restriction::shared : Restriction::none);
}

} // namespace deadheat::order
