#include "analyzer/order/clock.h"

#include <algorithm>

namespace deadheat::order {

namespace {

bool before(const ClockEntry& a, const ClockEntry& b) {
  return a.block != b.block ? a.block < b.block : a.group < b.group;
}

// Of the groups of a block those of one kind lie together: its own, and what was made visible to the asynchronous
// proxy.
std::uint32_t kind_of(std::uint32_t group) { return group & ~4095u; }

// Appends `entry` to a sorted list unless what is there covers it. `begin`: where entries of its block and kind begin.
void append(std::vector<ClockEntry>& entries, std::size_t& begin, const ClockEntry& entry) {
  const std::uint32_t kind = kind_of(entry.group), group = entry.group - kind;
  if (entries.empty() || entries.back().block != entry.block || kind_of(entries.back().group) != kind) {
    begin = entries.size();
  } else if (entries.back().group == entry.group) {
    entries.back().stamp = std::max(entries.back().stamp, entry.stamp);
    return;
  } else if (kind < dependency_group && group < async_group(0)) {
    const ClockEntry& widest = entries[begin];
    if (widest.group == kind + whole_block && widest.stamp >= entry.stamp) return;
    if (group >= thread_group(0)) { // covered by its warp's entry?
      const std::uint32_t warp = kind + warp_group((group - thread_group(0)) / 32);
      for (std::size_t i = begin; i < entries.size() && entries[i].group <= warp; ++i) {
        if (entries[i].group == warp && entries[i].stamp >= entry.stamp) return;
      }
    }
  }
  entries.push_back(entry);
}

}  // namespace

std::vector<ClockEntry>::const_iterator Clock::find(std::uint64_t block) const {
  return std::lower_bound(entries_.begin(), entries_.end(), block,
                          [](const ClockEntry& entry, std::uint64_t b) { return entry.block < b; });
}

Stamp Clock::seen_async(ThreadKey thread) const {
  std::uint64_t block = thread.block_bits();
  for (auto at = find(block); at != entries_.end() && at->block == block; ++at) {
    if (at->group == async_group(thread.thread())) return at->stamp;
  }
  return 0;
}

Stamp Clock::seen_warp(ThreadKey thread) const {
  std::uint64_t block = thread.block_bits();
  std::uint32_t warp = warp_group(thread.warp());
  Stamp stamp = 0;
  for (auto at = find(block); at != entries_.end() && at->block == block && at->group <= warp; ++at) {
    if (at->group == whole_block || at->group == warp) stamp = std::max(stamp, at->stamp);
  }
  return stamp;
}

Stamp Clock::seen_block(ThreadKey thread) const {
  auto at = find(thread.block_bits());
  bool whole = at != entries_.end() && at->block == thread.block_bits() && at->group == whole_block;
  return whole ? at->stamp : 0;
}

bool Clock::knows(std::uint64_t block) const {
  const auto at = find(block);
  return at != entries_.end() && at->block == block;
}

std::uint64_t Clock::blocks_seen(std::uint32_t operation, Stamp stamp, std::uint32_t except) const {
  std::uint64_t count = 0;
  std::uint64_t past = ThreadKey(operation, ~0u, 0).block_bits(),
                skipped = ThreadKey(operation, except, 0).block_bits();
  for (auto at = find(ThreadKey(operation, 0, 0).block_bits()); at != entries_.end() && at->block <= past; ++at) {
    if (at->group == whole_block && at->stamp >= stamp && at->block != skipped) ++count;
  }
  return count;
}

Stamp Clock::seen(ThreadKey thread) const { return seen_in(thread, 0); }

Stamp Clock::seen_in(ThreadKey thread, std::uint32_t space) const {
  const std::uint64_t block = thread.block_bits();
  const std::uint32_t whole = space + whole_block, warp = space + warp_group(thread.warp()),
                      own = space + thread_group(thread.thread());
  Stamp stamp = 0;
  for (auto at = find(block); at != entries_.end() && at->block == block && at->group <= own; ++at) {
    if (at->group == whole || at->group == warp || at->group == own) stamp = std::max(stamp, at->stamp);
  }
  return stamp;
}

Stamp Clock::entry(std::uint64_t block, std::uint32_t group) const {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), ClockEntry{block, group, 0}, before);
  return at != entries_.end() && at->block == block && at->group == group ? at->stamp : 0;
}

std::vector<ClockEntry> Clock::proxied(std::uint32_t space) const {
  std::vector<ClockEntry> list;
  for (const ClockEntry& entry : entries_) {
    if (kind_of(entry.group) == 0) list.push_back({entry.block, entry.group + space, entry.stamp});
  }
  return list;
}

ClockPointer Clock::join(const ClockPointer& a, const ClockPointer& b) {
  if (!a || a == b) return b;
  if (!b) return a;
  auto result = std::make_shared<Clock>();
  result->entries_.reserve(a->entries_.size() + b->entries_.size());
  std::size_t block_begin = 0;
  auto i = a->entries_.begin(), j = b->entries_.begin();
  while (i != a->entries_.end() || j != b->entries_.end()) {
    bool take_a = j == b->entries_.end() || (i != a->entries_.end() && !before(*j, *i));
    append(result->entries_, block_begin, take_a ? *i++ : *j++);
  }
  if (result->entries_ == a->entries_) return a;
  if (result->entries_ == b->entries_) return b;
  return result;
}

ClockPointer Clock::with(const ClockPointer& clock, std::vector<ClockEntry> more) {
  std::sort(more.begin(), more.end(), before);
  auto added = std::make_shared<Clock>();
  std::size_t block_begin = 0;
  for (const ClockEntry& entry : more) {
    if (entry.stamp) append(added->entries_, block_begin, entry);
  }
  return join(clock, added);
}

}  // namespace deadheat::order
