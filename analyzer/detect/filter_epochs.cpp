#include "analyzer/detect/filter_epochs.h"

#include <algorithm>

#include "deadheat/expected.h"

namespace deadheat::detect {

using order::ThreadKey;

namespace {

ThreadKey key_from(std::uint64_t bits) {
  ThreadKey key;
  key.bits = bits;
  return key;
}
ThreadKey lane_of(ThreadKey lane0, unsigned lane) { return key_from(lane0.bits + lane); }
// Of a pattern that is no level.
bool is_one_lane(std::uint8_t pattern) { return pattern < first_level_pattern && pattern >> 5 == 5; }
std::uint32_t lanes_of(std::uint8_t pattern) {
  const unsigned count = group_units >> (pattern >> 5);
  return std::rotl(std::uint32_t((1ull << count) - 1), pattern & 31);
}

} // namespace

Epochs::Actor& Epochs::actor(ThreadKey lane0, order::Stamp now) {
  Actor*& recent = recent_[(lane0.bits >> 5 ^ lane0.bits >> 10) % recent_.size()];
  if (!recent || recent->lane0 != lane0) {
    recent = &actors_[lane0.operation()][lane0.bits]; // node-based: it stays
    recent->lane0 = lane0;
  }
  if (recent->as_of != asked_) {
    const order::Stamp synchronized = causality_.last_sync(lane0);
    if (!recent->segment || segments_[recent->segment].stamp <= synchronized) {
      recent->segment = SegmentId(segments_.size());
      const bool from_now = !causality_.last_barrier(lane0) && is_over(lane0);
      recent->stamp = from_now ? now : std::min(now, synchronized + 1);
      segments_.push_back({lane0.bits, recent->stamp, 0});
    }
    // What acts in the moment in which it synchronizes does so before that, and what follows is another segment.
    recent->as_of = recent->stamp > synchronized ? asked_ : 0;
  }
  recent->apart = false;
  recent->ordered_to = 0;
  recent->unordered_from = ~order::Stamp(0);
  return *recent;
}

Epochs::Actor Epochs::copy(ThreadKey lane0, std::uint32_t lanes, order::AsyncGroup group, bool async_proxy, bool shared,
                           order::Stamp now) {
  Actor actor;
  actor.lane0 = lane0;
  actor.asynchronous = true;
  actor.async_proxy = async_proxy;
  actor.shared = shared;
  actor.single = std::has_single_bit(lanes);
  actor.segment = SegmentId(segments_.size());
  actor.stamp = now;
  segments_.push_back({lane0.bits, now, group});
  return actor;
}

void Epochs::stands_for(SegmentId id, Actor& actor, bool write, bool own) {
  Actor::StoodFor& last = actor.stood_for[write];
  if (!id || id == actor.segment || (id == last.segment && own == last.own)) return;
  last = {id, own};
  if (before_operation(id, actor)) return;
  const Segment& at = segments_[id];
  Segment& copy = segments_[actor.segment];
  const ThreadKey from = key_from(at.key);
  copy.over_generic |= at.over_generic;
  // What a block knows is known to all who can touch its shared memory; that it is visible to copies, perhaps not.
  if (actor.shared && !at.group && from.block_bits() == actor.lane0.block_bits() &&
      at.stamp <= causality_.last_barrier(actor.lane0) && causality_.alone(actor.lane0)) {
    copy.over_generic |= write && actor.async_proxy && !causality_.block_knows_visible(from, at.stamp);
    return;
  }
  bool writes = at.over_writes, reads = at.over_reads;
  if (!causality_.complete_alike(copy.group, at.group, own && from == actor.lane0)) (write ? writes : reads) = true;
  copy.over_writes |= writes;
  copy.over_reads |= reads;
  copy.since_told |= (writes || reads) && at.stamp > causality_.told(copy.group);
}

bool Epochs::all_ordered(const Segment& copy, ThreadKey first, ThreadKey second, bool writes) const {
  if (!copy.over_writes && !(writes && copy.over_reads)) return true;
  return causality_.knows_issue(first, copy.stamp, copy.group, second, copy.since_told);
}

bool Epochs::ordered_slow(SegmentId id, std::uint8_t who, Actor& actor, unsigned lane, bool writes) {
  const Segment at = segments_[id];
  const ThreadKey from = key_from(at.key), me = lane_of(actor.lane0, lane);
  switch (Level(who >> 5)) {
    case one_lane:
    case whole_warp: {
      if (at.group) {
        const ThreadKey one = lane_of(from, who & 31); // an epoch of copies of several lanes has another level
        return causality_.ordered(one, at.stamp, at.group, me) && all_ordered(at, one, me, writes);
      }
      // A lane's own past is ordered; so is that of all lanes when the segment is older than a barrier of the warp.
      if (causality_.warp_ordered(from, at.stamp, actor.lane0)) {
        remember(id, actor);
        return true;
      }
      if (who >> 5 == whole_warp) return false;
      return causality_.ordered(lane_of(from, who & 31), at.stamp, 0, me);
    }
    case whole_block: return causality_.block_ordered(from.operation(), from.block(), at.stamp, me);
    case whole_operation:
      if (from.operation() != me.operation()) return causality_.operation_ordered(from.operation(), at.stamp, me);
      if (at.stamp <= actor.ordered_to) return true; // alike for all lanes of a block
      if (at.stamp >= actor.unordered_from) return false;
      if (causality_.operation_ordered(from.operation(), at.stamp, me)) {
        actor.ordered_to = at.stamp;
        return true;
      }
      actor.unordered_from = at.stamp;
      return false;
    case complete_operation:
      return from.operation() != me.operation() && causality_.operation_ordered(from.operation(), at.stamp, me);
    case many: break;
  }
  return false;
}

bool Epochs::across_proxies(SegmentId id, std::uint8_t who, Actor& actor, unsigned lane, bool writes) {
  if (!id) return true;
  const Segment at = segments_[id];
  const ThreadKey from = key_from(at.key), me = lane_of(actor.lane0, lane);
  if (at.group) {
    const ThreadKey one = lane_of(from, who & 31);
    return causality_.ordered_across_proxies(one, at.stamp, at.group, me, actor.shared) &&
           all_ordered(at, one, me, writes) &&
           (!at.over_generic || causality_.barrier_is_visible(me) ||
            causality_.knows_issue(one, at.stamp, at.group, me, at.since_told));
  }
  if (who >> 5 != one_lane) { // several strong writes: they are over, and visible, when their operation is
    return from.operation() != me.operation() && causality_.operation_ordered(from.operation(), at.stamp, me);
  }
  return causality_.ordered_across_proxies(lane_of(from, who & 31), at.stamp, 0, me, actor.shared);
}

bool Epochs::ordered_group(SegmentId id, std::uint8_t pattern, Actor& actor, std::uint8_t own, bool writes) {
  if (!id || (id == actor.segment && pattern == own)) return true;
  const bool lanes = pattern < first_level_pattern, warp = lanes || pattern == level_pattern(whole_warp);
  for (SegmentId known : actor.ordered) {
    if (id == known && warp) return true;
  }
  if (!lanes) return ordered_slow(id, who_at(pattern, 0), actor, own & 31);
  const Segment at = segments_[id];
  const ThreadKey from = key_from(at.key);
  if (!at.group) {
    if (from == actor.lane0 && pattern == own) return true; // each lane its own
    if (causality_.warp_ordered(from, at.stamp, actor.lane0)) {
      remember(id, actor);
      return true;
    }
  } else if (!at.over_writes && !(writes && at.over_reads)) {
    const order::Stamp complete = causality_.completed(at.group, lanes_of(pattern));
    if (complete && causality_.warp_ordered(from, complete, actor.lane0)) return true;
  }
  // One question for all units whose answer is the same.
  const bool all_alike = actor.single || alike(id, actor), apart = from != actor.lane0;
  if (all_alike && apart && !at.group &&
      causality_.warp_ordered_for(from, at.stamp, lane_of(actor.lane0, who_at(own, 0)))) {
    remember(id, actor);
    return true;
  }
  ThreadKey last_one, last_me;
  for (unsigned unit = 0; unit < group_units; ++unit) {
    const ThreadKey one = lane_of(from, who_at(pattern, unit));
    const ThreadKey me = lane_of(actor.lane0, who_at(own, unit));
    if (unit && one == last_one && (me == last_me || (all_alike && apart))) continue;
    last_one = one, last_me = me;
    if (!causality_.ordered(one, at.stamp, at.group, me) || !all_ordered(at, one, me, writes)) return false;
  }
  if (all_alike && apart && is_one_lane(pattern) && at.group && !at.over_writes && !at.over_reads) remember(id, actor);
  return true;
}

bool Epochs::ordered_write_group(SegmentId id, std::uint8_t pattern, Actor& actor, std::uint8_t own, bool writes) {
  if (!actor.async_proxy || !id) return ordered_group(id, pattern, actor, own, writes);
  if (pattern < first_level_pattern && is_one_lane(own) && !segments_[id].group &&
      causality_.warp_ordered_across_proxies(key_from(segments_[id].key), segments_[id].stamp,
                                             lane_of(actor.lane0, who_at(own, 0)), actor.shared))
    return true;
  for (unsigned unit = 0; unit < group_units; ++unit) {
    const std::uint8_t who = who_at(pattern, unit), me = who_at(own, unit);
    if (unit && who == who_at(pattern, unit - 1) && me == who_at(own, unit - 1)) continue;
    if (!across_proxies(id, who, actor, me, writes)) return false;
  }
  return true;
}

unsigned Epochs::widened(SegmentId segment, unsigned level, const Actor& actor) const {
  const Segment &old = segments_[segment], &now = segments_[actor.segment];
  const ThreadKey a = key_from(old.key), b = key_from(now.key);
  if (a.operation() != b.operation()) return many;
  if (old.group || now.group) return std::max<unsigned>(level, complete_operation);
  if (a.block() != b.block()) return std::max<unsigned>(level, whole_operation);
  if (a.warp() != b.warp()) return std::max<unsigned>(level, whole_block);
  return level;
}

bool Epochs::same_operation(SegmentId segment, const Actor& actor) const {
  return segment && key_from(segments_[segment].key).operation() == actor.lane0.operation();
}

bool Epochs::before_operation(SegmentId segment, const Actor& actor) const {
  const Segment& at = segments_[segment];
  const order::OperationIndex from = key_from(at.key).operation(), to = actor.lane0.operation();
  // Asked for a block that there is not, so that what some threads have waited for does not count.
  return from != to && causality_.operation_ordered(from, at.stamp, ThreadKey(to, ~0u, 0));
}

void Epochs::renumber(const Named& named) {
  SegmentId kept = 1;
  for (std::size_t id = 1; id < segments_.size(); ++id) {
    if (named.has(SegmentId(id))) segments_[kept++] = segments_[id];
  }
  for (auto& [operation, warps] : actors_) {
    for (auto& [bits, actor] : warps) {
      actor.segment = named.number(actor.segment);
      for (SegmentId& known : actor.ordered) known = named.number(known);
    }
  }
  segments_.cut(kept);
  collect_at_ = std::max<std::size_t>(1 << 16, kept + kept / 2);
  DEADHEAT_CHECK(collect_at_ <= most_segments);
}

bool Epochs::is_over(ThreadKey thread) const {
  const order::OperationIndex operation = thread.operation();
  if (operation < over_.size() && over_[operation]) return true;
  const auto blocks = over_blocks_.find(operation);
  return blocks != over_blocks_.end() && blocks->second.count(thread.block());
}

void Epochs::forget(order::OperationIndex operation) {
  over_blocks_.erase(operation);
  if (over_.size() <= operation) over_.resize(operation + 1);
  over_[operation] = true;
  actors_.erase(operation);
  recent_.fill(nullptr);
}

void Epochs::forget(ThreadKey block) {
  over_blocks_[block.operation()].insert(block.block());
  if (const auto warps = actors_.find(block.operation()); warps != actors_.end()) {
    for (unsigned warp = 0; warp < 32; ++warp) {
      warps->second.erase(ThreadKey(block.operation(), block.block(), warp * 32).bits);
    }
  }
  recent_.fill(nullptr);
}

} // namespace deadheat::detect
