#include "analyzer/order/causality.h"

#include <algorithm>
#include <bit>

namespace deadheat::order {

namespace {

constexpr std::uint64_t others = ~std::uint64_t(0); // block_bits of a block that is not the thread's

} // namespace

// ---- where things are ----------------------------------------------------------------------------------------------

const Causality::Launch* Causality::launch(OperationIndex operation) const {
  if (recent_launch_.launch && recent_launch_.operation == operation) return recent_launch_.launch;
  const auto found = launches_.find(operation);
  if (found == launches_.end()) return nullptr;
  recent_launch_ = {operation, &found->second}; // node-based: it stays until it ends
  return recent_launch_.launch;
}

Causality::Block* Causality::known_block(ThreadKey thread) const {
  RecentBlock& recent = recent_blocks_[thread.block_bits() % recent_blocks_.size()];
  if (recent.bits == thread.block_bits()) return recent.block;
  recent = {thread.block_bits(), nullptr};
  auto of = launches_.find(thread.operation());
  if (of == launches_.end()) return nullptr;
  auto found = of->second.blocks.find(thread.block());
  if (found == of->second.blocks.end()) return nullptr;
  recent.block = const_cast<Block*>(&found->second); // node-based: it stays until its launch ends
  return recent.block;
}

Causality::Block& Causality::known_or_new_block(ThreadKey thread) {
  if (Block* known = known_block(thread); known && !known->warps.empty()) return *known;
  Launch& of = launches_[thread.operation()];
  Block& block = of.blocks[thread.block()];
  recent_blocks_[thread.block_bits() % recent_blocks_.size()] = {}; // it may say that there is none
  if (block.warps.empty()) {
    block.warps.resize(32);
    block.syncs.resize(32);
    block.common = inherited(thread.operation(), false);
    if (leaves_for_later_ && of.cluster.count() == 1 && leaves_for_later_(thread.block()))
      block.deferred = std::make_unique<Deferred>();
  }
  return block;
}

Causality::Block& Causality::block(ThreadKey thread) {
  Block& of = known_or_new_block(thread);
  if (of.deferred) apply_deferred(thread, of);
  return of;
}

// What was left for later is applied by questions, too, which see no difference.
const Causality::Block* Causality::find_block(ThreadKey thread) const {
  return find_block(thread, thread.block_bits());
}

const Causality::Block* Causality::settled(Block& of, ThreadKey thread, std::uint64_t other) const {
  if (!of.deferred->applying && !of.deferred->open && other != thread.block_bits()) return nullptr;
  const_cast<Causality*>(this)->apply_deferred(thread, of);
  return &of;
}

Causality::Thread& Causality::thread(ThreadKey key) {
  settle(key);
  return known_thread(key);
}

Causality::Thread& Causality::known_thread(ThreadKey key) {
  auto [at, inserted] = threads_.try_emplace(key.bits);
  if (inserted) known_or_new_block(key).threads_with_state.push_back(key.thread());
  return at->second;
}

Causality::Copies& Causality::copies(ThreadKey key) {
  Thread& of = known_thread(key); // its copies are no matter of what it knows
  if (!of.copies) of.copies = std::make_unique<Copies>();
  return *of.copies;
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
  auto positive = [](const Dim3& d) { return Dim3{std::max(d.x, 1u), std::max(d.y, 1u), std::max(d.z, 1u)}; };
  of.grid = positive(grid);
  of.block = positive(block);
  of.cluster = positive(cluster);
}

void Causality::forget_block(OperationIndex operation, std::uint32_t index, Block& block) {
  drop_deferred(block);
  for (std::uint32_t thread : block.threads_with_state) threads_.erase(ThreadKey(operation, index, thread).bits);
  for (const Location& location : block.locations) {
    locations_.erase(location);
    mbarriers_.erase(location);
  }
  for (std::uint32_t warp = 0; warp < 32 && !lane_copies_.empty(); ++warp) {
    lane_copies_.erase(ThreadKey(operation, index, warp * 32).bits);
  }
  // Copies that never completed: their groups are ordered as their operation is.
  if (block.bulk_pending) bulk_pending_ -= block.bulk_pending->size();
  block.bulk_pending = nullptr;
}

void Causality::launch_end(OperationIndex operation) {
  auto found = launches_.find(operation);
  if (found == launches_.end()) return;
  for (auto& [index, block] : found->second.blocks) forget_block(operation, index, block);
  launches_.erase(found);
  recent_launch_ = {};
  recent_blocks_.fill({});
  last_joined_ = {};
  last_proxied_ = {};
  if (launches_.empty()) forget_locations();
}

std::vector<std::uint32_t> Causality::thread_exit(OperationIndex operation, std::uint32_t index, std::uint32_t warp,
                                                  std::uint32_t mask) {
  Launch* of = launch(operation);
  if (!of || warp > 31) return {};
  const ThreadKey key(operation, index, 0);
  Block& at = known_or_new_block(key);
  at.exited += std::uint32_t(std::popcount(mask));
  at.exited_lanes.resize(32);
  at.exited_lanes[warp] |= mask;
  const std::uint64_t threads = of->block.count(), blocks = of->cluster.count();
  if (at.over || at.exited < threads) return {};
  at.over = true;
  if (blocks == 1) {
    forget_block(operation, index, at);
    at = Block{};
    at.over = true;
    return {index};
  }
  const std::uint32_t cluster = cluster_of(key);
  if (++of->exited[cluster] < blocks) return {};
  of->exited.erase(cluster);
  std::vector<std::uint32_t> over;
  for (std::uint32_t rank = 0; rank < blocks; ++rank) {
    const std::uint32_t peer = cluster_peer(index, rank, of->grid, of->cluster);
    Block& member = block(ThreadKey(operation, peer, 0));
    forget_block(operation, peer, member);
    member = Block{};
    member.over = true;
    over.push_back(peer);
  }
  of->cluster_phases.erase(of->cluster_phases.lower_bound({cluster, 0}),
                           of->cluster_phases.upper_bound({cluster, ~0u}));
  return over;
}

// ---- clocks of threads ---------------------------------------------------------------------------------------------

ClockPointer Causality::known(ThreadKey key) {
  Block& of = block(key);
  const ClockPointer& own = own_of(&of, key);
  if (!own) return of.common;
  Block::Known& last = of.last_known;
  if (last.common != of.common || last.own != own) last = {of.common, own, joined(of.common, own)};
  return last.both;
}

ReleasedPointer Causality::snapshot(ThreadKey key, Stamp now) {
  const Block& of = block(key);
  return make_counted<const Released>(known(key), key, of.barrier, of.warps[key.warp()], now);
}

void Causality::acquire(ThreadKey lane0, std::uint32_t lanes, const ClockPointer& clock) {
  if (!clock) return;
  Block& of = block(lane0);
  if (of.deferred && !clock->of_block(lane0.block_bits())) of.deferred->open = true;
  of.own.add(lane0.warp(), lanes, [&](const ClockPointer& own) { return joined(own, clock); });
}

// Many threads know the same, and learn the same.
ClockPointer Causality::joined(const ClockPointer& a, const ClockPointer& b) {
  if (!a || a == b) return b;
  if (!b) return a;
  Joined& last = last_joined_[(std::uintptr_t(a.get()) ^ std::uintptr_t(b.get()) * 3) / 16 % last_joined_.size()];
  if (last.a != a || last.b != b) last = {a, b, Clock::join(a, b)};
  return last.both;
}

void Causality::synced(ThreadKey key, Stamp now) { known_or_new_block(key).syncs[key.warp()] = now; }

// ---- questions

bool Causality::ordered(ThreadKey first, Stamp stamp, AsyncGroup group, ThreadKey second, Restriction what,
                        bool read) const {
  if (stamp <= missing_) return true;
  Block* const known = known_block(second);
  if (known && known->deferred && !group && first.block_bits() == second.block_bits() &&
      (first == second || stamp <= known->newest_barrier))
    return true;
  const Block* of = for_questions(known, second, first.block_bits());
  const ClockPointer& common = common_of(of, second);
  const ClockPointer& own = own_of(of, second);
  const auto seen_by_thread = [&](auto&& seen) { return own && seen(*own) >= stamp; };
  // What else than everything the access belongs to (clock.h).
  std::uint32_t kinds[3];
  std::size_t count = 0;
  if (what != Restriction::none) kinds[count++] = only_shared;
  if (read) kinds[count++] = only_reads;
  if (read && what != Restriction::none) kinds[count++] = only_shared_reads;
  if (group) {
    // A copy is ordered before what its thread does after it waited for the group, and before what sees the phase of an
    // mbarrier complete that its completion arrived at.
    const AsyncState& copies = group_of(group);
    // What was observed to be complete is as good as read: only_reads holds for what it wrote, too.
    const bool as_read = read || (copies.bulk && copies.completion.stamp);
    if (first.operation() != second.operation() && operations_ordered(first.operation(), second, as_read)) return true;
    if (copies.bulk) {
      ClockEntry completion = copies.completion;
      if (completion.stamp && seen_entry(second, completion)) return true;
      for (const std::uint32_t kind : {only_shared_bulk, only_reads_bulk, only_shared_bulk | only_reads_bulk}) {
        if (what == Restriction::none && (kind & only_shared_bulk)) continue;
        if (completion.stamp && seen_entry(second, {completion.block, completion.group | kind, completion.stamp}))
          return true;
      }
    } else {
      if (common && common->seen_async(first) >= stamp) return true;
      if (seen_by_thread([&](const Clock& clock) { return clock.seen_async(first); })) return true;
      for (std::size_t i = 0; i < count; ++i) {
        if (seen_entry(second, {first.block_bits(), kinds[i] + async_group(first.thread()), stamp})) return true;
      }
    }
    stamp = copies.complete_of(first.thread() & 31);
    if (!stamp) return false;
  }
  if (first == second) return true;
  if (first.operation() != second.operation()) {
    if (operations_ordered(first.operation(), second, read)) return true;
  } else if (first.block_bits() == second.block_bits()) {
    if (of && stamp <= of->barrier) return true;
    if (of && !of->warps.empty() && first.warp() == second.warp() && stamp <= of->warps[second.warp()]) return true;
  }
  if (common && common->seen(first) >= stamp) return true;
  if (seen_by_thread([&](const Clock& clock) { return clock.seen(first); })) return true;
  for (std::size_t i = 0; i < count; ++i) {
    if (common && common->seen_only(first, kinds[i]) >= stamp) return true;
    if (seen_by_thread([&](const Clock& clock) { return clock.seen_only(first, kinds[i]); })) return true;
  }
  return what == Restriction::mbarrier_init &&
         seen_entry(second, {first.block_bits(), inits_group(first.thread()), stamp});
}

bool Causality::ordered_across_proxies(ThreadKey first, Stamp stamp, AsyncGroup group, ThreadKey second,
                                       bool shared) const {
  if (stamp <= missing_) return true;
  if (group && group_of(group).bulk) // its completion has the fence
    return ordered(first, stamp, group, second, shared ? Restriction::shared : Restriction::none);
  // A launch begins, or has waited, with the memory of those before it visible to all proxies.
  if (first.operation() != second.operation() && operations_ordered(first.operation(), second)) return true;
  const std::uint32_t space = shared ? proxied_shared : proxied_global;
  if (group) { // of cp.async: whose completion came before the fence
    const std::uint32_t copies = space + async_group(first.thread());
    if (seen_entry(second, {first.block_bits(), copies, stamp})) return true;
    stamp = group_of(group).complete_of(first.thread() & 31);
    if (!stamp) return false;
  }
  for (const Clock* clock : clocks_of(second, first.block_bits()))
    if (clock && clock->seen_proxied(first, space) >= stamp) return true;
  return false;
}

bool Causality::warp_ordered(ThreadKey first, Stamp stamp, ThreadKey second) const {
  if (stamp <= missing_) return true;
  Block* const known = known_block(second);
  if (known && first.block_bits() == second.block_bits() && stamp <= known->newest_barrier) return true;
  const Block* of = for_questions(known, second, first.block_bits());
  const ClockPointer& common = common_of(of, second);
  if (first.operation() != second.operation()) {
    if (operations_.ordered(first.operation(), second.operation()) ||
        (common && operations_.ordered_by_wait(first.operation(), second.operation()) &&
         common->entry(ThreadKey(second.operation(), ~0u, 0).block_bits(), dependency_group)))
      return true;
  } else if (of && first.block_bits() == second.block_bits()) {
    if (!of->warps.empty() && first.warp() == second.warp() && stamp <= of->warps[second.warp()]) return true;
  }
  return common && common->seen_warp(first) >= stamp;
}

bool Causality::warp_ordered_for(ThreadKey first, Stamp stamp, ThreadKey second) const {
  if (warp_ordered(first, stamp, second)) return true;
  const ClockPointer& own = own_of(find_block(second, first.block_bits()), second);
  return own && own->seen_warp(first) >= stamp;
}

bool Causality::warp_ordered_across_proxies(ThreadKey first, Stamp stamp, ThreadKey second, bool shared) const {
  if (stamp <= missing_) return true;
  for (const Clock* clock : clocks_of(second, first.block_bits()))
    if (clock && clock->seen_warp(first, shared ? proxied_shared : proxied_global) >= stamp) return true;
  return false;
}

bool Causality::block_knows_visible(ThreadKey thread, Stamp stamp) const {
  if (stamp <= missing_) return true;
  const Block* of = find_block(thread);
  return of && of->common && of->common->seen_warp(thread, proxied_shared) >= stamp;
}

bool Causality::barrier_is_visible(ThreadKey thread) const {
  const Stamp barrier = last_barrier(thread);
  for (const Clock* clock : clocks_of(thread, thread.block_bits()))
    if (clock && clock->entry(thread.block_bits(), proxied_shared + whole_block) >= barrier) return true;
  return barrier <= missing_;
}

bool Causality::block_ordered(OperationIndex operation, std::uint32_t index, Stamp stamp, ThreadKey second) const {
  if (stamp <= missing_) return true;
  ThreadKey first(operation, index, 0);
  Block* const known = known_block(second);
  if (operation != second.operation()) {
    if (operations_ordered(operation, second)) return true;
  } else if (known && first.block_bits() == second.block_bits()) {
    return stamp <= known->newest_barrier;
  }
  const ClockPointer& common = common_of(for_questions(known, second, first.block_bits()), second);
  return common && common->seen_block(first) >= stamp;
}

bool Causality::operation_ordered(OperationIndex operation, Stamp stamp, ThreadKey second) const {
  if (stamp <= missing_) return true;
  if (operation != second.operation()) return operations_ordered(operation, second);
  Block* const known = known_block(second);
  if (!known || stamp > known->newest_barrier) return false;
  const Launch* of = launch(operation);
  if (!of) return false;
  if (of->grid.count() == 1) return true;
  const Block* own = for_questions(known, second, others);
  return own && own->common && own->common->blocks_seen(operation, stamp, second.block()) + 1 == of->grid.count();
}

bool Causality::knows_no_other_block(ThreadKey thread) const {
  if (missing_) return false;
  const Block* block = find_block(thread, others);
  if (block && (block->common || !block->own.never() || !block->threads_with_state.empty()))
    return false; // none: it has not synchronized
  const Launch* of = launch(thread.operation());
  return of && of->grid.count() > 1;
}

Stamp Causality::last_sync(ThreadKey thread) const {
  const Block* of = known_block(thread);
  return of && !of->syncs.empty() ? std::max({missing_, of->newest_barrier, of->syncs[thread.warp()]}) : missing_;
}

bool Causality::knows(ThreadKey thread, std::uint32_t index) const {
  const std::uint64_t bits = ThreadKey(thread.operation(), index, 0).block_bits();
  const Block* of = find_block(thread, bits);
  if (of && of->common && of->common->knows(bits)) return true;
  const ClockPointer& own = own_of(of, thread);
  return own && own->knows(bits);
}

bool Causality::exited_before_barrier(ThreadKey thread, Stamp since) const {
  const Block* of = find_block(thread);
  return of && of->barrier_of_rest > since && (of->exited_lanes[thread.warp()] >> (thread.thread() & 31) & 1);
}

std::uint32_t Causality::barriers_passed(ThreadKey thread) const {
  const Block* of = known_block(thread);
  return of ? of->barriers : 0;
}

} // namespace deadheat::order
