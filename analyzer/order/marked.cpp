// The order of marked accesses alone (Rules::only_marked), where every strong access releases and acquires.
//
// A thread's own clock says what it marked; nothing else that it did is told. So clocks have entries of the threads
// that marked something, and change with what they mark: between two marks, thousands of atomic operations hand on the
// same few objects. Every release reaches everybody and brings all that its thread knows, so that in place of a chain
// of contributions a write has one clock: of a read-modify-write, with what came with the write that it read.
//
// Fences add nothing to that, nor does what Fence-SC order says of them (fence_order.cpp): the write and the read by
// which the order of two fences is told synchronize themselves. Nor does a read whose value nobody looks at: what it
// would have seen in any case (unused_reads.cpp) came with a read that somebody looked at, of which its thread knows.
// What copies do beside their threads is never marked.
//
// Where thousands of lanes have told something alone, and all add to counters and look at what they had, every clock
// differs from every other one in every lane. So behind the first many read-modify-writes what goes through one of them
// says of lanes of a warp what the warp did: knowledge passes that might not have passed.
//
// A thread that heard of another operation knows that it began, and so what is complete before it
// (Causality::begun_behind); where operations may run beside others each one's clocks say so from the start
// (Causality::inherited).
#include "analyzer/order/causality.h"

namespace deadheat::order {

namespace {

// As if the lanes of a warp that have an entry each had told each other what they knew.
ClockPointer of_warps(const ClockPointer& clock) {
  std::vector<ClockEntry> more;
  for (const ClockEntry& entry : clock->proxied(0)) {
    if (entry.group >= thread_group(0) && entry.group < thread_group(1024))
      more.push_back({entry.block, warp_group((entry.group - thread_group(0)) / 32), entry.stamp});
  }
  return more.empty() ? clock : Clock::with(clock, more);
}

} // namespace

void Causality::mark(ThreadKey lane0, std::uint32_t lanes, Stamp now) {
  marked_ = true;
  block(lane0).own.add_to_each(lane0.warp(), lanes, thread_group(0), now);
}

void Causality::hear(ThreadKey key, const ClockPointer& told) {
  Block& of = block(key);
  if (joined(of.common, told) == of.common) return;
  bool news = false;
  of.own.add(key.warp(), lane_bit(key), [&](const ClockPointer& own) {
    ClockPointer both = joined(own, told);
    news |= both != own;
    return both;
  });
  if (news) learn(key, told);
}

void Causality::pass_on(const StrongAccess& access, Stamp now) {
  static const LocationState nothing;
  const auto found = may_be_known(access.location) ? locations_.find(access.location) : locations_.end();
  const bool fresh = found == locations_.end(), hears = access.reads && !access.reduction && !access.unused;
  ClockPointer seen, told;
  if (access.reads) {
    if (const Write* write = observed_by(access, fresh ? nothing : found->second)) seen = write->told;
    if (seen && hears) hear(access.thread, seen);
  }
  if (!access.writes) return;
  const ClockPointer own =
      find_block(access.thread) ? known(access.thread) : inherited(access.thread.operation(), false);
  told = hears ? own : joined(seen, own); // who hears knows all of it
  if (access.reads && marked_ && ++exchanges_ > most_of_lanes && told && told != seen) {
    told = of_warps(told);
    if (hears && told != own) block(access.thread).own.set(access.thread.warp(), lane_bit(access.thread), told);
  }
  if (fresh && !told) return;
  LocationState& at = fresh ? locations_[access.location] : found->second;
  if (fresh) {
    location_bits_.set(location_bit(access.location));
    if (access.location.block) block(access.thread).locations.push_back(access.location);
  }
  std::vector<Write>& writes = at.writes;
  if (!writes.empty() && !writes.back().told && writes.back().bytes <= access.bytes) writes.pop_back();
  make_room(writes);
  writes.push_back({access.thread, access.scope, access.bytes, access.form, access.reads, access.value_written,
                    access.order_first, access.order_last, now, nullptr, 0, 0, std::move(told)});
}

void Causality::forget_told(Stamp last) {
  missing(last);
  locations_.clear();
  location_bits_.reset();
  mbarriers_.clear();
  learned_.clear();
  inherited_.clear();
  last_joined_ = {};
  for (auto& [operation, of] : launches_) {
    for (auto& [number, phase] : of.cluster_phases) phase.arrived = {};
    for (auto& [index, block] : of.blocks) {
      block.own = {};
      block.common = block.common_then = nullptr;
      block.last_known = {};
      block.arrived.clear();
      for (auto& [number, phase] : block.phases) phase.arrived = {}; // some wait there still
      block.locations.clear();
    }
  }
}

} // namespace deadheat::order
